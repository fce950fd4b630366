"""A process that has imported vLLM and forks one child a load: seconds instead of half a minute.

Never touches CUDA and starts no threads, so that its forks may. Imports are what differs from a cold start:
import faults, preloads and settings read at import need a cold one.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import time
import traceback
from typing import Any

from engine_probe.child import dry, fork_load, warm_imports


def main(channel_fd: int, model_dirs: list[str]) -> None:
    """Warm up, report, then serve loads: each message names a file with a ForkOrder, beside it the text pipe's fd."""
    channel = socket.socket(fileno=channel_fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    began = time.time()
    report: dict[str, Any]
    try:
        version = warm_imports.import_all(model_dirs)
        report = {"seconds": round(time.time() - began, 3), "version": version, "flags": dry.flags()}
        fork_load.set_title("vllm-console: warm process")
        gc.collect()
        gc.freeze()
    except BaseException:
        report = {"error": traceback.format_exc()}
    _say(channel, report)
    if "error" not in report:
        _serve(channel)


def _say(channel: socket.socket, content: dict[str, Any]) -> None:
    channel.sendall((json.dumps(content) + "\n").encode())


def _serve(channel: socket.socket) -> None:
    while True:
        message, fds, _, _ = socket.recv_fds(channel, 4096, 1)
        if not message:
            return
        try:
            _say(channel, _fork(channel, message.decode(), fds[0]))
        finally:
            os.close(fds[0])


def _fork(channel: socket.socket, order_file: str, text_fd: int) -> dict[str, Any]:
    with open(order_file, encoding="utf-8") as file:
        order = fork_load.ForkOrder(**json.load(file))
    os.unlink(order_file)
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.close(reader)
        _leave_to_keeper(channel, order, text_fd, writer)
    os.close(writer)
    os.waitpid(middle, 0)
    pid = os.read(reader, 20)
    os.close(reader)
    return {"pid": int(pid)} if pid else {"not_begun": "the warm process could not fork"}


def _leave_to_keeper(channel: socket.socket, order: fork_load.ForkOrder, text_fd: int, writer: int) -> None:
    """Fork once more and leave, so that the keeper adopts the load and sees how it ends. Never returns."""
    try:
        middle = os.getpid()
        pid = os.fork()
        if pid:
            os.write(writer, str(pid).encode())
            os._exit(0)
        os.close(writer)
        channel.close()
        fork_load.run(order, text_fd, middle)
    finally:
        os._exit(1)
