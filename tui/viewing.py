"""Opens the console on logs alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from engine_probe.logs.index_wanted import Wanted
from tui.app import ConsoleApp
from tui.app_run import run_app
from tui.backend import real_backend
from tui.opened_log import OpenedLog
from tui.themes.glyphs import choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.sources import Source


def run_viewer(
    sources: Sequence[Source], wanted: Wanted, find: str = "", *, stdin: int = 0, ascii_only: bool | None = None
) -> int:
    """`wanted`, and lines that match `find`, are what it shows first. Raises InputError where a source is none."""
    log = OpenedLog.of_sources(sources, stdin)
    try:
        if wanted != Wanted():
            log.want(wanted)
        log.search(find)
        log.narrow(bool(find))
        app = ConsoleApp(real_backend(), log=log, glyphs=choose(ascii_only))
        code = asyncio.run(run_app(app))
    finally:
        log.close()
    if app.bug is not None:
        raise app.bug
    return code
