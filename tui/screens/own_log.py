"""A log that is opened by itself over another screen, and is closed with its viewer."""

from __future__ import annotations

from tui.screens.log_viewer import LogViewerScreen


class OwnLogViewer(LogViewerScreen):
    """Whoever opened it need not remember it."""

    def on_unmount(self) -> None:
        self._log.close()
