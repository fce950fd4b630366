"""What a case keeps while it goes on. A disk that is full or gone ends no case: it is said once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.events import Event
from engine_probe.run_log import RunLog
from playbooks.case_summary import SUMMARY
from playbooks.kept_cases import REPORT
from playbooks.progress import load_log
from playbooks.recorder import Recorder

if TYPE_CHECKING:
    from playbooks.case import CaseFolder
    from playbooks.decisions import Decision
    from playbooks.effects import Done
    from playbooks.session import Session


@dataclass
class Keeping:
    """In `case`, a folder, and in `log`; either may be missing. Each load has a log of its own beside them."""

    case: CaseFolder | None
    log: RunLog | None
    _recorder: Recorder | None = None
    _loads: dict[int, RunLog] = field(default_factory=dict)
    _trouble: str | None = None
    _is_told: bool = False

    def begin(self, session: Session) -> None:
        """A case whose folder has events already goes on."""
        if self.case is None:
            return
        self._recorder = Recorder(self.case)
        is_resumed = self.case.has_events
        try:
            if not is_resumed:
                self.case.keep_deployment(session.deployment, "before")
            for name in (REPORT, SUMMARY):  # one that was left undecided has its end still to come
                (self.case.path / name).unlink(missing_ok=True)
            self._recorder.begin(session, is_resumed=is_resumed)
        except OSError as error:
            self._say(error)

    def take(self, before: Session, happening: Event | Decision | Done, after: Session) -> None:
        """`after` is what became of `before` by `happening`."""
        loads = after.progress.loads
        if isinstance(happening, Event):
            if self.log is not None:
                self.log.add(happening)
            if happening.model is not None and happening.model in loads:
                self._of_load(loads[happening.model]).add(happening)
        if self._recorder is None:
            return
        try:
            self._recorder.take(before, happening, after)
        except OSError as error:
            self._say(error)

    def leave(self) -> None:
        """The case does not come to its end here."""
        if self._recorder is None:
            return
        try:
            self._recorder.leave()
        except OSError as error:
            self._say(error)

    def _of_load(self, number: int) -> RunLog:
        log = self._loads.get(number)
        if log is None:
            log = self._loads[number] = RunLog()
            if self.case is None:
                log.open_privately()
            else:
                log.open(self.case.path / load_log(number))
        return log

    def reading(self, load_number: int) -> int:
        """A descriptor of what one load has logged so far. Raises OSError."""
        return self._of_load(load_number).reading()

    def flush(self) -> None:
        """Nothing more comes just now: whoever reads the log sees it all."""
        for log in (self.log, *self._loads.values()):
            if log is not None:
                log.flush()

    def close(self) -> None:
        """Let go of the logs of loads; those that no case keeps are removed."""
        for log in self._loads.values():
            log.close()

    def _say(self, error: OSError) -> None:
        if self.case is not None:
            self._trouble = self._trouble or f"{self.case.path} cannot be written: {error.strerror or error}"

    def news(self) -> str | None:
        """Why something could not be kept, the first time that it is asked after it happened."""
        logs = (self.log, *self._loads.values())
        trouble = self._trouble or next((log.trouble for log in logs if log is not None and log.trouble), None)
        if trouble is None or self._is_told:
            return None
        self._is_told = True
        return f"{trouble}. The case goes on; what it keeps on disk is not complete."
