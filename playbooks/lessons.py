"""What the loads of a session printed about their memory, kept for later plans once the session is over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.events import Ready
from playbooks.progress import load_log

if TYPE_CHECKING:
    from engine_probe.events import Event
    from engine_probe.launch import Launch
    from playbooks.replay import OnChange
    from playbooks.session import Session


class Lessons:
    """Looks on while a session goes on; only loads that answered teach something."""

    def __init__(self, on_change: OnChange) -> None:
        self._on_change = on_change
        self._loads: dict[Path, Launch] = {}

    def see(self, session: Session, event: Event | None) -> None:
        if isinstance(event, Ready) and session.case_folder is not None and event.model is not None:
            launch = session.deployment.launch(event.model)
            number = session.progress.loads.get(event.model)
            if launch is not None and number is not None:
                self._loads[Path(session.case_folder) / load_log(number)] = launch
        self._on_change(session, event)

    def learn(self) -> None:
        from engine_probe.memory.learned_start import learn_after_load  # noqa: PLC0415 -- only where a load answered

        for log, launch in self._loads.items():
            learn_after_load(launch, log)
