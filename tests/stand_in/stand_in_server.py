"""Stands where vLLM would, for what vLLM cannot be made to do on demand: ignore signals, hang, print garbage.

Run by the keeper as `python -m stand_in_server BEHAVIOUR --port N`.
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing import shared_memory


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self._answer({"data": [{"id": "stand-in", "max_model_len": 64}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body.get("prompt") == "refuse":
            self._answer({"error": {"message": "too long"}}, 400)
            return
        usage = {"prompt_tokens": 3, "completion_tokens": 2}
        self._answer({"choices": [{"text": "hello", "finish_reason": "length"}], "usage": usage})

    def _answer(self, content, status=200):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *args):
        pass


def serve(port):
    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


def stubborn_tree():
    """A grandchild in a session of its own that ignores SIGTERM and holds shared memory."""
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        held = shared_memory.SharedMemory(create=True, size=4096)
        print("holding", held.name, os.getpid(), flush=True)
        while True:
            time.sleep(3600)
    os.wait()


def main():
    behaviour = sys.argv[1]
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if behaviour == "tree":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stubborn_tree()
        serve(port)
    elif behaviour == "serve":
        serve(port)
    elif behaviour == "hang":
        print("about to hang", flush=True)
        threading.Event().wait()
    elif behaviour == "die-by-signal":
        print("dying", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif behaviour == "traceback":
        try:
            raise ValueError("the pool is too small\n  by far")
        except ValueError as error:
            raise RuntimeError("Engine core initialization failed.") from error
    elif behaviour == "garbage":
        out = sys.stdout.buffer
        out.write(b"\xff\xfe not utf-8\n")
        out.write(b"\x1b[31mred\x1b[0m [bold]markup[/bold]\n")
        out.write(b"x" * 1_000_000 + b"\n")
        out.write(b"token hf_abcdefghijklmnopqrstuvwxyz0123456789\n")
        out.write(b"progress 1\rprogress 2\n")
        out.write(b"no line end")
        out.flush()


main()
