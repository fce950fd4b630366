"""Stays small and outlives what it starts: takes orders, runs loads, reports events, leaves nothing behind.

The console's end of the pipe is its heartbeat: when that closes, by `kill -9` too, every load is ended.
"""

import ctypes
import json
import os
import platform
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque

from engine_probe import events
from engine_probe.child import process_tree, surroundings, sweep, watchdog
from engine_probe.child.load import Load
from engine_probe.child.outbox import Outbox

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_TICK_S = 0.05
_SCAN_S = 0.5


class Keeper:
    """One loop over orders, texts, records and the warm process; nothing in it blocks for long."""

    def __init__(self, private_dir):
        self.private_dir = private_dir
        events_fd = os.dup(1)
        os.dup2(2, 1)  # whatever else is printed must not end up among the events
        self.outbox = Outbox(events_fd)
        self.selector = selectors.DefaultSelector()
        self.loads = {}
        self.started_loads = 0
        self.ending = False
        self._orders = b""
        self._posted = deque()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        self._processes_started = []
        self.warm = None

    def run(self):
        self._watchdog_pid, watchdog_fd = watchdog.start(
            "CONSOLE_PROBE=" + os.path.basename(self.private_dir), self.private_dir
        )
        _call_prctl(_PR_SET_CHILD_SUBREAPER, 1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self._end())
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.set_blocking(0, False)
        self.selector.register(0, selectors.EVENT_READ, self._on_orders)
        self.selector.register(self._wake_reader, selectors.EVENT_READ, self._on_wake)
        self.send(
            events.ProbeStarted(
                pid=os.getpid(), python=sys.executable, python_version=platform.python_version(), host=platform.node()
            )
        )
        self._loop()
        self._leave(watchdog_fd)

    def send(self, event):
        self.outbox.send(event)

    def post(self, action):
        """Run `action` in the loop; the one way in for other threads."""
        self._posted.append(action)
        try:
            os.write(self._wake_writer, b"x")
        except BlockingIOError:
            pass  # the pipe is full of wake-ups already

    def _loop(self):
        next_scan = 0.0
        while not (self.ending and all(load.finished for load in self.loads.values())):
            for key, _ in self.selector.select(_TICK_S):
                key.data()
            self.outbox.flush()
            if self.outbox.broken:
                self._end()
            self.collect_exits()
            now = time.monotonic()
            scan = process_tree.read_all() if now >= next_scan and self.loads else None
            if scan is not None:
                next_scan = now + _SCAN_S
            for load in list(self.loads.values()):
                load.tick(scan, now)
                if load.finished and load.channel is not None:
                    self._forget(load)

    def _on_wake(self):
        os.read(self._wake_reader, 4096)
        while self._posted:
            self._posted.popleft()()

    def collect_exits(self):
        for pid, status in sweep.reap().items():
            for load in self.loads.values():
                load.on_exit(pid, status)
            if self.warm is not None:
                self.warm.on_exit(pid, status)

    def _on_orders(self):
        try:
            content = os.read(0, 65536)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        if not content:
            self.selector.unregister(0)
            self._end()
            return
        *lines, self._orders = (self._orders + content).split(b"\n")
        for line in lines:
            if line.strip():
                self._obey(line)

    def _obey(self, line):
        try:
            order = json.loads(line)
            getattr(self, "_do_" + order["do"])(order)
        except (ValueError, KeyError, AttributeError, TypeError, OSError) as error:
            self.send(events.Trouble(text="an order failed: %s: %s" % (type(error).__name__, error)))

    def _do_warm(self, order):
        if self.warm is None:
            from engine_probe.child.warm_process import WarmProcess

            env = surroundings.read_at_import(order.get("env", {}))
            self.warm = WarmProcess(self, order.get("model_dirs", []), env)

    def _do_load(self, order):
        if order["model"] in self.loads and not self.loads[order["model"]].finished:
            raise ValueError("%s is loaded already" % order["model"])
        order.update(post=self.post, collect_exits=self.collect_exits)
        order["cwd"] = order.get("cwd") or os.path.expanduser("~")
        load = Load(order, self.started_loads, self.private_dir, self.send)
        self.started_loads += 1
        self.loads[load.model] = load
        os.set_blocking(load.text_fd, False)
        self.selector.register(load.text_fd, selectors.EVENT_READ, lambda: self._on_text(load))
        self.selector.register(load.channel, selectors.EVENT_READ, load.on_record)
        try:
            load.prepare()
        except OSError as error:
            load.stop(str(error))
            return
        if order["grade"] == "warm" and self.warm is not None and not self.warm.can_show(load):
            order["grade"] = "cold"
        if order["grade"] == "cold":
            self._start_cold(load)
        else:
            self._do_warm(order)
            self.warm.load(load)

    def _start_cold(self, load):
        try:
            process = subprocess.Popen(
                surroundings.command(load.argv),
                stdin=subprocess.DEVNULL,
                stdout=load.text_writer,
                stderr=load.text_writer,
                env=load.env,
                cwd=load.order["cwd"],
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            load.stop("vllm could not be started: %s" % error)
            return
        self._processes_started.append(process)
        load.begun(process.pid)

    def _on_text(self, load):
        if load.text_fd is not None and load.on_text() == 0:
            self._forget_text(load)

    def _forget_text(self, load):
        if load.text_fd is not None:
            self.selector.unregister(load.text_fd)
            os.close(load.text_fd)
            load.text_fd = None

    def _forget(self, load):
        self._forget_text(load)
        self.selector.unregister(load.channel)
        load.channel.close()
        load.channel = None

    def _do_request(self, order):
        self.loads[order["model"]].request(order)

    def _do_stop(self, order):
        self.loads[order["model"]].stop(order.get("reason"))

    def _do_end(self, order):
        self._end()

    def _end(self):
        self.ending = True
        for load in self.loads.values():
            load.stop(None)

    def _leave(self, watchdog_fd):
        """All loads have ended; what still descends from us goes too, then our folder."""
        me, spared = os.getpid(), {os.getpid(), self._watchdog_pid}

        def descendants(processes):
            return process_tree.descendants(processes, {me}) - spared

        swept = sweep.sweep(descendants)
        if swept.left_behind:
            self.send(events.Trouble(text="could not end: " + ", ".join(sorted(swept.left_behind))))
        shutil.rmtree(self.private_dir, ignore_errors=True)
        deadline = time.monotonic() + 5.0
        while self.outbox.wants_to_write and time.monotonic() < deadline:
            time.sleep(0.01)
            self.outbox.flush()
        os.write(watchdog_fd, b"x")


def _call_prctl(option, value):
    try:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # no such call here: sessions and the mark in the environment still find descendants


def _die_with_parent():
    _call_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main():
    Keeper(sys.argv[1]).run()
