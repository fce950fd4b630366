"""The engine's side of an examination: what it was given on stdin, and one line of JSON as its answer."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "vllm_console_examined "
_PR_SET_PDEATHSIG = 1
_GRACE_S = 5


class Side:
    """Takes what it is given; from then on everything that libraries print goes to stderr."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = json.loads(_first_line() or b"{}")
        self.limit_s = float(self.given.get("limit_s") or 60)
        # Whoever asked may be gone, behind ssh or docker too: nothing here outlives him, or its time.
        self.at_end: list[Callable[[], None]] = []
        threading.Thread(target=self._end_with_stdin, daemon=True).start()
        with contextlib.suppress(ValueError, OSError):
            signal.alarm(int(self.limit_s) + _GRACE_S)
        os.environ.update({str(name): str(value) for name, value in self.given.get("env", {}).items()})
        sys.path[:] = [entry for entry in sys.path if entry]
        self._channel = os.dup(1)
        os.dup2(2, 1)

    def _end_with_stdin(self) -> None:
        while os.read(0, 4096):
            pass
        for clean_up in self.at_end:
            clean_up()
        os._exit(1)

    def answer(
        self,
        facts: dict[str, Any],
        unknown: dict[str, str] | None = None,
        why_not: str | None = None,
        origin: str = "",
    ) -> None:
        """`unknown` maps facts to reasons; `why_not` says why nothing can be decided."""
        said = {"facts": facts, "unknown": unknown or {}, "why_not": why_not, "origin": origin}
        os.write(self._channel, ("\n" + MARK + json.dumps(said) + "\n").encode("ascii"))


def _first_line() -> bytes:
    content = b""
    while not content.endswith(b"\n") and (part := os.read(0, 65536)):
        content += part
    return content


def die_with_parent() -> None:
    """Of a child: end when the script does (prctl(2))."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def last_line(text: str) -> str:
    """The last line that says something, as errors end."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"
