"""The MIG slices of one GPU: which there are, their memory and their processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.hardware.gpus import MigSlice
from engine_probe.hardware.nvml import Refusal
from engine_probe.hardware.nvml_questions import Questions
from engine_probe.hardware.nvml_values import shown_text

if TYPE_CHECKING:
    from engine_probe.hardware.nvml import Driver

# Today's GPUs have at most 7; nvmlDeviceGetMaxMigDeviceCount is not trusted beyond this.
_MOST_SLICES = 16
_MIG_IS_ON = 1


@dataclass(frozen=True)
class SliceHandle:
    index: int
    uuid: str
    name: str
    questions: Questions

    def read(self) -> tuple[MigSlice, str | None]:
        """The slice now, and why its processes cannot be listed."""
        memory = self.questions.memory()
        processes, why_not = self.questions.processes(memory, self.index)
        slice_now = MigSlice(
            self.index, self.uuid, self.name, memory.total_gib, memory.used_gib, memory.free_gib, processes
        )
        return slice_now, why_not


def find_slices(driver: Driver, gpu: Questions) -> tuple[SliceHandle, ...] | None:
    """None for a GPU that is not in MIG mode, or whose mode is not said."""
    mode = gpu.ask("nvmlDeviceGetMigMode")
    if isinstance(mode, Refusal) or mode[0] != _MIG_IS_ON:
        return None
    most = gpu.ask("nvmlDeviceGetMaxMigDeviceCount")
    if isinstance(most, Refusal):
        return ()
    found = []
    for index in range(min(most, _MOST_SLICES)):
        handle = driver.ask("nvmlDeviceGetMigDeviceHandleByIndex", gpu.handle, index)
        if not isinstance(handle, Refusal):
            found.append(_slice(driver, handle, index))
    return tuple(found)


def _slice(driver: Driver, handle: Any, index: int) -> SliceHandle:
    questions = Questions(driver, handle)
    uuid, name = (shown_text(questions.ask(question)) for question in ("nvmlDeviceGetUUID", "nvmlDeviceGetName"))
    return SliceHandle(index, uuid, name, questions)
