"""For screens from which a log file is opened over them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from tui.screens.base import ConsoleScreen
from tui.screens.dialogs import AskText

if TYPE_CHECKING:
    from collections.abc import Callable

    from playbooks.evidence import Evidence


class OpensLogs(ConsoleScreen):
    """`2` asks for a file."""

    def do_tab_logs(self) -> None:
        ask = AskText(
            self.console.glyphs,
            "Which log file?",
            "What vLLM printed; it may still be written to, and may be of any size.",
            trouble_with=trouble_with_path,
        )
        self.app.push_screen(ask, self._open_named)

    def _open_named(self, text: str | None) -> None:
        if text:
            self.open_log(Path(text).expanduser())

    def open_log(self, path: Path, evidence: Callable[[], Evidence] | None = None) -> None:
        """`evidence`: what is known beside the log; asked for when it is diagnosed."""
        from tui.opened_log import OpenedLog  # noqa: PLC0415 -- the first screen needs nothing of logs
        from tui.screens.own_log import OwnLogViewer  # noqa: PLC0415 -- as above

        try:
            log = OpenedLog.of_file(path)
        except InputError as trouble:
            self.tell(str(trouble), style="$error bold")
            return
        self.app.push_screen(OwnLogViewer(log, is_inner=True, evidence=evidence))


def trouble_with_path(text: str) -> str | None:
    if not text:
        return "Write the path of a file."
    path = Path(text).expanduser()
    if path.is_dir():
        return f"{text} is a folder; a file is needed."
    return None if path.is_file() else f"There is no file {text}."
