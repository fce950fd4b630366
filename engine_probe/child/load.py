"""One load of one model, from its start until nothing of it is left."""

import json
import os
import re
import signal
import socket
import threading
import time

from engine_probe import events
from engine_probe.child import http_client, log_tap, process_tree, stacks, surroundings, sweep
from engine_probe.child.members import Members, how_it_ended
from engine_probe.child.tracebacks import TracebackReader

_RECORD_LINE = re.compile(
    r"^(?:\x1b\[[0-9;]*m)*(?:\([^()]* pid=\d+[^()]*\)(?:\x1b\[[0-9;]*m)* )?(?:\x1b\[[0-9;]*m)*(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
)
_MAX_LINE = 256 * 1024
_GRACE_S = 5.0
_SCAN_S = 0.5


class Load:
    """Made by the keeper, which calls `on_text`, `on_record`, `on_exit` and `tick`; all effects are events."""

    def __init__(self, order, index, private_dir, emit):
        self.model = order["model"]
        self.order = order
        self.emit = emit
        self.finished = False
        self.ready = False
        self.members = None
        self.endpoint = None
        self._began = time.time()
        self._stopping_since = None
        self._stop_reason = None
        self._root_ended = None
        self._offset = 0
        self._partial = b""
        self._printed = TracebackReader()
        self._logged = []
        self._progress = (None, time.monotonic())
        self._pending_requests = 0
        self._hung = False
        self._next_scan = 0.0
        self._sampled_rss = 0
        self._not_wanted = threading.Event()
        self.private_dir = private_dir
        self.env, self.notes = surroundings.environment(order["env"], private_dir, index, order["argv"])
        self.tapped = log_tap.CHANNEL_VARIABLE in self.env
        self.text_fd, self.text_writer = os.pipe()
        self.channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.channel.bind(os.path.join(private_dir, "records-%d" % index))
        self.channel.setblocking(False)
        self.env.setdefault(log_tap.CHANNEL_VARIABLE, os.path.join(private_dir, "records-%d" % index))

    def prepare(self):
        """Settle the port. Raises OSError when it must be kept and is taken."""
        self.port, self.argv = 0, list(self.order["argv"])
        if self.order["grade"] != "dry":
            self.port, self.argv, note = surroundings.choose_port(self.argv, self.order.get("keep_port", False))
            if note:
                self.notes.append(note)
            key = surroundings.argument(self.argv, "--api-key") or self.env.get("VLLM_API_KEY")
            tls = surroundings.argument(self.argv, "--ssl-keyfile") is not None
            host = surroundings.argument(self.argv, "--host")
            self.endpoint = http_client.Endpoint(self.port, host, key, tls)

    def begun(self, pid):
        """The root process runs."""
        os.close(self.text_writer)
        self.text_writer = None
        self.members = Members(pid)
        self._began = time.time()
        grade = self.order["grade"]
        self.emit(events.Started(self.model, grade=grade, pid=pid, argv=self.argv, port=self.port, notes=self.notes))
        if self.endpoint:
            http_client.watch_until_ready(self.endpoint, self._not_wanted, self._on_ready)

    def _on_ready(self, models):
        # Called in the watching thread; the outbox is the keeper's alone, so only hand over.
        self.order["post"](lambda: self._became_ready(models))

    def _became_ready(self, models):
        if self._stopping_since is not None or self._root_ended is not None:
            return
        self.ready = True
        length = next((m.get("max_model_len") for m in models), None)
        served = [m.get("id", "?") for m in models]
        seconds = round(time.time() - self._began, 3)
        self.emit(events.Ready(self.model, seconds=seconds, served_models=served, max_model_len=length, port=self.port))

    def request(self, order):
        if self.endpoint is None or not self.ready:
            error = "the model is not ready" if self.endpoint else "a dry load answers no requests"
            self.emit(events.RequestAnswered(self.model, id=order["id"], path=order["path"], error=error))
            return
        self._pending_requests += 1
        self._progress = (None, time.monotonic())
        http_client.send(self.endpoint, order, lambda event: self.order["post"](lambda: self._answered(event)))

    def _answered(self, event):
        self._pending_requests -= 1
        self.emit(event)

    def on_text(self):
        """Read once. Returns how many bytes came: 0 at the end of the pipe, None when there is nothing now."""
        try:
            content = os.read(self.text_fd, 65536)
        except BlockingIOError:
            return None
        *lines, self._partial = (self._partial + content).split(b"\n")
        if len(self._partial) > _MAX_LINE or (not content and self._partial):
            lines.append(self._partial)
            self._partial = b""
        for line in lines:
            self._print(line)
        return len(content)

    def _print(self, raw):
        line = raw.decode("utf-8", "backslashreplace").rstrip("\r")
        self._printed.feed(line)
        known = self.tapped and bool(_RECORD_LINE.match(line))
        self.emit(events.Text(self.model, offset=self._offset, line=line, also_record=known))
        self._offset += len(raw) + 1

    def on_record(self):
        while True:
            try:
                content = json.loads(self.channel.recv(1 << 20))
            except BlockingIOError:
                return
            except ValueError as error:
                self.emit(events.Trouble(self.model, text="a log record could not be read: %s" % error))
                continue
            if "config_built" in content:
                self.emit(events.ConfigBuilt(self.model, **content["config_built"]))
                continue
            created = content.pop("created")
            if content.get("exception"):
                self._logged.append(content["exception"])
            self.emit(events.LogRecord(self.model, time=created, **content))

    def on_exit(self, pid, status):
        if self.members is None:
            return
        if pid in self.members.start_ticks or pid == self.members.root:
            self.members.endings[pid] = status
        if pid == self.members.root and self._root_ended is None:
            self._root_ended = time.monotonic()

    def stop(self, reason):
        """Ask politely first: a vLLM that is killed while it writes a compile cache leaves a broken one."""
        if self._stopping_since is not None or self.finished:
            return
        self._stopping_since = time.monotonic()
        self._stop_reason = reason
        self._not_wanted.set()
        if self.members is None:
            return
        try:
            os.kill(self.members.root, signal.SIGTERM)
        except ProcessLookupError:
            pass  # it is on its way out by itself

    def tick(self, processes, now):
        """About ten times a second. `processes` is None between scans."""
        if self.finished:
            return
        if self.members is None:
            if self._stopping_since is not None:
                self._end(set())
            return
        if processes is not None:
            living = self.members.update(processes)
            self.members.remember_shm(living)
            self._sample(living)
            self._check_progress(living, now)
        root_gone_s = now - self._root_ended if self._root_ended is not None else 0.0
        if self._stopping_since is not None:
            if self._root_ended is not None or now - self._stopping_since > _GRACE_S:
                self._end_by_force()
        elif self._root_ended is not None and (self.text_fd is None or root_gone_s > 2.0):
            self._end_by_force()

    def _sample(self, living):
        self.members.name_all(living)
        rows = [
            {"pid": pid, "name": self.members.titles[pid], "rss_bytes": process_tree.rss_bytes(pid)}
            for pid in sorted(living)
        ]
        sizes = [row["rss_bytes"] for row in rows if row["rss_bytes"] is not None]
        reads = [n for n in map(process_tree.read_bytes, living) if n is not None]
        total, available = process_tree.memory_info()
        self._sampled_rss = sum(sizes)
        self._sampled_read = sum(reads)
        self.emit(
            events.MemorySample(
                self.model,
                rss_bytes=sum(sizes) if sizes else None,
                processes=rows,
                host_available_bytes=available,
                host_total_bytes=total,
                read_bytes=sum(reads) if reads else None,
            )
        )

    def _check_progress(self, living, now):
        # CPU time is no progress: ranks that wait for one another spin at 100 %.
        mark = (self._offset, self._sampled_read >> 16, self._sampled_rss >> 22)
        last, since = self._progress
        if mark != last or (self.ready and not self._pending_requests):
            self._progress = (mark, now)
            self._hung = False
        elif now - since > self.order.get("hang_s", 300.0) and not self._hung:
            self._hung = True
            found = stacks.collect(self.private_dir, sorted(living), self.members.titles)
            self.emit(events.Hung(self.model, silent_seconds=round(now - since, 1), stacks=found))

    def _select(self, processes):
        return self.members.update(processes)

    def _end_by_force(self):
        swept = sweep.sweep(self._select, self.members.shm)
        self._end(swept.killed, sorted(swept.removed_shm), sorted(swept.left_behind))

    def _end(self, killed, removed_shm=(), left_behind=()):
        self._not_wanted.set()
        self.order["collect_exits"]()
        if self.text_writer is not None:
            os.close(self.text_writer)
        while self.text_fd is not None and self.on_text():
            pass
        self.on_record()
        seconds = round(time.time() - self._began, 3)
        asked = self._stopping_since is not None
        if not (asked and self._stop_reason is None) and not self._dry_and_good():
            self._report_failure(seconds)
        self.finished = True
        self.emit(
            events.Ended(
                self.model,
                seconds=seconds,
                killed_pids=sorted(killed),
                removed_shm=list(removed_shm),
                left_behind=list(left_behind),
            )
        )

    def _dry_and_good(self):
        return self.order["grade"] == "dry" and how_it_ended(self.members.endings.get(self.members.root)) == (0, None)

    def _report_failure(self, seconds):
        code, name = how_it_ended(self.members.endings.get(self.members.root)) if self.members else (None, None)
        self.emit(
            events.Failed(
                self.model,
                reason=self._stop_reason or self._how(code, name),
                exit_code=code,
                signal=name,
                processes=self.members.ended_processes() if self.members else [],
                exceptions=(self._logged + self._printed.chains + [[]])[0],
                seconds=seconds,
            )
        )

    def _how(self, code, name):
        when = "after it was ready" if self.ready else "before it was ready"
        if name:
            return "vllm was ended by %s %s" % (name, when)
        return "vllm exited with code %s %s" % ("unknown" if code is None else code, when)
