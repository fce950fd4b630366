"""The log of a case that runs: a log view under a title, from the moment there is something to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Container

from engine_probe.errors import InputError
from engine_probe.run_log import NAME
from tui.opened_log import OpenedLog
from tui.widgets.log_view import LogView

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tui.themes.glyphs import Glyphs

REFRESH_SECONDS = 0.1


class LiveLog(Container):
    """Each tenth of a second: one short step of indexing, and a drawing where something changed."""

    DEFAULT_CSS = """
    LiveLog { height: 1fr; border-top: solid $rule; border-title-color: $quiet; }
    LiveLog:focus-within {
        border-top: solid $accent; border-title-color: $foreground; border-title-style: bold;
    }
    LiveLog > LogView { border-top: none; }
    """

    def __init__(self, path: Callable[[], Path | None], glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        """`path` says where the log is, None as long as there is none."""
        super().__init__(id=id)
        self._path, self._glyphs = path, glyphs
        self._trouble = ""
        self.opened: OpenedLog | None = None
        self.view: LogView | None = None

    def on_mount(self) -> None:
        self.set_interval(REFRESH_SECONDS, self._go_on)
        self._retitle()

    def on_unmount(self) -> None:
        if self.opened is not None:
            self.opened.close()
            self.opened = None

    @property
    def following(self) -> bool:
        return self.view is None or self.view.following

    def follow(self, following: bool) -> None:
        if self.view is not None:
            self.view.follow(following)
            self._retitle()

    def _go_on(self) -> None:
        if self.opened is None and not self._open():
            return
        if self.opened is not None and self.view is not None and self.view.is_attached:
            self.opened.step()
            self.view.take()
        self._retitle()

    def _open(self) -> bool:
        path = self._path()
        if path is None:
            return False
        try:
            self.opened = OpenedLog.of_file(path, NAME)
        except InputError as error:
            self._trouble = str(error)
            self._retitle()
            return False
        self.view = LogView(self.opened, self._glyphs, id="log-view")
        self.mount(self.view)
        return True

    def on_log_view_moved(self) -> None:
        self._retitle()

    def on_descendant_focus(self) -> None:
        self._retitle()

    def on_descendant_blur(self) -> None:
        self._retitle()

    def _retitle(self) -> None:
        mark = self._glyphs.running + " " if self.has_focus_within else ""
        title = self._glyphs.text(f"{mark}Log · {self._about()}")
        if title != self.border_title:
            self.border_title = title

    def _about(self) -> str:
        if self.opened is None:
            return self._trouble or "nothing yet"
        count = self.opened.index.line_count
        about = f"{count:,} line{'' if count == 1 else 's'}"
        about += f", {self.opened.wanted_count:,} shown" if self.opened.is_filtered else ""
        return f"{about} · {'following' if self.following else 'paused, space follows'}"
