"""How a log is looked at: followed or not, in columns, as printed or bare, wrapped or cut, and scrolled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.screens.base import ConsoleScreen
from tui.terminal_mouse import take_mouse
from tui.widgets.log_view import LogView

if TYPE_CHECKING:
    from tui.opened_log import OpenedLog

_LOW = {"-low": 8, "-lower": 5, "-lowest": 3}
"""With fewer rows than these the log alone is shown with its title and keys, without its title, and all alone."""


class LogLooks(ConsoleScreen):
    """A screen with one log view."""

    CSS = """
    LogViewerScreen.-bare #log-title, LogViewerScreen.-bare #log-stages, LogViewerScreen.-bare #log-filters,
    LogViewerScreen.-bare #keys { display: none; }
    LogViewerScreen.-bare #log-view { border: none; padding: 0; scrollbar-size: 0 0; }
    LogViewerScreen.-bare.-told #keys { display: block; }
    LogViewerScreen.-low #log-stages, LogViewerScreen.-low #log-filters, LogViewerScreen.-lower #log-title,
    LogViewerScreen.-low.-filtering #log-title, LogViewerScreen.-lowest #keys { display: none; }
    LogViewerScreen.-low #log-view { border: none; padding: 0; }
    LogViewerScreen.-low.-filtering #log-filters, LogViewerScreen.-lowest.-told #keys { display: block; }
    """

    def __init__(self, log: OpenedLog) -> None:
        super().__init__()
        self._log = log
        self.view = LogView(log, self.console.glyphs, id="log-view")
        self._followed_at: int | None = None
        """The first line that was seen when bare mode took the place of following."""

    def fit(self) -> None:
        """On a low terminal most rows are the log's."""
        for name, rows in _LOW.items():
            self.set_class(self.size.height < rows, name)

    def do_pause_view(self) -> None:
        self.view.follow(False)

    def do_follow_view(self) -> None:
        self.view.follow(True)

    def do_raw(self) -> None:
        self.view.look(raw=not self.view.raw)

    def do_bare(self) -> None:
        """The mouse is the terminal's until bare mode is left, and nothing moves while a person selects."""
        view = self.view
        is_bare, was_following = not view.bare, view.following
        self.set_class(is_bare, "-bare")
        view.follow(False)
        follows_again = view.place == self._followed_at
        view.look(bare=is_bare)
        take_mouse(self.app, not is_bare)
        self._followed_at = view.place if is_bare and was_following else None
        if is_bare:
            self.tell("Bare: select with the mouse as in any terminal; b or esc leaves", style="$accent bold")
        elif follows_again:
            view.follow(True)

    def tell(self, words: str, path: str = "", style: str = "$success bold") -> None:
        self.add_class("-told")
        super().tell(words, path, style)

    def unsay(self) -> None:
        self.remove_class("-told")
        super().unsay()

    def on_key(self) -> None:
        self.remove_class("-told")

    def on_screen_suspend(self) -> None:
        take_mouse(self.app, True)

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        take_mouse(self.app, not self.view.bare)

    def on_unmount(self) -> None:
        self._log.fold_lines(True)
        take_mouse(self.app, True)

    def do_wrap(self) -> None:
        self.view.look(wrap=not self.view.wrap)

    def do_down(self) -> None:
        self.view.move(1)

    def do_up(self) -> None:
        self.view.move(-1)

    def do_half_down(self) -> None:
        self.view.move_page(0.5)

    def do_half_up(self) -> None:
        self.view.move_page(-0.5)

    def do_sideways_left(self) -> None:
        self.view.action_scroll_left()

    def do_sideways_right(self) -> None:
        self.view.action_scroll_right()
