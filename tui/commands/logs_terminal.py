"""The terminal that `logs` is looked at on, also where the log itself comes through standard input."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.sources import Source

_KEYBOARD = 0
"""Standard input's descriptor: where Textual reads keys."""


def is_screen() -> bool:
    """Whether the terminal can be drawn on: Textual draws through standard error."""
    is_terminal = sys.stdout.isatty() and sys.stderr is not None and sys.stderr.isatty()
    return is_terminal and os.environ.get("TERM", "") not in ("", "dumb")


def keyboard_and_pipe(sources: Sequence[Source]) -> int | None:
    """Make the keyboard standard input; returns where what was piped in is read from now.

    None where that cannot be: there is no terminal to read keys from, or the log itself is typed in.
    """
    if sys.stdin is None:
        return None
    if sys.stdin.isatty():
        return None if any(source.kind == "stdin" for source in sources) else _KEYBOARD
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return None
    piped = os.dup(_KEYBOARD)
    os.dup2(terminal, _KEYBOARD)
    os.close(terminal)
    return piped
