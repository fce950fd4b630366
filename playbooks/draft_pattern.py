"""A pattern made from one real error: its words as they are, numbers as named groups, paths and names left open."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.redact import MASKED

if TYPE_CHECKING:
    from collections.abc import Iterable

_CLASS = re.compile(r"^[\w.]+(?:Error|Exception|Exit|Interrupt|Warning): ")
_VALIDATION = re.compile(r"^\d+ validation errors? for \w+ (?:\S+ )?(?:Value error|Assertion failed), ")
_DUMP = re.compile(r" ?\[type=\w+, input_value=.*$", re.DOTALL)
"""Pydantic's frame around what a check of vLLM's says."""
_PIECES = re.compile(
    r"(?P<path>(?<![\w/])(?:~|\.{1,2})?/[^\s'\",;()]+)"
    r"|(?P<number>(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d))"
    r"|(?P<hex>\b0x[0-9a-fA-F]+\b)"
)
_HOST_PATH = re.compile(r"(?<![\w/:.])~?/[\w.][^\s'\",;()\[\]{}]*")
_NUMBER_OF_HOST = re.compile(r"(?i)\b(pid|port)([ =:]+)\d+")
_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])(:\d+)?")
_LAST_WORD = re.compile(r"([A-Za-z]\w*)\W*$")
_LONGEST = 220
_MOST_GROUPS = 6


def pattern_of(line: str, names: Iterable[str] = ()) -> str:
    """A pattern as playbooks write them, for the message of `line`. `names`: what differs from case to case."""
    message = _cut(message_of(line))
    taken: list[str] = []
    out, at = [], 0
    for found in _PIECES.finditer(message):
        out.append(_escaped(message[at : found.start()], names))
        out.append(_open(found, message[: found.start()], taken))
        at = found.end()
    out.append(_escaped(message[at:], names))
    pattern = re.sub(r"(?:\\S\+)+", r"\\S+", "".join(out)).strip()
    # what may begin anywhere in a long run takes quadratic time
    if pattern.startswith(r"\S+"):
        return rf"(?<!\S){pattern}"
    return rf"(?<!\d){pattern}" if pattern.startswith(("(?P<", "-?")) else pattern


def message_of(line: str) -> str:
    """What went wrong, without the exception's class and what a library wraps around it."""
    text = " ".join(line.split())
    message = _VALIDATION.sub("", _CLASS.sub("", text, count=1), count=1)
    return _DUMP.sub("", message) or text


def neutral(line: str) -> str:
    """`line` without this host's paths, addresses, ports and numbers of processes: others stand in their places."""

    def number(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}{1234 if found[1].lower() == 'pid' else 8000}"

    text = _ADDRESS.sub(lambda found: "127.0.0.1" + (":8000" if found[1] else ""), _HOST_PATH.sub("/path/to/it", line))
    return _NUMBER_OF_HOST.sub(number, text)


def addresses_in(line: str) -> tuple[str, ...]:
    """Numeric addresses of hosts, without their ports."""
    return tuple(found[0].partition(":")[0] for found in _ADDRESS.finditer(line))


def _cut(message: str) -> str:
    """Long messages end in advice that changes from release to release: the first sentences tell."""
    if len(message) <= _LONGEST:
        return message
    return message[:_LONGEST].rpartition(" ")[0] or message[:_LONGEST]


def _open(found: re.Match[str], before: str, taken: list[str]) -> str:
    if found["path"] is not None:
        return r"\S+"
    if found["hex"] is not None:
        return r"0x[0-9a-f]+"
    what = r"-?\d+(?:\.\d+)?" if "." in found["number"] else r"-?\d+"
    if len(taken) >= _MOST_GROUPS:
        return what
    word = _LAST_WORD.search(before)
    name = re.sub(r"[^a-z0-9_]", "", word[1].lower())[:24].strip("_") if word else ""
    name = name if name and not name[0].isdigit() else "number"
    name = name if name not in taken else next(f"{name}_{n}" for n in range(2, 99) if f"{name}_{n}" not in taken)
    taken.append(name)
    return f"(?P<{name}>{what})"


def _escaped(text: str, names: Iterable[str]) -> str:
    """A space stays a space: it means any white space."""
    pattern = re.escape(text).replace(r"\ ", " ").replace(re.escape(MASKED), r"\S+")
    for name in sorted((one for one in names if len(one) > 2), key=len, reverse=True):
        pattern = pattern.replace(re.escape(name).replace(r"\ ", " "), r"\S+")
    return pattern
