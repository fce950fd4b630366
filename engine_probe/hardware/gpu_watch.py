"""The GPUs of this host, watched: the driver is opened once, and again after it or a GPU was gone.

Nothing here raises for what the driver says. One thread uses a watch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.facts import Known
from engine_probe.hardware.gpus import GpuState
from engine_probe.hardware.nvml import Driver, Refusal
from engine_probe.hardware.nvml_session import Remembered, Session, open_session

if TYPE_CHECKING:
    from engine_probe.facts import Fact

# Opening takes a real driver up to seconds, so what stays gone is tried ever more rarely.
_LONGEST_PAUSE_READS = 64


class GpuWatch:
    """`read` as often as wanted, `sample_memory` between, `close` at the end."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._session: Session | None = None
        self._before = Remembered()
        self._why_not = GpuState()
        self._xids: dict[tuple[int, str], Fact] = {}
        self._pause_left: int | None = None
        """Readings until the driver is opened again; None while all is well."""
        self._next_pause = 1

    @property
    def calls(self) -> int:
        """NVML calls so far."""
        return self._driver.calls

    def read(self) -> GpuState:
        """One full look. What moves slowly, such as ECC errors or which slices there are, is up to ten readings old."""
        session = self._open() if self._is_time_to_open() else self._session
        if session is None:
            return self._why_not
        state = session.read(self._xids)
        if session.is_lost and self._pause_left is None:  # the driver was loaded again beneath us
            session = self._open()
            if session is None:
                return self._why_not
            state = session.read(self._xids)
        self._note(is_well=not (session.is_lost or session.lacks_a_gpu))
        seen = [gpu for gpu in state.gpus if isinstance(gpu.xid, Known) and gpu.xid.value]
        self._xids = {(gpu.index, gpu.uuid): gpu.xid for gpu in seen}
        return state

    def sample_memory(self) -> None:
        """Memory only, so that the peak between two readings is known."""
        if self._session:
            self._session.sample_memory()

    def close(self) -> None:
        """The driver is let go; a later `read` opens it again."""
        if self._session:
            self._before = self._session.remembered
            self._session.close()
        self._session = None

    def _open(self) -> Session | None:
        self.close()
        opened = open_session(self._driver, self._before)
        if isinstance(opened, Refusal):
            self._why_not = GpuState(unavailable=opened.reason)
            self._note(is_well=False)
            return None
        self._session = opened
        return opened

    def _is_time_to_open(self) -> bool:
        if self._pause_left is None:
            return self._session is None
        self._pause_left -= 1
        return self._pause_left < 0

    def _note(self, is_well: bool) -> None:
        if is_well:
            self._pause_left, self._next_pause = None, 1
        elif self._pause_left is None or self._pause_left < 0:
            self._pause_left = self._next_pause
            self._next_pause = min(2 * self._next_pause, _LONGEST_PAUSE_READS)
