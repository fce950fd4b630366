"""Questions about one GPU or slice. What it does not support is not asked again until `forget_refusals`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.facts import Known
from engine_probe.hardware import nvml_values as values
from engine_probe.hardware.nvml import Refusal
from engine_probe.hardware.nvml_processes import list_processes

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.hardware.gpus import GpuProcess
    from engine_probe.hardware.nvml import Driver

_GIB = 1024**3
_UNBOUNDED_BYTES = 2**50


class Questions:
    def __init__(self, driver: Driver, handle: Any) -> None:
        self.handle = handle
        self._driver = driver
        self._refused: dict[tuple[Any, ...], Refusal] = {}

    def forget_refusals(self) -> None:
        self._refused.clear()

    def ask(self, name: str, *arguments: Any, pick: Callable[[Any], Any] | None = None, version_2: bool = False) -> Any:
        """The answer or a Refusal."""
        key = (name, arguments, version_2)
        refused = self._refused.get(key)
        if refused is not None:
            return refused
        answer = self._driver.ask(name, self.handle, *arguments, pick=pick, version_2=version_2)
        return self._remember(key, answer)

    def memory(self) -> values.Memory:
        """The second version of the call keeps the driver's own reserve out of `used`; drivers before 510 lack it."""
        answer = self.ask("nvmlDeviceGetMemoryInfo", version_2=True)
        if isinstance(answer, Refusal) and answer.is_for_good:
            return values.memory(self.ask("nvmlDeviceGetMemoryInfo"), has_reserve=False)
        return values.memory(answer, has_reserve=True)

    def throttle_bits(self) -> Any:
        """Drivers before 535 have the old name only."""
        answer = self.ask("nvmlDeviceGetCurrentClocksEventReasons")
        if isinstance(answer, Refusal) and answer.is_for_good:
            return self.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return answer

    def processes(
        self, memory: values.Memory, slice_index: int | None = None
    ) -> tuple[tuple[GpuProcess, ...], str | None]:
        """No process holds more than there is."""
        total = memory.total_gib
        most_bytes = round(float(total.value) * _GIB) if isinstance(total, Known) else _UNBOUNDED_BYTES
        return list_processes(self._ask_list, most_bytes, slice_index)

    def _ask_list(self, name: str) -> Any:
        """Drivers before 510 have the second version only, of the same layout. nvidia-ml-py's name without a version
        raises what is no NVMLError."""
        answer: Any = None
        for version in ("_v3", "_v2"):
            key = (name + version,)
            refused = self._refused.get(key)
            answer = refused or self._remember(key, self._driver.ask_list(name + version, self.handle))
            if not (isinstance(answer, Refusal) and answer.is_for_good):
                break
        return answer

    def _remember(self, key: tuple[Any, ...], answer: Any) -> Any:
        if isinstance(answer, Refusal) and answer.is_for_good:
            self._refused[key] = answer
        return answer
