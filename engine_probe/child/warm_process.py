"""The keeper's side of the warm process: starts it, hands loads over, notices when it dies."""

import json
import os
import selectors
import socket
import subprocess
import sys

from engine_probe import events
from engine_probe.child import surroundings


class WarmProcess:
    """Loads that come before it is warm wait; when it cannot get warm they fail with its own words."""

    def __init__(self, keeper, model_dirs, import_env):
        self.keeper = keeper
        self.import_env = import_env
        self.ready = False
        self.error = None
        self._waiting = []
        self._handed_over = []
        self._answers = b""
        self._output = b""
        ours, theirs = socket.socketpair()
        reader, writer = os.pipe()
        env = dict(os.environ, TMPDIR=keeper.private_dir, **import_env)
        archive = os.path.join(keeper.private_dir, "child.zip")
        self.process = subprocess.Popen(
            [sys.executable, archive, "--warm", str(theirs.fileno()), json.dumps(model_dirs)],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            env=env,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        os.close(writer)
        self._channel, self._reader = ours, reader
        keeper.selector.register(ours, selectors.EVENT_READ, self._on_answer)
        keeper.selector.register(reader, selectors.EVENT_READ, self._on_output)
        keeper.send(events.Warming())

    def can_show(self, load):
        """False, with a note on the load, where a setting is read at import and this process imported without it."""
        wanted = surroundings.read_at_import(load.order["env"])
        names = sorted(set(wanted) | set(self.import_env))
        changed = [name for name in names if wanted.get(name) != self.import_env.get(name)]
        if changed:
            load.notes.append("cold instead of warm: %s is read when vLLM is imported" % ", ".join(changed))
        return not changed

    def load(self, load):
        if self.error is not None:
            load.stop(self.error)
        elif not self.ready:
            self._waiting.append(load)
        else:
            self._hand_over(load)

    def _hand_over(self, load):
        keys = ("grade", "cwd")
        order = dict({key: load.order[key] for key in keys}, argv=load.argv, env=load.env, private_dir=load.private_dir)
        try:
            socket.send_fds(self._channel, [json.dumps(order).encode()], [load.text_writer])
        except OSError as error:
            load.stop("the warm process is gone: %s" % error)
            return
        self._handed_over.append(load)

    def _on_answer(self):
        try:
            content = self._channel.recv(65536)
        except OSError:
            content = b""
        if not content:
            self._died()
            return
        *lines, self._answers = (self._answers + content).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if "pid" in answer:
                self._handed_over.pop(0).begun(answer["pid"])
            elif "error" in answer:
                self.error = self._explain(answer["error"])
            else:
                self._became_ready(answer)

    def _became_ready(self, answer):
        self.ready = True
        self.keeper.send(
            events.Warmed(seconds=answer["seconds"], vllm_version=answer["version"], flags=answer["flags"])
        )
        waiting, self._waiting = self._waiting, []
        for load in waiting:
            if not load.finished:
                self._hand_over(load)

    def _explain(self, traceback_text):
        last = [line for line in traceback_text.strip().splitlines() if line.strip()][-1]
        self.keeper.send(events.Trouble(text="vLLM cannot be imported: %s\n%s" % (last, traceback_text), fatal=True))
        return "vLLM cannot be imported: " + last

    def _died(self):
        self.keeper.selector.unregister(self._channel)
        self._channel.close()
        if self.error is None:
            tail = self._output.decode("utf-8", "replace").strip().splitlines()[-1:]
            self.error = "the warm process ended" + (": " + tail[0] if tail else "")
            self.keeper.send(events.Trouble(text=self.error, fatal=not self.ready))
        self.ready = False
        for load in self._waiting + self._handed_over:
            load.stop(self.error)
        self._waiting, self._handed_over = [], []

    def _on_output(self):
        content = os.read(self._reader, 65536)
        self._output = (self._output + content)[-100000:]
        if not content:
            self.keeper.selector.unregister(self._reader)
            os.close(self._reader)

    def on_exit(self, pid, status):
        if pid == self.process.pid:
            self.process.returncode = status
