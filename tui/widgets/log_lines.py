"""Turns probe events into rows of the log pane: time, layer, level, text."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from engine_probe import events as ev
from tui.widgets.clean_text import clean

if TYPE_CHECKING:
    from engine_probe.events import Event

LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warn", "WARN": "warn", "ERROR": "error", "CRITICAL": "error"}

# vLLM's line format, 0.6 to 0.32: `(Worker pid=1) INFO 11-29 17:38:40 [core.py:133] text`
_PREFIX = re.compile(
    r"^(?:\((?P<process>\w[\w-]*?)(?:_\w+)? pid=\d+\) ?)?"
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d (?P<clock>\d\d:\d\d:\d\d)(?:\.\d+)? "
    r"\[(?P<file>[\w./-]+\.py):\d+\] ?)?"
)
_FRONTEND = re.compile(r"entrypoints|api_server|\.config|arg_utils|transformers_utils|^APIServer")
_RUNNER = re.compile(r"model_runner|model_executor|model_loader|weight_utils|base_loader|cudagraph|compilation")
_WORKER = re.compile(r"worker|executor|parallel_state|distributed|^Worker|^VllmWorker", re.IGNORECASE)
_ENGINE = re.compile(r"v1\.core|v1\.engine|engine|core\.py|kv_cache|sched|^EngineCore|^EngineCore_DP\d")


class LogRow(NamedTuple):
    """One line, clean. `clock` is local time; `layer` None when it is not known."""

    clock: str
    layer: str | None
    level: str
    text: str


def layer_of(logger: str, process: str) -> str | None:
    """The layer that printed: first by the module, else by the process."""
    for name in (logger, process):
        for pattern, layer in (
            (_FRONTEND, "frontend"),
            (_RUNNER, "model_runner"),
            (_WORKER, "worker"),
            (_ENGINE, "engine"),
        ):
            if name and pattern.search(name):
                return layer
    return None


def clock_of(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def rows_of(event: Event) -> tuple[LogRow, ...]:
    """The rows that `event` adds to the log: most events add none."""
    if isinstance(event, ev.LogRecord):
        return _record_rows(event)
    if isinstance(event, ev.Text):
        return () if event.also_record else (_text_row(event),)
    words = _words_of(event)
    if words is None:
        return ()
    text, level = words
    return (LogRow(clock_of(event.time), None, level, clean(text)),)


def _record_rows(record: ev.LogRecord) -> tuple[LogRow, ...]:
    layer = layer_of(record.logger, record.process) or "outside"
    level = LEVELS.get(record.level.upper(), "info")
    clock = clock_of(record.time)
    texts = [clean(text) for text in record.message.split("\n", 200)]
    texts += [clean(f"{link.get('type', 'exception')}: {link.get('message', '')}") for link in record.exception[:1]]
    return tuple(LogRow(clock if i == 0 else "", layer, level, text) for i, text in enumerate(texts))


def _text_row(event: ev.Text) -> LogRow:
    line = clean(event.line)
    found = _PREFIX.match(line)
    process, level, file, clock = found.group("process", "level", "file", "clock") if found else (None,) * 4
    text = line[found.end() :] if found else line
    if file:
        text = f"{file}: {text}"
    layer = layer_of(file or "", process or "") or "outside"
    return LogRow(clock or clock_of(event.time), layer, LEVELS.get(level or "", "info"), text)


def _words_of(event: Event) -> tuple[str, str] | None:
    """What the probe itself did, in words, with a level; None for events that are shown elsewhere."""
    words = _good_news(event)
    return (words, "info") if words is not None else _bad_news(event)


def _good_news(event: Event) -> str | None:
    if isinstance(event, ev.ProbeStarted):
        return f"probe runs on {event.host or 'this host'}, Python {event.python_version}"
    if isinstance(event, ev.Warmed):
        return f"engine warmed in {event.seconds:.1f} s: vLLM {event.vllm_version or 'of unknown version'}"
    if isinstance(event, ev.Started):
        return f"{event.grade} load started, pid {event.pid}: " + " ".join(event.argv)
    if isinstance(event, ev.Ready):
        return f"serving after {event.seconds:.1f} s"
    if isinstance(event, ev.RequestAnswered) and not event.error:
        return f"request {event.path}: {event.status} in {event.seconds:.1f} s"
    return None


def _bad_news(event: Event) -> tuple[str, str] | None:
    if isinstance(event, ev.Failed):
        return f"load failed after {event.seconds:.1f} s: {event.reason}", "error"
    if isinstance(event, ev.Hung):
        return f"nothing has moved for {event.silent_seconds:.0f} s", "error"
    if isinstance(event, ev.RequestAnswered):
        return f"request {event.path}: {event.error}", "error"
    if isinstance(event, ev.Ended):
        left = f"; left behind: {', '.join(event.left_behind)}" if event.left_behind else ""
        return f"load over, cleaned up{left}", "warn" if left else "info"
    if isinstance(event, ev.Trouble):
        return f"probe: {event.text}", "error" if event.fatal else "warn"
    return None
