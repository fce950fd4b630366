"""Shows an installation's progress on stderr: one line that is rewritten on a terminal, few lines elsewhere."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from tui.output import note, printable

if TYPE_CHECKING:
    from engine_probe.managed_engine import Progress

QUIET_SECONDS = 15.0
"""Without a terminal a step that goes on says so this often, so that a log shows life and stays short."""


class ProgressPrinter:
    """Call it with each Progress; `close` ends an unfinished line."""

    def __init__(self, *, rewrite: bool | None = None) -> None:
        self._rewrite = sys.stderr.isatty() if rewrite is None else rewrite
        self._step: tuple[int, str] | None = None
        self._shown_at_seconds = 0.0
        self._line_is_open = False

    def __call__(self, progress: Progress) -> None:
        step = (progress.step, progress.title)
        if self._rewrite:
            self._write_over(progress)
        elif progress.finished or step != self._step or progress.seconds - self._shown_at_seconds >= QUIET_SECONDS:
            self._shown_at_seconds = progress.seconds
            note(progress_line(progress))
        self._step = step

    def close(self) -> None:
        if self._line_is_open:
            sys.stderr.write("\n")
            self._line_is_open = False

    def _write_over(self, progress: Progress) -> None:
        columns = shutil.get_terminal_size().columns
        line = printable(progress_line(progress))[: columns - 1]
        sys.stderr.write(f"\r\x1b[K{line}{chr(10) if progress.finished else ''}")
        sys.stderr.flush()
        self._line_is_open = not progress.finished


def progress_line(progress: Progress) -> str:
    number = f"[{progress.step}/{progress.steps}] " if progress.steps else ""
    detail = "done" if progress.finished else progress.detail
    return f"{number}{progress.title}  {progress.seconds:.0f} s{'  ' + detail if detail else ''}"
