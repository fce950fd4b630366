"""Stands where vLLM would, for what vLLM cannot be made to do on demand: ignore signals, hang, print garbage.

Run by the keeper as `python -m stand_in_server BEHAVIOUR --port N`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """`refuse` and `never` as a prompt ask for what they say."""

    def do_GET(self) -> None:
        self._answer({"data": [{"id": "stand-in", "max_model_len": 64}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body.get("prompt") == "refuse":
            self._answer({"error": {"message": "too long"}}, 400)
            return
        if body.get("prompt") == "never":
            os.write(1, b"asked\n")  # one write: two threads' prints may share a line
            threading.Event().wait()
        usage = {"prompt_tokens": 3, "completion_tokens": 2}
        self._answer({"choices": [{"text": "hello", "finish_reason": "length"}], "usage": usage})

    def _answer(self, content: dict[str, Any], status: int = 200) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *args: Any) -> None:
        pass


def serve(port: int) -> None:
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def serve_stubbornly(port: int) -> None:
    """A grandchild in a session of its own that ignores SIGTERM and holds shared memory."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        held = shared_memory.SharedMemory(create=True, size=4096)
        print("holding", held.name, os.getpid(), flush=True)
        while True:
            time.sleep(3600)
    os.wait()
    serve(port)


def serve_with_shm(port: int) -> None:
    """No handler for SIGTERM: only the resource tracker, once this has died, knows what it made."""
    held = shared_memory.SharedMemory(create=True, size=4096)
    print("holding", held.name, os.getpid(), flush=True)
    serve(port)


def serve_with_unmapped_shm(port: int) -> None:
    """No maps tell of it either."""
    held = shared_memory.SharedMemory(create=True, size=4096)
    held.close()
    print("holding", held.name, os.getpid(), flush=True)
    serve(port)


def serve_with_untracked_shm(port: int) -> None:
    """Nobody but its maps tells of it."""
    held = shared_memory.SharedMemory(create=True, size=4096)
    resource_tracker.unregister("/" + held.name, "shared_memory")
    print("holding", held.name, os.getpid(), flush=True)
    serve(port)


def hang(_port: int) -> None:
    print("about to hang", flush=True)
    threading.Event().wait()


def start_and_not_listen(_port: int) -> None:
    print("INFO:     Application startup complete.", flush=True)
    threading.Event().wait()


def die_by_signal(_port: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fail(_port: int) -> None:
    try:
        raise ValueError("the pool is too small\n  by far")
    except ValueError as error:
        raise RuntimeError("Engine core initialization failed.") from error


def print_garbage(_port: int) -> None:
    out = sys.stdout.buffer
    out.write(b"\xff\xfe not utf-8\n")
    out.write(b"\x1b[31mred\x1b[0m [bold]markup[/bold]\n")
    out.write(b"x" * 1_000_000 + b"\n")
    out.write(b"token hf_abcdefghijklmnopqrstuvwxyz0123456789\n")
    out.write(b"progress 1\rprogress 2\n")
    out.write(b"no line end")
    out.flush()


def flood(_port: int) -> None:
    """More than the keeper keeps for a console that does not read; says in a file when all of it was taken."""
    line = b"y" * 200_000 + b"\n"
    for _ in range(400):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    Path(os.environ["FLOODED"]).touch()


def chatter(_port: int) -> None:
    """Many short lines, as fast as they are taken."""
    for number in range(60_000):
        print("line", number)


def tell(_port: int) -> None:
    """How large the environment arrived, and the word in it."""
    print("told", len(os.environ.get("LARGE", "")), os.environ.get("TMPDIR"), flush=True)


BEHAVIOURS = {
    "serve": serve,
    "tree": serve_stubbornly,
    "shm": serve_with_shm,
    "unmapped-shm": serve_with_unmapped_shm,
    "untracked-shm": serve_with_untracked_shm,
    "hang": hang,
    "deaf": start_and_not_listen,
    "die-by-signal": die_by_signal,
    "traceback": fail,
    "garbage": print_garbage,
    "flood": flood,
    "chatter": chatter,
    "tell": tell,
}

if __name__ == "__main__":
    BEHAVIOURS[sys.argv[1]](int(sys.argv[sys.argv.index("--port") + 1]))
