"""The real world behind the console: this host is watched, the engine found, and cases driven on it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine_probe.locations import find_locations
from tui.running import Backend

if TYPE_CHECKING:
    from engine_probe.hardware.reading import Reading
    from playbooks.alert import Alert
    from tui.running import CaseRun, EngineView, Opening, Watch


def real_backend(engine: str | None = None, *, cold: bool = False, verify: str = "cold") -> Backend:
    """`engine` as `--engine` names it. Loads are warm unless `cold`; a fix is proved as `verify` says.

    What each part needs is imported when it is used, in its thread: the first screen needs the host alone.
    """
    grades = ("cold" if cold else "warm", "cold" if cold else verify)

    def open_case(opening: Opening) -> CaseRun:
        from tui.engine_backend import open_case  # noqa: PLC0415 -- as said above

        return open_case(opening, engine, grades)

    def find_engine() -> EngineView:
        from tui.engine_backend import find_engine  # noqa: PLC0415 -- as said above

        return find_engine(engine)

    return Backend(
        open_case=open_case,
        watch=_watch,
        find_alerts=_find_alerts,
        find_engine=find_engine,
        clock=time.time,
        exports=find_locations().state / "exports",
    )


def _watch() -> Watch:
    from engine_probe.hardware.watch import Watch  # noqa: PLC0415 -- in the thread that watches

    return Watch()


def _find_alerts(reading: Reading, before: Reading | None) -> tuple[Alert, ...]:
    from playbooks.alerts import find_alerts  # noqa: PLC0415 -- in the thread that watches

    return find_alerts(reading, before)
