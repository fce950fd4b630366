"""Variables of a compose file: `${NAME:-default}` in its texts, and files such as `.env`.

As https://docs.docker.com/reference/compose-file/interpolation/ has it; what has no value stays as it is written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError
from engine_probe.quoting import quoted
from engine_probe.strict_yaml import text_of_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR = re.compile(r":?[-?+]")
_MOST_NESTED = 10
_MOST_BYTES = 200_000
_LONGEST = 1_000_000


class Filled(NamedTuple):
    """`missing`: names that have no value here, each still in the text as it is written."""

    text: str
    missing: tuple[str, ...] = ()


def filled(text: str, values: Mapping[str, str], depth: int = 0) -> Filled:
    """Raises InputError for what Compose would refuse, too: `${`, `${NAME:?message}` without a value."""
    parts: list[str] = []
    missing: list[str] = []
    at = length = 0
    while (dollar := text.find("$", at)) >= 0:
        parts.append(text[at:dollar])
        one, at = _variable(text, dollar, values, depth)
        parts.append(one.text)
        missing += one.missing
        length += len(one.text)
        if length > _LONGEST:
            raise InputError("its variables make more than a million characters")
    return Filled("".join([*parts, text[at:]]), tuple(dict.fromkeys(missing)))


def _variable(text: str, at: int, values: Mapping[str, str], depth: int) -> tuple[Filled, int]:
    if text.startswith("$$", at):
        return Filled("$"), at + 2
    if name := _NAME.match(text, at + 1):
        value = values.get(name[0])
        return (Filled(name.string[at : name.end()], (name[0],)) if value is None else Filled(value)), name.end()
    if not text.startswith("${", at):
        return Filled("$"), at + 1
    end = _closing(text, at + 2)
    inside = text[at + 2 : end]
    name = _NAME.match(inside)
    if name is None or depth > _MOST_NESTED:
        raise InputError(f"${{{quoted(inside, 40)}}} is no variable; a dollar sign itself is written $$")
    return _chosen(name[0], inside[name.end() :], text[at : end + 1], values, depth), end + 1


def _chosen(name: str, rest: str, written: str, values: Mapping[str, str], depth: int) -> Filled:
    operator = _OPERATOR.match(rest)
    if rest and operator is None:
        raise InputError(f"{quoted(written, 60)} is no variable: {name} may be followed by :-, -, :?, ?, :+ or +")
    value = values.get(name)
    kind = operator[0] if operator else ""
    has_value = value is not None and (value != "" or not kind.startswith(":"))
    other = rest[len(kind) :]
    if kind.endswith("-"):
        return Filled(value or "") if has_value else filled(other, values, depth + 1)
    if kind.endswith("+"):
        return filled(other, values, depth + 1) if has_value else Filled("")
    if kind.endswith("?") and not has_value:
        raise InputError(f"the variable {name} must have a value: {filled(other, values, depth + 1).text[:120]}")
    return Filled(written, (name,)) if value is None else Filled(value)


def _closing(text: str, at: int) -> int:
    depth = 1
    for index in range(at, len(text)):
        if text[index] == "}":
            depth -= 1
            if depth == 0:
                return index
        elif text.startswith("${", index):
            depth += 1
    raise InputError(f"{text[at - 2 : at + 38]} is never closed with }}; a dollar sign itself is written $$")


def read_env_file(path: Path) -> dict[str, str]:
    """NAME=value lines. Raises InputError, with the line, for one that is none; OSError where it cannot be read."""
    with path.open("rb") as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise InputError(f"is larger than {_MOST_BYTES // 1000} kB; that is no file of variables", file=str(path))
    values: dict[str, str] = {}
    for number, line in enumerate(text_of_bytes(content, str(path)).splitlines(), 1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        name, equals, value = plain.removeprefix("export ").partition("=")
        if not _NAME.fullmatch(name.strip()):
            raise InputError("NAME=value is wanted", file=str(path), line=number)
        if equals:
            values[name.strip()] = _unquoted(value.strip(), values)
    return values


def _unquoted(value: str, values: Mapping[str, str]) -> str:
    for quote in ("'", '"'):
        end = value.find(quote, 1)
        if value.startswith(quote) and end > 0:
            inside = value[1:end]
            return inside if quote == "'" else _filled_or_as_written(inside, values)
    plain = re.split(r"\s#", value, maxsplit=1)[0].rstrip()
    return _filled_or_as_written(plain, values)


def _filled_or_as_written(text: str, values: Mapping[str, str]) -> str:
    try:
        return filled(text, values).text
    except InputError:
        return text
