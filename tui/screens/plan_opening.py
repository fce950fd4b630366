"""Opens the memory plan over what is shown. It stays as it is while other screens are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.screens.plan import PlanScreen

if TYPE_CHECKING:
    from pathlib import Path

    from tui.app import ConsoleApp

_NAME = "plan"


def open_plan(app: ConsoleApp, path: Path | None, gpus: str | None = None, version: str | None = None) -> None:
    """The one that was opened before, with all that is tried; else of `path`, which is asked for where it is None."""
    if app.is_screen_installed(_NAME):
        app.push_screen(_NAME)
        return
    screen = PlanScreen(path, gpus, version)
    app.install_screen(screen, _NAME)
    app.push_screen(_NAME)
    if path is None:
        app.call_after_refresh(screen.do_other_file)
