"""Pictures of the log viewer, on a log of its own.

After a wanted change: look at the report, then `pytest tests/test_log_viewer_snapshots.py --snapshot-update`.
"""

from __future__ import annotations

import pytest

from tests.test_log_viewer import Viewer
from tests.tui_samples import backend
from tests.vllm_log_samples import LOAD
from tui.app import ConsoleApp
from tui.opened_log import OpenedLog
from tui.screens.log_viewer import LogViewerScreen
from tui.themes.glyphs import UNICODE


@pytest.mark.parametrize(
    ("size", "keys"), [((80, 24), ("exclamation_mark",)), ((120, 30), ("f", "e", "l"))], ids=["error", "filter"]
)
def test_log_viewer(snap_compare, monkeypatch, tmp_path, size, keys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    path = tmp_path / "vllm.log"
    path.write_bytes(LOAD + b"\n" + LOAD + b"\n")
    log = OpenedLog.of_file(path)

    async def before(pilot):
        viewer = Viewer(pilot, log)
        await viewer.until(lambda: isinstance(pilot.app.screen, LogViewerScreen))
        await viewer.until(lambda: viewer.is_settled and log.index.line_count == 38)
        await viewer.press(*keys)
        await viewer.until(lambda: viewer.is_settled)
        viewer.screen._draw()
        await pilot.pause()

    app = ConsoleApp(backend("nothing to open"), log=log, glyphs=UNICODE)
    assert snap_compare(app, terminal_size=size, run_before=before)
    log.close()
