"""What the console demands before it opens, and the exit code that it ends with."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from playbooks.session import Session

EXIT_CODES = {"verified": 0, "healthy": 0, "not verified": 1, "unexplained": 3, "cannot run": 4, "stopped": 1}


def exit_code(session: Session | None) -> int:
    """0 while no failure was found, also when the case was left early."""
    if session is None or (session.symptom is None and session.verdict in (None, "stopped")):
        return 0
    return EXIT_CODES.get(session.verdict or "", 1)


def demand_terminal() -> None:
    """Raises InputError where the console cannot be drawn."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        why = "stdin or stdout is none"
    elif sys.stderr is None or not sys.stderr.isatty():
        why = "stderr, on which it draws, is none (was it sent to a file with 2>?)"
    elif os.environ.get("TERM", "") in ("", "dumb"):
        why = "TERM is not set" if not os.environ.get("TERM") else "TERM=dumb cannot move the cursor"
    else:
        return
    without = "`vllm-console monitor --once` and `vllm-console replay` work without one"
    raise InputError(f"the console needs a terminal, and {why}; {without}")
