"""What a case keeps while it goes on. A disk that is full or gone ends no case: it is said once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.events import Event

if TYPE_CHECKING:
    from engine_probe.launch import Deployment
    from engine_probe.run_log import RunLog
    from playbooks.case import CaseFolder
    from playbooks.decisions import Decision


@dataclass
class Keeping:
    """In `case`, a folder, and in `log`; either may be missing."""

    case: CaseFolder | None
    log: RunLog | None
    _trouble: str | None = None
    _is_told: bool = False

    def begin(self, deployment: Deployment) -> None:
        if self.case is None:
            return
        try:
            self.case.keep_deployment(deployment, "before")
        except OSError as error:
            self._say(error)

    def take(self, load_number: int, happening: Event | Decision) -> None:
        if self.log is not None and isinstance(happening, Event):
            self.log.add(happening)
        if self.case is None:
            return
        try:
            self.case.record(load_number, happening)
        except OSError as error:
            self._say(error)

    def flush(self) -> None:
        """Nothing more comes just now: whoever reads the log sees it all."""
        if self.log is not None:
            self.log.flush()

    def _say(self, error: OSError) -> None:
        if self.case is not None:
            self._trouble = self._trouble or f"{self.case.path} cannot be written: {error.strerror or error}"

    def news(self) -> str | None:
        """Why something could not be kept, the first time that it is asked after it happened."""
        trouble = self._trouble or (self.log.trouble if self.log is not None else None)
        if trouble is None or self._is_told:
            return None
        self._is_told = True
        return f"{trouble}. The case goes on; what it keeps on disk is not complete."
