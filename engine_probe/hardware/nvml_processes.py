"""The processes that hold memory of a GPU or of a slice, by the driver's lists and this host's /proc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.facts import Known
from engine_probe.hardware.gpus import GpuProcess
from engine_probe.hardware.nvml import Refusal
from engine_probe.hardware.nvml_values import gib, printable
from engine_probe.hardware.processes_read import read_small

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.hardware.gpus import ProcessKind

NOT_VISIBLE = "not visible here"
# Linux cuts a process's name to this length (TASK_COMM_LEN less its end).
_COMM_LENGTH = 15
_LISTS: tuple[tuple[ProcessKind, str], ...] = (
    ("compute", "nvmlDeviceGetComputeRunningProcesses"),
    ("graphics", "nvmlDeviceGetGraphicsRunningProcesses"),
    ("mps", "nvmlDeviceGetMPSComputeRunningProcesses"),
)


def list_processes(
    ask_list: Callable[[str], Any], most_bytes: int, slice_index: int | None
) -> tuple[tuple[GpuProcess, ...], str | None]:
    """All kinds, and why the list is empty or not whole. A process of several kinds is listed once, as the first."""
    found: dict[int, GpuProcess] = {}
    why_not: str | None = None
    for kind, name in _LISTS:
        answer = ask_list(name)
        if isinstance(answer, Refusal):
            if kind == "compute" or not answer.is_for_good:  # not every GPU has graphics, not every driver MPS
                why_not = why_not or answer.reason
            continue
        for one in answer:
            pid, used_gib = int(one.pid), gib(one.usedGpuMemory, most_bytes)
            before = found.get(pid)
            if before is None or (isinstance(used_gib, Known) and not isinstance(before.used_gib, Known)):
                name_here = name_of(pid)
                found[pid] = GpuProcess(
                    pid=pid,
                    name=name_here or NOT_VISIBLE,
                    used_gib=used_gib,
                    is_visible=name_here is not None,
                    slice_index=slice_index,
                    kind=before.kind if before else kind,
                )
    return tuple(found.values()), why_not


def name_of(pid: int, proc: str = "/proc") -> str | None:
    """The process's name; None where this /proc does not show it: it has ended, or lives in another namespace."""
    read = read_small(f"{proc}/{pid}/comm")
    if read is None:
        return None
    name = read[:-1]
    if len(name) >= _COMM_LENGTH:
        first = (read_small(f"{proc}/{pid}/cmdline") or b"").split(b"\0", 1)[0].rsplit(b"/", 1)[-1]
        name = first if first.startswith(name) else name
    return printable(name.decode("utf-8", errors="replace")) or "unnamed"
