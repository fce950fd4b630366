"""One load of one model, from its start until nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

from engine_probe import events
from engine_probe.child import http_client, listeners, log_tap, ports, process_tree, surroundings
from engine_probe.child.failure import failure
from engine_probe.child.members import Members
from engine_probe.child.open_requests import OpenRequests, refused
from engine_probe.child.progress import Progress
from engine_probe.child.record_channel import RecordChannel
from engine_probe.child.text_pipe import TextPipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.child.context import Context
    from engine_probe.child.orders import BurstOrder, LoadOrder, RequestOrder
    from engine_probe.child.process_tree import Process

_GRACE_S = 5.0
_LAST_WORDS_S = 2.0
_LISTENS_WITHIN_S = 5.0


class Load:
    """Made and called by the keeper; all effects are events. After `finished` it says nothing more.

    Making one raises OSError when its port must be kept and is taken, or its pipes cannot be had.
    """

    def __init__(
        self, order: LoadOrder, index: int, context: Context, beside: Mapping[int, str] = ports.NOBODY
    ) -> None:
        """`beside`: the other loads' models by the port that they were given."""
        self.model = order.model
        self.order = order
        self.grade = order.grade
        self.finished = False
        self.awaits_pid = False
        self.port, self.argv, note, self._promise = _port(order, beside)
        around = surroundings.surround(order.env, order.argv, context.private_dir, index)
        self.env = around.env
        self.notes = around.notes + ([note] if note else [])
        self.records = RecordChannel(around.channel, self.model, context.emit)
        self.text = TextPipe(self.model, around.tapped, context.emit)
        self.members = Members(self.text.inode, f"{log_tap.CHANNEL_VARIABLE}={around.channel}")
        self._context = context
        self._endpoint = None if self.grade == "dry" else http_client.endpoint_of(self.port, self.argv, self.env)
        self._requests = OpenRequests(context)
        self._progress = Progress(self.model, self.members, context, order.hang_s, time.monotonic())
        self._began = time.time()
        self._is_ready = False
        self._started_at: float | None = None
        self._root_ended: float | None = None
        self._stopping_since: float | None = None
        self._stop_reason: str | None = None
        self._not_wanted = threading.Event()
        context.watch_pipe(self.text.inode)

    @property
    def is_over(self) -> bool:
        """Finished, or asked to be: nothing more is to be started for it."""
        return self.finished or self._stopping_since is not None

    def begun(self, pid: int) -> None:
        """The root process runs."""
        self.awaits_pid = False
        if self.finished:
            _kill_child(pid)
            return
        self.text.close_writer()
        self.members.begin(pid)
        self._began = time.time()
        self._context.emit(
            events.Started(self.model, grade=self.grade, pid=pid, argv=self.argv, port=self.port, notes=self.notes)
        )
        status = self._context.claim_exit(pid)
        if status is not None:
            self.on_exit(pid, status)
        if self._stopping_since is not None:
            self._ask_to_end()
        elif self._endpoint is not None:
            self._watch(self._endpoint)

    def become_cold(self, note: str) -> None:
        self.grade = "cold"
        self.notes.append(note)

    def not_begun(self, reason: str) -> None:
        """No root process will come."""
        self.awaits_pid = False
        self.stop(reason)

    def request(self, order: RequestOrder | BurstOrder) -> None:
        if self._endpoint is None:
            self._context.emit(refused(order, "a dry load answers no requests"))
        elif not self._is_ready or self._stopping_since is not None:
            self._context.emit(refused(order, "the model is not ready"))
        else:
            self._progress.restart(time.monotonic())
            self._requests.send(self._endpoint, order)

    def stop(self, reason: str | None) -> None:
        """Ask politely first: a vLLM that is killed while it writes a compile cache leaves a broken one.

        A load that has ended by itself stays what it is, a failure.
        """
        self._context.collect_exits()
        if self._stopping_since is not None or self._root_ended is not None or self.finished:
            return
        self._stopping_since = time.monotonic()
        self._stop_reason = reason
        self._not_wanted.set()
        self._requests.stop_bursts("the load was stopped")
        self._ask_to_end()

    def on_exit(self, pid: int, status: int) -> bool:
        """A process has ended; False when it is none of this load."""
        if not self.members.on_exit(pid, status):
            return False
        if pid == self.members.root and self._root_ended is None:
            self._root_ended = time.monotonic()
        return True

    def tick(self, processes: Mapping[int, Process] | None, now: float) -> None:
        """Some twenty times a second. `processes` is None between scans."""
        if self.finished:
            return
        if processes is not None and self.members.root is not None:
            living = self.members.update(processes)
            self.members.remember_shm(living)
            is_idle = self._is_ready and self._requests.is_empty
            sample = self._progress.check(living, self.text.offset, is_idle, now)
            self._requests.sampled(sample.rss_bytes, living)
            if self.members.root not in processes and self._root_ended is None:
                self._root_ended = now  # someone else has reaped it
            self._look_who_listens(now)
        if self._is_over(now):
            self._end()

    def _look_who_listens(self, now: float) -> None:
        """Two that bind one port before either listens both say that they have started: uvloop drops the error."""
        if self._is_ready or self._endpoint is None or not self.text.has_started:
            return
        self._started_at = self._started_at or now
        is_due = now - self._started_at > _LISTENS_WITHIN_S
        if is_due and not listeners.may_listen(tuple(self.members.start_ticks), self.port):
            self.stop(f"port {self.port} is another server's: this one has started and does not listen there")

    def close(self) -> None:
        """Free what is still open, once finished."""
        self.records.close()
        self.text.close()

    def _watch(self, endpoint: http_client.Endpoint) -> None:
        """Both calls come in the watching thread: the outbox is the keeper's alone, so only hand over."""
        members, context = self.members, self._context
        http_client.watch_until_ready(
            endpoint,
            self._not_wanted,
            lambda: listeners.may_listen(tuple(members.start_ticks), endpoint.port),
            lambda served, length: context.post(lambda: self._became_ready(served, length)),
        )

    def _became_ready(self, served: list[str], max_model_len: int | None) -> None:
        if self._stopping_since is not None or self._root_ended is not None or self.finished:
            return
        self._is_ready = True
        seconds = round(time.time() - self._began, 3)
        self._context.emit(
            events.Ready(self.model, seconds=seconds, served_models=served, max_model_len=max_model_len, port=self.port)
        )

    def _ask_to_end(self) -> None:
        """What it maps is read first: one without a handler for the signal takes the maps along at once."""
        if self.members.root is not None and self._root_ended is None:
            self.members.remember_shm(self.members.update(process_tree.read_all()))
            with contextlib.suppress(ProcessLookupError):  # it is on its way out by itself
                os.kill(self.members.root, signal.SIGTERM)
                os.kill(self.members.root, signal.SIGCONT)  # one that was stopped cannot hear the first

    def _is_over(self, now: float) -> bool:
        if self._stopping_since is not None:
            has_root = self.members.root is not None or self.awaits_pid
            return not has_root or self._root_ended is not None or now - self._stopping_since > _GRACE_S
        if self._root_ended is None:
            return False
        return not self.text.is_open or now - self._root_ended > _LAST_WORDS_S

    def _end(self) -> None:
        self._not_wanted.set()
        swept = self._context.sweep(self.members.update, self.members.shm, self.members.shm_before)
        self._context.collect_exits()
        self.text.close_writer()
        self.text.drain()
        self.records.read()
        self._requests.fail_all("the load ended before an answer came")
        seconds = round(time.time() - self._began, 3)
        was_asked = self._stopping_since is not None and self._stop_reason is None
        if not was_asked and not self._has_config():
            chains = [*self.records.exceptions, *self.text.tracebacks.chains]
            reason, kills = self._stop_reason, self._progress.oom_kills()
            self._context.emit(failure(self.model, self.members, chains, seconds, self._is_ready, reason, kills))
        if self._promise is not None:
            self._promise.close()
        self.finished = True
        self._context.emit(
            events.Ended(
                self.model,
                seconds=seconds,
                killed_pids=sorted(swept.killed),
                removed_shm=sorted(swept.removed_shm),
                left_behind=sorted(swept.left_behind),
            )
        )

    def _has_config(self) -> bool:
        """A dry load that did what it was for."""
        return self.records.has_config and self.members.root_ending() == (0, None)


def _port(order: LoadOrder, beside: Mapping[int, str]) -> ports.Port:
    if order.grade == "dry":
        return ports.no_port(order.argv)
    if order.conditions.get("port_stays"):
        return ports.the_launchs_own(order.argv)
    return ports.choose_port(order.argv, order.keep_port, beside)


def _kill_child(pid: int) -> None:
    """A root that reports only after its load was given up."""
    process = process_tree.read_one(pid)
    if process is not None and process.ppid == os.getpid():
        os.kill(pid, signal.SIGKILL)
