"""The first line: which program, on which host, with which engine, and the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tui.widgets.words import Words, apart, part

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.content import Content

    from tui.themes.glyphs import Glyphs


def draw_top(host: str, engine: str, devices: str, clock: str, width: int) -> Content:
    about = " · ".join(text for text in (host, devices, engine) if text)
    return apart(part("vllm-console", "$accent bold") + part(f"   {about}", "$quiet"), part(clock, "$quiet"), width)


class TopBar(Words):
    """One line; the clock is the app's, so tests can stop it."""

    DEFAULT_CSS = "TopBar { height: 1; padding: 0 1; background: $panel; }"

    def __init__(self, glyphs: Glyphs, clock: Callable[[], float]) -> None:
        super().__init__(glyphs, id="top")
        self._clock = clock
        self._about = ("", "", "")

    def on_mount(self) -> None:
        self.set_interval(1.0, self.draw)

    def on_resize(self) -> None:
        self.draw()

    def set_about(self, host: str, engine: str, devices: str) -> None:
        self._about = (host, engine, devices)
        self.draw()

    def draw(self) -> None:
        self.show(draw_top(*self._about, time.strftime("%H:%M:%S", time.localtime(self._clock())), self.size.width))
