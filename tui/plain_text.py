"""Text for a terminal or pipe that does not speak Unicode: one table of what is written instead, and when it is needed.

Imports nothing of ours, so that both the commands and the console can use it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ERRORS = "vllm-console-plain"
"""The name under which `substitute` is registered with codecs."""
_LOCALE_VARIABLES = ("LC_ALL", "LC_CTYPE", "LANG")
SIGNS = {
    "→": "->", "←": "<-", "↑": "^", "↓": "v", "≥": ">=", "≤": "<=", "≠": "!=", "±": "+-", "×": "x", "−": "-", "–": "-",
    "—": "-", "…": "...", "·": "-", "✓": "+", "✗": "X", "▸": ">", "━": "=", "─": "-", "│": "|", "█": "#", "▓": "=",
    "▒": "-", "’": "'", "‘": "'", "“": '"', "”": '"', "\xa0": " ", "°": "o", "µ": "u", "▾": "v",
    "░": "+", "╳": "x",
}  # fmt: skip


def plain(text: str, encoding: str = "ascii") -> str:
    """`text` as `encoding` can write it: signs by their ASCII form, all else that it lacks as `\\u1234`."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_character(one, encoding) for one in text)
    return text


def substitute(error: UnicodeError) -> tuple[str, int]:
    """The codecs error handler that does the same where text is written without asking `plain` first."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_written(one) for one in error.object[error.start : error.end]), error.end


def asks_for_ascii(env: Mapping[str, str] | None = None) -> bool:
    """Whether the locale is C or POSIX because somebody said so.

    Python writes UTF-8 all the same then (PEP 540). Where no variable is set, as in many containers, it is trusted.
    """
    variables = os.environ if env is None else env
    if variables.get("PYTHONIOENCODING") or variables.get("PYTHONUTF8"):
        return False
    said = next((value for name in _LOCALE_VARIABLES if (value := variables.get(name))), "")
    return said in ("C", "POSIX")


def _character(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return _written(character)
    return character


def _written(character: str) -> str:
    return SIGNS.get(character) or character.encode("ascii", "backslashreplace").decode("ascii")
