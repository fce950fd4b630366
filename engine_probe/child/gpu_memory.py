"""GPU memory of some processes, as nvidia-smi tells it: the engine's side has no other library that may be asked."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_PROGRAM = "nvidia-smi"
_ASK = ("--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader,nounits")
_TIMEOUT_S = 10.0
_MIB = 1 << 20


def can_be_read() -> bool:
    return shutil.which(_PROGRAM) is not None


def used_bytes(pids: Collection[int]) -> int | None:
    """Of `pids` together; None where the driver lists none of them, as in a container with pids of its own."""
    try:
        told = subprocess.run(
            [_PROGRAM, *_ASK], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    sizes = [size for pid, size in map(_row, told.stdout.splitlines()) if pid in pids and size is not None]
    return sum(sizes) * _MIB if sizes else None


def _row(line: str) -> tuple[int | None, int | None]:
    """`4711, 1024`; `[N/A]` where the driver does not say."""
    pid, _, size = line.partition(",")
    return (int(pid) if pid.strip().isdigit() else None), (int(size) if size.strip().isdigit() else None)
