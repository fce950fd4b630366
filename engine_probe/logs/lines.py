"""Reads one text line of a log: who put what in front of it, level, place, process and message.

The shapes are data (data/formats.tsv): vLLM's own, those of the writers beside it, and what containers, journals and
supervisors put in front. JSON lines are read as JSON. A line of no known shape is all message: nothing is thrown away.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_MOST_PREFIXES = 8
_LONGEST_LINE = 1_000_000


@dataclass(frozen=True)
class Line:
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


@dataclass(frozen=True)
class Shape:
    """A row of data/formats.tsv."""

    kind: str
    name: str
    layer: str
    pattern: re.Pattern[str]


@lru_cache(maxsize=1)
def shapes() -> tuple[Shape, ...]:
    """The rows of data/formats.tsv in order. Raises ValueError where a pattern does not do what its samples say."""
    return tuple(read_shapes((Path(__file__).parent / "data" / "formats.tsv").read_text(encoding="utf-8")))


def read_shapes(text: str) -> Iterator[Shape]:
    """The shapes of a table, each checked on its samples. Raises ValueError with the number of the line."""
    shape: Shape | None = None
    for number, row in enumerate(text.splitlines(), 1):
        columns = row.split("\t")
        if row.startswith("#"):
            continue
        if columns[0]:
            if len(columns) != 4:
                raise ValueError(f"formats.tsv:{number}: {len(columns)} columns, not 4")
            try:
                shape = Shape(columns[0], columns[1], columns[2], re.compile(columns[3], re.DOTALL))
            except re.error as error:
                raise ValueError(f"formats.tsv:{number}: the pattern does not compile: {error}") from None
            yield shape
        elif shape is not None:
            _check_sample(shape, columns, number)


def _check_sample(shape: Shape, columns: list[str], number: int) -> None:
    found = shape.pattern.match(columns[1])
    if found is None:
        raise ValueError(f"formats.tsv:{number}: {shape.name} does not match its sample {columns[1]!r}")
    for pair in columns[2:]:
        group, _, value = pair.partition("=")
        if str(found[group]) != value:
            raise ValueError(f"formats.tsv:{number}: {shape.name} yields {group}={found[group]!r}, not {value!r}")


@lru_cache(maxsize=1)
def _split_shapes() -> tuple[tuple[Shape, ...], tuple[Shape, ...], tuple[Shape, ...]]:
    """Prefixes; vLLM's own shapes, which are most lines; all others."""
    every = shapes()
    lines = [shape for shape in every if shape.kind == "line"]
    own = tuple(shape for shape in lines if shape.name.startswith("vllm"))
    return tuple(one for one in every if one.kind == "prefix"), own, tuple(one for one in lines if one not in own)


@lru_cache(maxsize=1)
def layer_of_format() -> dict[str, str]:
    """Layer of a line by its shape, for the shapes that have one."""
    return {shape.name: shape.layer for shape in shapes() if shape.layer != "-"}


def read_line(text: str) -> Line:
    """Split `text` (one line, with or without its end) into its parts. Never raises."""
    text = text[:_LONGEST_LINE].removesuffix("\n")
    is_continued = text.endswith("\r")
    rest = visible(text)
    line, rest = _peel(Line("", is_continued=is_continued), rest)
    if rest.startswith("{") and rest.rstrip().endswith("}"):
        from_json = _read_json(rest, line)
        if from_json is not None:
            return from_json
    return _read_rest(line, rest)


def visible(text: str) -> str:
    """What a terminal shows of `text`: no codes, and of what was drawn over only the last that is not empty."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        pieces = [piece for piece in text.rstrip("\r\n").split("\r") if piece.strip()]
        text = pieces[-1] if pieces else ""
    return text.rstrip("\r\n")


def _peel(line: Line, rest: str) -> tuple[Line, str]:
    """Take off what stands in front, over and over; the innermost process and rank count."""
    prefixes, own, _ = _split_shapes()
    for _ in range(_MOST_PREFIXES):
        if not rest or any(shape.pattern.match(rest) for shape in own):
            break
        found = next(((one, match) for one in prefixes if (match := one.pattern.match(rest))), None)
        if found is None:
            break
        shape, match = found
        if shape.name in ("timestamp", "date") and _is_own_format(rest):
            break
        groups = match.groupdict()
        line = replace(
            line,
            process=groups.get("process") or line.process,
            pid=_number(groups.get("pid")) or line.pid,
            rank=_rank_in(groups, line.rank),
            stamp=groups.get("time") or line.stamp,
            source=groups.get("source") or line.source,
            prefixes=(*line.prefixes, shape.name),
        )
        rest = rest[match.end() :]
    return line, rest


def _is_own_format(rest: str) -> bool:
    return any(shape.name == "python_logging" and shape.pattern.match(rest) for shape in _split_shapes()[2])


def _rank_in(groups: dict[str, Any], known: int | None) -> int | None:
    rank = _number(groups.get("rank"))
    if rank is None and " rank=" in (groups.get("process") or ""):  # V1 worker, 0.6.6 to 0.9.2
        rank = _number(groups["process"].rpartition("=")[2])
    return known if rank is None else rank


def _read_rest(line: Line, rest: str) -> Line:
    _, own, others = _split_shapes()
    if rest and _STAMP.search(rest):
        if user := _USER.match(rest):
            inner, rest = _peel(line, rest[user.end() :]) if user["user"] else (line, rest)
            line = inner
        for shape in own:
            if match := shape.pattern.match(rest):
                return _filled(line, shape, match)
    for shape in others:
        if match := shape.pattern.match(rest):
            return _filled(line, shape, match)
    return _without_repeats(replace(line, message=rest))


def _filled(line: Line, shape: Shape, match: re.Match[str]) -> Line:
    groups = match.groupdict()
    level = groups.get("level")
    if level is None and shape.name == "python_warning":
        level = "WARNING"
    found = replace(
        line,
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
    return line if found is None else replace(line, message=line.message[: found.start()], repeats=int(found["times"]))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) <= 10 else None


def _read_json(text: str, line: Line) -> Line | None:
    """A line that is a JSON object: a container's or a journal's envelope, or a record. None: it is neither."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    if isinstance(content.get("log"), str) and "stream" in content:  # docker's json-file driver
        return _unwrapped(line, content["log"], "docker_json", _text(content, "time"), None)
    if "MESSAGE" in content:  # journalctl -o json; bytes that are no text come as a list of numbers
        message = content["MESSAGE"]
        if isinstance(message, list) and all(isinstance(one, int) and 0 <= one < 256 for one in message):
            message = bytes(message).decode("utf-8", "replace")
        if not isinstance(message, str):
            return None
        unit = _text(content, "_SYSTEMD_UNIT", "CONTAINER_NAME", "SYSLOG_IDENTIFIER")
        return _unwrapped(line, message, "journal_json", _text(content, "__REALTIME_TIMESTAMP"), unit)
    return _json_record(line, content)


def _unwrapped(line: Line, text: str, prefix: str, time: str | None, source: str | None) -> Line:
    if len(line.prefixes) >= _MOST_PREFIXES:
        return replace(line, message=text)
    inner = read_line(text)
    return replace(
        inner,
        stamp=inner.stamp or time or line.stamp,
        source=inner.source or source or line.source,
        process=inner.process or line.process,
        pid=inner.pid or line.pid,
        prefixes=(*line.prefixes, prefix, *inner.prefixes),
    )


def _json_record(line: Line, content: dict[str, Any]) -> Line | None:
    """A record of Python's logging as JSON: vLLM's own from 0.32.0 (--logging-config.formatter json) and its like."""
    message = _text(content, "message", "msg", "event")
    level = _text(content, "levelname", "level", "severity")
    if message is None or level is None:
        return None
    trace = _text(content, "exc_info", "exc_text", "exception", "stack")
    level = level.upper()
    return replace(
        line,
        message=f"{message}\n{trace}" if trace else message,
        level=_LEVELS.get(level, level),
        file=_text(content, "filename", "fileName"),
        line=content["lineno"] if isinstance(content.get("lineno"), int) else None,
        process=_text(content, "processName") or line.process,
        pid=content["process"] if isinstance(content.get("process"), int) else line.pid,
        time=_text(content, "asctime", "timestamp", "time"),
        logger=_text(content, "name", "logger"),
        format="json",
    )


def _text(content: dict[str, Any], *names: str) -> str | None:
    return next((content[name] for name in names if isinstance(content.get(name), str)), None)
