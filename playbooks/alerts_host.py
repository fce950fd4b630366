"""The host's memory, shared memory and disks, where little is left of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.alert import Alert, gib, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.hardware.host import Disk, HostState
    from engine_probe.hardware.reading import Reading

RAM_LOW_SHARE, RAM_GONE_SHARE = 0.05, 0.02
"""Of the RAM or of a container's limit that is left. Pinned buffers and a tokenizer of a start want a few GiB more; the
kernel begins to kill when nothing is left, so 2 % means that the next allocation may be the last."""
SWAP_USED_SHARE, SWAP_USED_GIB = 0.5, 2.0
"""A little is always swapped out; half of it and gigabytes mean that what is needed lies on a disk."""
SHM_LOW_SHARE, SHM_GONE_SHARE, SHM_ENOUGH_GIB = 0.10, 0.02, 4.0
"""Message queues and NCCL take up to some hundred MiB a rank, the cache of multimodal inputs up to 4 GiB
(vllm/config/multimodal.py, mm_processor_cache_gb): where that is free, it is not full."""
DISK_LOW_SHARE, DISK_LOW_GIB, DISK_GONE_GIB = 0.05, 20.0, 1.0
"""A compile cache takes some GiB, a model tens; below 1 GiB what is being written now fails."""


def host_alerts(reading: Reading) -> Iterator[Alert]:
    host = reading.host
    yield from _ram(host)
    yield from _container(host)
    yield from _swap(host)
    yield from _shared_memory(host)
    for disk in host.disks:
        yield from _disk(disk)


def _ram(host: HostState) -> Iterator[Alert]:
    total, available = number(host.ram_total_gib), number(host.ram_available_gib)
    if total and available is not None and available < RAM_LOW_SHARE * total:
        is_gone = available < RAM_GONE_SHARE * total
        text = f"RAM: {gib(max(available, 0))} of {gib(total)} are left"
        what = "End what is not needed, or load one model after the other: the kernel kills when nothing is left."
        yield Alert("error" if is_gone else "warning", text, "host", "host-ram-exhausted", None, what)


def _container(host: HostState) -> Iterator[Alert]:
    """File cache counts as used and is given back: only the rest can be too much."""
    limit, used = number(host.cgroup_limit_gib), number(host.cgroup_used_gib)
    cached = number(host.cgroup_cached_gib)
    if not limit or used is None or cached is None:
        return
    needed = used - cached
    left = limit - needed
    if left < RAM_LOW_SHARE * limit:
        text = f"This container: {gib(needed)} of its limit of {gib(limit)} are in use, file cache not counted"
        what = "Give the container more memory, or load less in it: at its limit the kernel kills one of its processes."
        is_gone = left < RAM_GONE_SHARE * limit
        yield Alert("error" if is_gone else "warning", text, "host", "host-ram-exhausted", None, what)


def _swap(host: HostState) -> Iterator[Alert]:
    total, free = number(host.swap_total_gib), number(host.swap_free_gib)
    if total and free is not None and total - free >= max(SWAP_USED_SHARE * total, SWAP_USED_GIB):
        text = f"Swap: {gib(total - free)} of {gib(total)} are in use"
        what = "Find what took the RAM: an engine that is swapped out answers slowly or times out."
        yield Alert("warning", text, "host", "host-ram-exhausted", None, what)


def _shared_memory(host: HostState) -> Iterator[Alert]:
    total, free = number(host.shm_total_gib), number(host.shm_free_gib)
    if total and free is not None and free < SHM_LOW_SHARE * total and free < SHM_ENOUGH_GIB:
        text = f"/dev/shm: {gib(max(free, 0))} of {gib(total)} are free"  # noqa: S108 -- shown, not opened
        what = "Remove what dead processes left in /dev/shm, or start the container with a larger --shm-size."
        is_gone = free < SHM_GONE_SHARE * total
        yield Alert("error" if is_gone else "warning", text, "host", "shm-too-small", None, what)


def _disk(disk: Disk) -> Iterator[Alert]:
    total, free = number(disk.total_gib), number(disk.free_gib)
    if free is None or not total:
        return
    if free < DISK_GONE_GIB or (free < DISK_LOW_SHARE * total and free < DISK_LOW_GIB):
        text = f"Disk of {disk.what or 'files'} ({disk.path}): {gib(max(free, 0))} of {gib(total)} are free"
        what = "Free space there, or move that folder to a larger disk: downloads and compile caches fail next."
        yield Alert("error" if free < DISK_GONE_GIB else "warning", text, "host", "disk-full", None, what)
