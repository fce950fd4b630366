"""Probe events as lines of a log in vLLM's own format, so that whatever reads vLLM's logs reads them too.

What the probe itself did is told in Python's common format under its own logger, which vLLM never uses.
"""

from __future__ import annotations

import re
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from engine_probe import events as ev
from engine_probe.escapes import with_visible_controls, without_escapes
from engine_probe.logs.lines import PROBE_FAILED, PROBE_LOGGER
from engine_probe.redact import mask, mask_argv

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LEVELS = frozenset({"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"})
_FILE = re.compile(r"[\w./-]+\.py")
_LINE_END = re.compile(r"\r?\n")
_NO_TAG = frozenset({"", "MainProcess"})
"""vLLM to 0.10 prints no process in front of what its first process logs."""
_BAR = re.compile(r"\d{1,3}%|\d(?:it|B)/s|s/it")
_TRACEBACK = "Traceback (most recent call last):"
_STARTED = "Application startup complete"
"""The words by which a log tells that it serves: uvicorn's own line is silent where vLLM is given a logging
configuration, because that is then uvicorn's too (vllm/config/logging.py, 0.32.0)."""
_CAUSED = "The above exception was the direct cause of the following exception:"


def lines_of(event: ev.Event) -> tuple[str, ...]:
    """The lines that `event` adds to the log, masked, without control characters: most events add none."""
    if isinstance(event, ev.Text):
        found = _printed(event.line)
    elif isinstance(event, ev.LogRecord):
        found = _record(event)
    else:
        found = _told(event)
    return tuple(with_visible_controls(mask(line)) for line in found)


def line_count(event: ev.Event) -> int:
    """How many lines `event` adds to a log; a record counts none, since its text nearly always comes too."""
    if isinstance(event, ev.LogRecord) or (isinstance(event, ev.Text) and "\r" not in event.line):
        return int(isinstance(event, ev.Text))
    return len(lines_of(event))


def _printed(line: str) -> list[str]:
    """As it came; of a bar that was drawn over itself the last state, of other text before a \\r a line of its own."""
    if "\r" not in line and "\x1b" not in line:
        return [line]
    parts = [part for part in without_escapes(line).split("\r") if part.strip()]
    others = [part for part, after in pairwise(parts) if not (_BAR.search(part) and _BAR.search(after))]
    return [*others, *parts[-1:]] or [""]


def _record(record: ev.LogRecord) -> list[str]:
    """As vLLM's own formatter prints it: each line of the message with the whole prefix (vllm/logging_utils)."""
    prefix = record_prefix(record)
    texts = [*_LINE_END.split(record.message), *_traceback(record.exception)]
    return [prefix + without_escapes(text) for text in texts]


def record_prefix(record: ev.LogRecord) -> str:
    tag = "" if record.process in _NO_TAG else f"({record.process} pid={record.pid}) "
    level = record.level if record.level in _LEVELS else "INFO"
    clock = time.strftime("%m-%d %H:%M:%S", time.localtime(record.time))
    name = record.file.rpartition("/")[2]
    file = name if _FILE.fullmatch(name) else f"{record.logger.rpartition('.')[2] or 'unknown'}.py"
    return f"{tag}{level} {clock} [{file}:{record.line}] "


def _traceback(chain: list[dict[str, Any]]) -> Iterator[str]:
    """The innermost cause first, as Python prints it; the lines of source are not known here."""
    for number, exception in enumerate(chain):
        if number > 0:
            yield from ("", _CAUSED, "")
        frames = exception.get("frames") or []
        if frames:
            yield _TRACEBACK
        for frame in frames:
            yield f'  File "{frame.get("file")}", line {frame.get("line")}, in {frame.get("function")}'
        yield from _LINE_END.split(_raised(exception))


def _raised(exception: Mapping[str, Any]) -> str:
    kind, message = str(exception.get("type") or "Exception"), str(exception.get("message") or "")
    return f"{kind}: {message}" if message else kind


def _told(event: ev.Event) -> list[str]:
    """What the probe itself did; nothing for events that are shown elsewhere."""
    words = _good_news(event)
    told = ("INFO", words) if words is not None else _bad_news(event)
    return [] if told is None else probe_lines(event.time, *told)


def probe_lines(seconds: float, level: str, words: str) -> list[str]:
    """`words` as the probe's own record; further lines are set in, and belong to it."""
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    thousandths = int(seconds % 1 * 1000)
    first, *others = _LINE_END.split(without_escapes(words))
    return [f"{clock},{thousandths:03} - {PROBE_LOGGER} - {level} - {first}", *(f"  {line}" for line in others)]


def _good_news(event: ev.Event) -> str | None:  # noqa: PLR0911 - one a kind
    of = f" of {event.model}" if event.model else ""
    if isinstance(event, ev.ProbeStarted):
        return f"probe runs on {event.host or 'this host'}, Python {event.python_version}"
    if isinstance(event, ev.Warmed):
        return f"engine warmed in {event.seconds:.1f} s: vLLM {event.vllm_version or 'of unknown version'}"
    if isinstance(event, ev.Started):
        command = " ".join(mask_argv(event.argv))
        return "\n".join([f"{event.grade} load{of} started, pid {event.pid}: {command}", *event.notes])
    if isinstance(event, ev.ConfigBuilt):
        return f"the configuration{of} was built in {event.seconds:.1f} s"
    if isinstance(event, ev.Ready):
        return f"{_STARTED}: {event.model or 'the model'} answers after {event.seconds:.1f} s"
    if isinstance(event, ev.RequestAnswered) and not event.error:
        return f"request {event.path}: {event.status} in {event.seconds:.1f} s"
    if isinstance(event, ev.BurstAnswered) and not event.error:
        clients = f"{event.at_once} at once for {event.seconds:.1f} s"
        return f"requests {event.path}, {clients}: {event.answered} answered, {event.failed} failed"
    return None


def _bad_news(event: ev.Event) -> tuple[str, str] | None:
    of = f" of {event.model}" if event.model else ""
    if isinstance(event, ev.Failed):
        return "ERROR", f"load{of}{PROBE_FAILED}{event.seconds:.1f} s: {event.reason}"
    if isinstance(event, ev.Hung):
        return "ERROR", "\n".join([f"nothing has moved for {event.silent_seconds:.0f} s", *_stacks(event.stacks)])
    if isinstance(event, (ev.RequestAnswered, ev.BurstAnswered)):
        return "ERROR", f"request {event.path}: {event.error}"
    if isinstance(event, ev.Ended):
        left = f"; left behind: {', '.join(event.left_behind)}" if event.left_behind else ""
        return "WARNING" if left else "INFO", f"load{of} over, cleaned up{left}"
    if isinstance(event, ev.Trouble):
        return "ERROR" if event.fatal else "WARNING", f"probe: {event.text}"
    return None


def _stacks(stacks: list[dict[str, Any]]) -> Iterator[str]:
    for one in stacks:
        yield f"{one.get('name')} (pid {one.get('pid')}): {one.get('unavailable') or 'stands at'}"
        for text in one.get("stack") or []:
            yield from (f"  {line}" for line in str(text).splitlines())
