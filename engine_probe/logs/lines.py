"""Reads one text line of a log: who put what in front of it, level, place, process and message.

The shapes are data (data/formats.tsv): vLLM's own, those of the writers beside it, and what containers, journals and
supervisors put in front. JSON lines are read as JSON. A line of no known shape is all message: nothing is thrown away.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from engine_probe.literals import plain
from engine_probe.logs.json_lines import envelope_in, object_in, record_in
from engine_probe.logs.shapes import shapes, split_shapes

if TYPE_CHECKING:
    from engine_probe.logs.shapes import Shape

PROBE_LOGGER = "vllm_console.probe"
"""Of what a probe says of itself in the log of its loads (run_log_lines.py)."""
PROBE_FAILED = " failed after "
"""In what a probe says of a load that it gave up or saw end: `load of chat failed after 9.0 s: …`."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[()][A-Za-z0-9]|\x1b[=>78cDEHM]")
_LEVELS = {
    "I": "INFO",
    "W": "WARNING",
    "E": "ERROR",
    "F": "CRITICAL",
    "V": "DEBUG",
    "WARN": "WARNING",
    "TRACE": "DEBUG",
    "ABORT": "ERROR",
    "VERSION": "INFO",
    "FATAL": "CRITICAL",
    "EXCEPTION": "ERROR",
}
_STAMP = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d ")
# VLLM_LOGGING_PREFIX is free text in front of the level, or of the process from 0.31.0 on (vllm/logger.py).
_USER = re.compile(
    r"(?P<user>.{0,120}?)(?=(?:\([A-Za-z_][\w .=-]{0,80}? pid=\d{1,10}\) )?"
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./-]+\.py:\d{1,7}\])"
)
_REPEATED = re.compile(r" ?\[repeated (?P<times>\d{1,9})x across cluster\](?: \(Ray deduplicates .*)?$")
_SIMPLE_GROUPS = ("process", "pid", "level", "time", "file", "line", "message")
_FRAME = " │┃"
"""The right side of a frame, with what fills the line up to it."""
_MOST_PREFIXES = 8
_LONGEST_LINE = 1_000_000


class Line(NamedTuple):
    """What one line says of itself; None where it does not. `message` is never None."""

    message: str
    level: str | None = None
    file: str | None = None
    line: int | None = None
    process: str | None = None
    pid: int | None = None
    rank: int | None = None
    time: str | None = None
    """As the writer wrote it: vLLM's own has no year."""
    stamp: str | None = None
    """As the innermost container, journal or supervisor wrote it."""
    logger: str | None = None
    format: str | None = None
    """The shape in data/formats.tsv, `json`, or None: a bare line."""
    source: str | None = None
    """Container, pod or unit, where a prefix names it."""
    prefixes: tuple[str, ...] = ()
    """What was peeled, outermost first."""
    repeats: int = 1
    """Times that ray says it was printed."""
    is_continued: bool = False
    """Ended in a carriage return: vLLM prints one at the end of each line of a record but the last."""


def read_line(text: str) -> Line:
    """Split `text` (one line, with or without its end) into its parts. Never raises."""
    text = text[:_LONGEST_LINE].removesuffix("\n")
    is_continued = text.endswith("\r")
    rest = visible(text)
    if (simple := _read_simple(rest, is_continued)) is not None:
        return simple
    known = plain(rest)
    line, rest = _peel(Line("", is_continued=is_continued), rest, known)
    if rest.startswith("{") and rest.rstrip().endswith("}"):
        from_json = _read_json(rest, line)
        if from_json is not None:
            return from_json
    return _read_rest(line, rest, known)


@lru_cache(maxsize=1)
def _simple_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """vLLM's own shapes with at most a process tag in front, each as one pattern: these are most lines."""
    tag = next(shape.source for shape in shapes() if shape.name == "process")
    _, own, _ = split_shapes()
    return tuple((shape.name, re.compile(f"(?:{tag})?{shape.source}", re.DOTALL)) for shape in own)


@lru_cache(maxsize=1)
def _bare_of_process() -> re.Pattern[str]:
    """A line of a traceback or a message, which begins with a blank, behind a process tag."""
    tag = next(shape.source for shape in shapes() if shape.name == "process")
    return re.compile(f"{tag}(?P<message>[ \\t].*)", re.DOTALL)


def _read_simple(text: str, is_continued: bool) -> Line | None:
    """The quick way for what needs no peeling: a plain line of vLLM, or one that begins with a blank and so is bare."""
    if text[:1].isspace():
        return Line(text, is_continued=is_continued)
    if text[:1] == "(" and (bare := _bare_of_process().match(text)) is not None:
        return _read_bare(bare, is_continued)
    for name, pattern in _simple_patterns():
        match = pattern.match(text)
        if match is None:
            continue
        process, pid, level, time, file, line, message = match.group(*_SIMPLE_GROUPS)
        if "[repeated " in message or (process is not None and " " in process):
            return None
        return Line(
            message,
            level,
            file,
            int(line),
            process,
            _number(pid),
            time=time,
            format=name,
            prefixes=("process",) if process is not None else (),
            is_continued=is_continued,
        )
    return None


def _read_bare(bare: re.Match[str], is_continued: bool) -> Line | None:
    process, message = bare["process"], bare["message"]
    if " " in process or "[repeated " in message or _STAMP.search(message):
        return None
    return Line(message, process=process, pid=_number(bare["pid"]), prefixes=("process",), is_continued=is_continued)


def visible(text: str) -> str:
    """What a terminal shows of `text`: no codes, and of what was drawn over only the last that is not empty."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        pieces = [piece for piece in text.rstrip("\r\n").split("\r") if piece.strip()]
        text = pieces[-1] if pieces else ""
    return text.rstrip("\r\n")


def _peel(line: Line, rest: str, known: str) -> tuple[Line, str]:
    """Take off what stands in front, over and over; the innermost process and rank count.

    `known`: the plain form (literals.py) of the line, here and below.
    """
    prefixes, own, _ = split_shapes()
    for _ in range(_MOST_PREFIXES):
        if not rest or any(shape.match(rest, known) for shape in own):
            break
        found = next(((one, match) for one in prefixes if (match := one.match(rest, known))), None)
        if found is None:
            break
        shape, match = found
        if shape.name in ("timestamp", "date") and _is_own_format(rest, known):
            break
        groups = match.groupdict()
        line = line._replace(
            process=groups.get("process") or line.process,
            pid=_number(groups.get("pid")) or line.pid,
            rank=_rank_in(groups, line.rank),
            stamp=groups.get("time") or line.stamp,
            source=groups.get("source") or line.source,
            prefixes=(*line.prefixes, shape.name),
        )
        rest = rest[match.end() :]
        if shape.name == "frame":
            rest = rest.rstrip(_FRAME)
    return line, rest


def _is_own_format(rest: str, known: str) -> bool:
    return any(shape.name == "python_logging" and shape.match(rest, known) for shape in split_shapes()[2])


def _rank_in(groups: dict[str, Any], known: int | None) -> int | None:
    rank = _number(groups.get("rank"))
    if rank is None and " rank=" in (groups.get("process") or ""):  # V1 worker, 0.6.6 to 0.9.2
        rank = _number(groups["process"].rpartition("=")[2])
    return known if rank is None else rank


def _read_rest(line: Line, rest: str, known: str) -> Line:
    _, own, others = split_shapes()
    if rest and _STAMP.search(rest):
        if user := _USER.match(rest):
            inner, rest = _peel(line, rest[user.end() :], known) if user["user"] else (line, rest)
            line = inner
        for shape in own:
            if match := shape.match(rest, known):
                return _filled(line, shape, match)
    for shape in others:
        if match := shape.match(rest, known):
            return _filled(line, shape, match)
    return _without_repeats(line._replace(message=rest))


def _filled(line: Line, shape: Shape, match: re.Match[str]) -> Line:
    groups = match.groupdict()
    level = groups.get("level")
    if level is None and shape.name == "python_warning":
        level = "WARNING"
    found = line._replace(
        message=groups["message"],
        level=_LEVELS.get(level, level) if level else None,
        file=groups.get("file"),
        line=_number(groups.get("line")),
        pid=_number(groups.get("pid")) or line.pid,
        time=groups.get("time"),
        logger=groups.get("logger"),
        format=shape.name,
    )
    return _without_repeats(found)


def _without_repeats(line: Line) -> Line:
    if "[repeated " not in line.message:
        return line
    found = _REPEATED.search(line.message)
    return line if found is None else line._replace(message=line.message[: found.start()], repeats=int(found["times"]))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) <= 10 else None


def _read_json(text: str, line: Line) -> Line | None:
    """A line that is a JSON object: a container's or a journal's envelope, or a record. None: it is neither."""
    content = object_in(text)
    if content is None:
        return None
    envelope = envelope_in(content)
    if envelope is not None and len(line.prefixes) < _MOST_PREFIXES:
        inner = read_line(envelope.text)
        return inner._replace(
            stamp=inner.stamp or envelope.stamp or line.stamp,
            source=inner.source or envelope.source or line.source,
            process=inner.process or line.process,
            pid=inner.pid or line.pid,
            prefixes=(*line.prefixes, envelope.kind, *inner.prefixes),
        )
    record = record_in(content)
    if record is None:
        return None
    return line._replace(
        message=record.message,
        level=_LEVELS.get(record.level, record.level),
        file=record.file,
        line=record.line,
        process=record.process or line.process,
        pid=record.pid if record.pid is not None else line.pid,
        time=record.time,
        logger=record.logger,
        format="json",
    )
