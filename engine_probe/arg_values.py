"""Canonical names and values of vLLM arguments, whatever way they were written, and back to words of a command."""

from __future__ import annotations

import json
import re
from typing import Any

from engine_probe.flags import flag_for, flag_table

ArgValue = bool | int | float | str | tuple[str, ...]

_INTEGER = re.compile(r"[+-]?\d+")
_PLAIN_INTEGER = re.compile(r"0|-?[1-9]\d*")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_MAX_DIGITS = 30


def canonical_name(word: str) -> tuple[str, bool]:
    """The long name with dashes of `-tp`, `--max_model_len`, `no-enable-prefix-caching`; True where it was negated."""
    head, dot, tail = word.lstrip("-").partition(".")
    if head == "O" and dot:
        head = "compilation-config"  # -O.level=3, up to vLLM 0.11 (vllm/engine/arg_utils.py)
    head = flag_table().names.get(head, head).replace("_", "-")
    head = flag_table().names.get(head, head)
    if head.startswith("no-") and head not in flag_table().flags and not dot:
        positive = flag_table().names.get(head[3:], head[3:])
        flag = flag_table().flags.get(positive)
        if flag is None or flag.type == "bool":
            return positive, True
    return head + dot + tail, False


def canonical_value(name: str, raw: Any) -> ArgValue:
    """What `raw` (a word, several words, or a YAML value) means for the argument of this canonical name.

    A word that the flag's type does not take stays a word: the engine's own error is the better one.
    """
    flag = flag_for(name)
    if isinstance(raw, (dict, list, tuple)):
        return _dumped(raw) if isinstance(raw, dict) else _of_list(name, raw)
    if flag is None or "." in name:
        return _guessed(raw) if isinstance(raw, str) else _plain(raw)
    if flag.type == "bool" or (flag.values == "?" and isinstance(raw, bool)):
        return _boolean(raw)
    if flag.type == "text" or flag.values in ("+", "append"):
        return _text(raw)
    return _typed(flag.type, raw)


def _of_list(name: str, raw: list[Any] | tuple[Any, ...]) -> ArgValue:
    flag = flag_for(name)
    if isinstance(raw, list) and (
        ("." in name and not name.endswith("+")) or (flag is not None and flag.type == "json")
    ):
        return _dumped(raw)
    words = tuple(_dumped(item) if isinstance(item, (dict, list)) else _text(item) for item in raw)
    return words[0] if len(words) == 1 else words


def _plain(raw: Any) -> ArgValue:
    return raw if isinstance(raw, (bool, int, float)) else _text(raw)


def _text(raw: Any) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return "" if raw is None else str(raw)


def _boolean(raw: Any) -> ArgValue:
    if isinstance(raw, str) and raw.lower() in ("true", "false"):
        return raw.lower() == "true"
    return _plain(raw)


def _typed(kind: str, raw: Any) -> ArgValue:
    if not isinstance(raw, str):
        return _plain(raw)
    if kind == "json":
        return _json(raw)
    word = raw.strip()
    if kind == "size" and (match := _SIZE.fullmatch(word)):
        return _size(match[1], match[2], raw)
    if _INTEGER.fullmatch(word) and len(word) <= _MAX_DIGITS:
        return int(word)
    if kind == "float" and _NUMBER.fullmatch(word):
        return float(word)
    return raw


def _size(number: str, unit: str, raw: str) -> ArgValue:
    """4k is 4000 and 4K is 4096, as human_readable_int has it (vllm/utils/argparse_utils.py, 0.32.0)."""
    power = "kmgt".index(unit.lower()) + 1
    if unit.islower():
        return int(float(number) * 1000**power)
    return int(number) * 1024**power if number.isdigit() else raw


def _guessed(raw: str) -> ArgValue:
    if raw in ("true", "false", "True", "False"):
        return raw.lower() == "true"
    if _PLAIN_INTEGER.fullmatch(raw) and len(raw) <= _MAX_DIGITS:
        return int(raw)
    if _NUMBER.fullmatch(raw) and repr(float(raw)) == raw:
        return float(raw)
    return _json(raw)


def _json(raw: str) -> str:
    if not raw.lstrip().startswith(("{", "[")):
        return raw
    try:
        return _dumped(json.loads(raw))
    except (ValueError, RecursionError):
        return raw


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)


def words_of(name: str, value: ArgValue) -> list[str]:
    """The words of a command that set the argument; none where a flag can only be left out."""
    option, flag = f"--{name}", flag_for(name)
    if isinstance(value, tuple):
        repeated = (flag is not None and flag.values == "append") or name.endswith("+")
        return [word for one in value for word in (option, one)] if repeated else [option, *value] if value else []
    if isinstance(value, bool) and "." not in name and (flag is None or flag.type == "bool" or flag.values == "?"):
        if value:
            return [option]
        return [] if flag is not None and flag.values != "switch" else [f"--no-{name}"]
    word = "true" if value is True else "false" if value is False else str(value)
    return [f"{option}={word}"] if word.startswith("-") and not is_negative_number(word) else [option, word]


def is_negative_number(word: str) -> bool:
    """argparse takes such a word as a value, though it begins with a dash."""
    return word.startswith("-") and _NUMBER.fullmatch(word) is not None
