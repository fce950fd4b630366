"""How commands print: results to stdout (text, or one JSON object a line), everything else to stderr.

Rich is imported only when stdout is a terminal and colours are wanted; pipes get plain text.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from engine_probe.escapes import safe_lines
from tui.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_WIDTH_OF_A_PIPE = 80


class Output(NamedTuple):
    """A command makes one and passes it on. With `as_json`, `text` and `table` print nothing."""

    as_json: bool = False
    masks: bool = False
    """Text is masked once more, because it repeats what somebody wrote."""

    def result(self, value: Mapping[str, Any]) -> None:
        """One JSON object on a line of its own, at once; nothing without `as_json`."""
        if self.as_json:
            _write(json.dumps(value, ensure_ascii=True, default=str))

    def text(self, text: str = "", style: str = "") -> None:
        """Text for a person. `style` is a rich style such as `bold red`; `text` is never read as markup."""
        if self.as_json:
            return
        shown = printable(self._safe(text))
        _write(_styled(shown, style) if style and wants_colour() else shown)

    def folded(self, text: str, indent: str = "  ", *, is_own: bool = False) -> None:
        """One line of a report, folded at words to the terminal's width (80 where there is none).

        A line that begins with exactly two blanks is verbatim (log text, a difference) and stays whole. `is_own`: a
        playbook's words, in which what others wrote is masked already.
        """
        output = self._replace(masks=False) if is_own else self
        for line in fold(printable(output._safe(text)), indent, terminal_width()):
            output.text(line)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Columns aligned with spaces, so that `cut`, `awk` and eyes can all read them."""
        if self.as_json:
            return
        lines = [[printable(cell) for cell in row] for row in rows]
        widths = [max(len(row[i]) for row in [list(head), *lines]) for i in range(len(head))]
        self.text(_aligned(head, widths), "bold")
        for row in lines:
            self.text(_aligned(row, widths))

    def _safe(self, text: str) -> str:
        if not self.masks:
            return text
        from engine_probe.redact import mask  # noqa: PLC0415 -- only where text is masked

        return mask(text)

    def note(self, text: str) -> None:
        """Progress, hints and warnings: stderr, with and without `as_json`."""
        note(text)


def fold(text: str, indent: str, width: int) -> list[str]:
    """`text` behind `indent`, in lines of at most `width` where words allow it; what follows stands deeper."""
    is_verbatim = text.startswith("  ") and not text.startswith("   ")
    if is_verbatim or len(indent) + len(text) <= width:
        return [indent + text]
    import textwrap  # noqa: PLC0415 -- JSON needs none of it

    deeper = indent + " " * (len(text) - len(text.lstrip()) + 2)
    words = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=deeper, **words)  # type: ignore[arg-type]


def terminal_width(of_a_pipe: int = _WIDTH_OF_A_PIPE) -> int:
    """Columns of the terminal."""
    if not sys.stdout.isatty():
        return of_a_pipe
    import shutil  # noqa: PLC0415 -- a pipe needs none of it

    return shutil.get_terminal_size().columns


def note(text: str) -> None:
    """One line on stderr, at once."""
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def printable(text: str) -> str:
    """`text` as the viewer shows it too: no escape sequences, visible controls, so that no log drives the terminal.

    Signs that stdout's encoding lacks are written in ASCII here already, so that columns stay aligned.
    """
    visible = safe_lines(text)
    return visible if visible.isascii() else plain(visible, getattr(sys.stdout, "encoding", None) or "utf-8")


def wants_colour() -> bool:
    """A terminal that shows colours and nobody who asked for none (NO_COLOR counts when it is not empty)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _styled(text: str, style: str) -> str:
    from rich.color import ColorSystem  # noqa: PLC0415 -- 60 ms that a pipe does not need
    from rich.style import Style  # noqa: PLC0415

    return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
