"""Turns probe events into rows of the log pane: time, layer, level, text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from engine_probe import events as ev
from engine_probe.logs.layers import layer_of_logger, layer_of_process, layer_of_record
from engine_probe.logs.lines import read_line
from tui.widgets.clean_text import clean

if TYPE_CHECKING:
    from engine_probe.events import Event

LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warn", "WARN": "warn", "ERROR": "error", "CRITICAL": "error"}


class LogRow(NamedTuple):
    """One line, clean. `clock` is local time; `layer` None when it is not known."""

    clock: str
    layer: str | None
    level: str
    text: str


def layer_of(logger: str, process: str) -> str | None:
    """The layer that logged: by its module, else, where modules are shared, by the process. None: not known."""
    layer = layer_of_logger(logger) if logger else "unknown"
    layer = layer if layer != "unknown" else layer_of_process(process)
    return None if layer == "unknown" else layer


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
    layer = layer_of(record.logger, record.process)
    level = LEVELS.get(record.level.upper(), "info")
    clock = clock_of(record.time)
    texts = [clean(text) for text in record.message.split("\n", 200)]
    texts += [clean(f"{link.get('type', 'exception')}: {link.get('message', '')}") for link in record.exception[:1]]
    return tuple(LogRow(clock if i == 0 else "", layer, level, text) for i, text in enumerate(texts))


def _text_row(event: ev.Text) -> LogRow:
    line = read_line(clean(event.line))
    text = f"{line.file}: {line.message}" if line.file else line.message
    layer = layer_of_record(line, line.message, (), None, None, line.process)
    return LogRow(
        clock_of(event.time), None if layer == "unknown" else layer, LEVELS.get(line.level or "", "info"), text
    )


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
