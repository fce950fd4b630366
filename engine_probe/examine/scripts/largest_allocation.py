"""The largest single allocation on each GPU of a launch against what is free there: far less means fragments.

For a moment it holds all free memory of one GPU; another process that asks for memory just then gets none.
"""

from __future__ import annotations

import os
from typing import Any

from engine_probe.examine.scripts.side import Side

_GIB = 1 << 30
_STEP = 16 << 20


def largest(torch: Any, device: int) -> tuple[int, int]:
    """Bytes of the largest block, and bytes that the driver calls free."""
    torch.cuda.set_device(device)
    torch.empty(1, device="cuda")  # CUDA's context is made before anything is measured
    free = int(torch.cuda.mem_get_info(device)[0])
    least, most = 0, free // _STEP
    while least < most:
        middle = (least + most + 1) // 2
        if _fits(torch, middle * _STEP):
            least = middle
        else:
            most = middle - 1
    return least * _STEP, free


def _fits(torch: Any, size: int) -> bool:
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")
    except RuntimeError:  # torch.OutOfMemoryError is one
        return False
    finally:
        torch.cuda.empty_cache()
    return True


def main() -> None:
    side = Side()
    gpus = side.given.get("gpus")
    if gpus:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    try:
        import torch
    except Exception as error:
        side.answer({}, why_not=f"torch cannot be imported there: {error}")
        return
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        why = "torch sees no GPU there" if built else "the engine's torch is built for CPUs: there is no GPU memory"
        side.answer({}, why_not=why)
        return
    numbers = list(gpus) if gpus else list(range(torch.cuda.device_count()))[: int(side.given.get("ranks") or 1)]
    found = [(number, *largest(torch, at)) for at, number in enumerate(numbers) if at < torch.cuda.device_count()]
    if not found:
        side.answer({}, why_not="torch sees none of the launch's GPUs")
        return
    number, block, free = min(found, key=lambda one: one[1])
    facts = {
        "gpu.largest_allocation_gib": round(block / _GIB, 2),
        "gpu.free_now_gib": round(free / _GIB, 2),
        "gpu.in_fragments_gib": round((free - block) / _GIB, 2),
    }
    each = ", ".join(f"GPU {at}: {size / _GIB:.2f} of {room / _GIB:.2f} GiB" for at, size, room in found)
    side.answer(facts, origin=f"torch, GPU {number} ({each})")


if __name__ == "__main__":
    main()
