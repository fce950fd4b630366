"""Lines that are JSON objects: what docker and journald put round a line, and records of Python's logging."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Envelope(NamedTuple):
    """A line inside a JSON object. `stamp`: when it was taken in."""

    kind: str
    text: str
    stamp: str | None
    source: str | None


class JsonRecord(NamedTuple):
    """A record of Python's logging; the traceback stands below the message."""

    message: str
    level: str
    logger: str | None
    process: str | None
    pid: int | None
    time: str | None
    file: str | None
    line: int | None


def object_in(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is; None where it is none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def envelope_in(content: dict[str, Any]) -> Envelope | None:
    """What docker's json-file driver or `journalctl -o json` holds."""
    if isinstance(content.get("log"), str) and "stream" in content:
        return Envelope("docker_json", content["log"], _text(content, "time"), None)
    message = content.get("MESSAGE")
    if isinstance(message, list) and all(isinstance(one, int) and 0 <= one < 256 for one in message):
        message = bytes(message).decode("utf-8", "replace")  # journald: bytes that are no text come as numbers
    if not isinstance(message, str):
        return None
    unit = _text(content, "_SYSTEMD_UNIT", "CONTAINER_NAME", "SYSLOG_IDENTIFIER")
    return Envelope("journal_json", message, _text(content, "__REALTIME_TIMESTAMP"), unit)


def record_in(content: dict[str, Any]) -> JsonRecord | None:
    """vLLM's own from 0.32.0 (--logging-config.formatter json) and its like; None without level or message."""
    message = _text(content, "message", "msg", "event")
    level = _text(content, "levelname", "level", "severity")
    if message is None or level is None:
        return None
    trace = _text(content, "exc_info", "exc_text", "exception", "stack")
    return JsonRecord(
        message=f"{message}\n{trace}" if trace else message,
        level=level.upper(),
        logger=_text(content, "name", "logger"),
        process=_text(content, "processName"),
        pid=_number(content, "process"),
        time=_text(content, "asctime", "timestamp", "time"),
        file=_text(content, "filename", "fileName"),
        line=_number(content, "lineno"),
    )


def _text(content: dict[str, Any], *names: str) -> str | None:
    return next((content[name] for name in names if isinstance(content.get(name), str)), None)


def _number(content: dict[str, Any], name: str) -> int | None:
    return content[name] if isinstance(content.get(name), int) else None
