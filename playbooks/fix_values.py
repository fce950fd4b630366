"""The value of a fix that a person may choose: read by what its key takes, and shown with its unit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.arg_values import canonical_value
from engine_probe.changes import gpus_of
from engine_probe.errors import InputError
from engine_probe.flags import flag_for
from engine_probe.outside.keys import PACKAGES, WANTED_SOURCE, WANTED_VERSION, checked_outside, is_outside
from playbooks import wording
from playbooks.facts import number_or_text
from playbooks.patterns import to_value

if TYPE_CHECKING:
    from engine_probe.facts import Value
    from playbooks.session import FixOption

UNKNOWN = "?"
"""Stands for a value that nothing has told yet."""
_BYTES = re.compile(r"(\d[\d,]*(?:\.\d+)?) ?([KMGT]iB|[kMGT]B)?")
_FACTOR = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_FACTOR |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def checked_value(option: FixOption, text: str) -> Value:
    """What a person wrote instead of the proposed value, as the fix's key takes it: bytes of `264MiB`, a number.

    Raises InputError with what is wanted and an example.
    """
    word = text.strip()
    if is_outside(option.key):
        return checked_outside(option.key, word)
    wrong = InputError(f"{text.strip() or 'nothing'!r} cannot be used for {option.key}: {wanted(option)}")
    kind = _kind(option)
    if not word or any(ord(letter) < ord(" ") for letter in word):
        raise wrong
    if kind == "bytes":
        found = _BYTES.fullmatch(word)
        count = round(float(found[1].replace(",", "")) * _FACTOR[found[2] or ""]) if found else 0
    elif kind == "gpus":
        gpus_of(word)
        return word
    elif kind in ("size", "int", "float"):
        return _number(kind, word, wrong)
    elif kind == "bool":
        if word.lower() not in ("true", "false"):
            raise wrong
        return word.lower()
    else:
        return word
    if count <= 0:
        raise wrong
    return count


def wanted(option: FixOption) -> str:
    """What `checked_value` takes, with an example: `bytes, or 264MiB`."""
    if is_outside(option.key):
        return WANTED_VERSION if option.key.startswith(PACKAGES) else WANTED_SOURCE
    kind, example = _kind(option), option.proposed or option.new_value
    if kind == "bytes":
        size = wording.size(int(example)).replace(" ", "") if example.isdigit() else "264MiB"
        return f"bytes, or {size}"
    words = {"size": "a whole number above 0", "int": "a whole number", "float": "a number", "bool": "true or false"}
    return f"{words.get(kind, 'text')}, such as {example}" if kind != "bool" else words[kind]


def shown_value(option: FixOption, value: str) -> str:
    """`value` with its unit: `264 MiB (276,824,064 bytes)`, `1,408`."""
    if value == UNKNOWN:
        return "what is not known"
    unit = wording.unit_of(option.key)
    number = value if is_outside(option.key) else number_or_text(value)
    if isinstance(number, (str, bool)):
        return value
    if unit == "bytes":
        return f"{wording.quantity(number, unit)} ({number:,} bytes)"
    return wording.quantity(number, unit, option.key)


def _number(kind: str, word: str, wrong: InputError) -> Value:
    plain = word.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", word) else word
    value = canonical_value("max-model-len", plain) if kind == "size" else to_value(plain)
    if isinstance(value, (bool, str, tuple)) or (kind != "float" and not isinstance(value, int)):
        raise wrong
    if kind == "size" and isinstance(value, int) and value <= 0:
        raise wrong
    return value


def _kind(option: FixOption) -> str:
    """What the key takes: by its unit, by vLLM's flag, else by what the playbook proposes."""
    if option.key == "gpus":
        return "gpus"
    if wording.unit_of(option.key) == "bytes":
        return "bytes"
    group, _, name = option.key.partition(".")
    flag = flag_for(name) if group == "args" and "." not in name else None
    if flag is not None:
        return flag.type
    proposed = to_value(option.proposed or option.new_value)
    return "text" if isinstance(proposed, str) else "float" if isinstance(proposed, float) else "int"
