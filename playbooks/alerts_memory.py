"""GPU memory that is held by what should not hold it: orphans, processes that are not seen here, strangers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.alert import Alert, clock, gib, gpu_names, is_loading, number, resident_gib, word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine_probe.hardware.gpus import Gpu, GpuProcess
    from engine_probe.hardware.reading import ProcessReading, Reading, Server

HELD_GIB = 1.0
"""What a stranger may hold without a word: a desktop, a monitor or a bare CUDA context takes some hundred MiB."""
ORPHAN_SECONDS = 5.0
"""How long what is left of a server may take to end by itself: at a normal shutdown it takes one to three."""
UNLISTED_GIB = 2.0
"""Drivers before 510 count their own reserve of up to 1 GiB as used; what is beyond that belongs to somebody."""
_ANY_GIB = 1 / 1024
_BEFORE_THE_GPU = ("config", "distributed_init", "engine_build")
_OTHER = "gpu-memory-held-by-other-process"


def held_memory_alerts(reading: Reading) -> Iterator[Alert]:
    for server in reading.servers:
        if server.state == "orphan" and not _is_just_left(server, reading):
            yield _orphan(server, reading)
    for gpu in reading.gpus.gpus:
        claiming = _claiming(gpu, reading)
        yield from _unseen(gpu, claiming)
        if not claiming:
            yield from _unlisted(gpu)
        if not gpu.slices:
            yield from _strangers(gpu, reading)


def held_by_gpu(server: Server, processes: Iterable[ProcessReading]) -> dict[int, float]:
    """What a server holds on each GPU where that is known, in GiB."""
    held = {split.gpu: size for split in server.memory if (size := number(split.used_gib)) is not None}
    if held:
        return held
    for process in processes:
        for gpu, fact in process.gpu_gib if process.pid in server.pids else ():
            if (size := number(fact)) is not None:
                held[gpu] = held.get(gpu, 0.0) + size
    return held


def _is_just_left(server: Server, reading: Reading) -> bool:
    return server.state_since is not None and reading.time - server.state_since < ORPHAN_SECONDS


def _orphan(server: Server, reading: Reading) -> Alert:
    held = {gpu: size for gpu, size in held_by_gpu(server, reading.processes).items() if size > 0}
    resident = resident_gib([one for one in reading.processes if one.pid in server.pids]) or 0.0
    pids = sorted({server.pid, *server.pids}, key=lambda pid: (pid != server.pid, pid))
    whose = f"pid{'s' if len(pids) > 1 else ''} {', '.join(map(str, pids))}"
    if server.started is not None:
        whose += f", started {clock(server.started, reading.time)}"
    if held:
        about = gpu_names(held)
        text = f"{about}: {gib(sum(held.values()))} held by an engine whose parent is gone ({whose})"
    else:
        about = gpu_names(server.gpus) if server.gpus else server.name
        ram = f": {gib(resident)} of RAM" if resident >= _ANY_GIB else ""
        text = f"{about}: left over from an engine whose parent is gone ({whose}){ram}"
    words = " ".join(map(str, pids))
    what = f"End it, with its children: kill {words}, and kill -9 what is still there some seconds later."
    is_unknown = any(number(split.used_gib) is None for split in server.memory)
    hurts = is_unknown or sum(held.values()) >= HELD_GIB or resident >= HELD_GIB
    return Alert("error" if hurts else "warning", text, about, "orphan-engine-holds-gpu", server.pid, what)


def _claiming(gpu: Gpu, reading: Reading) -> list[Server]:
    """Servers that are here, must hold memory of this GPU by now, and of which the driver lists no process.

    Inside a container the driver knows a server's processes by other pids, or lists none: what is held may be theirs.
    """
    return [
        server
        for server in reading.servers
        if gpu.index in server.gpus
        and server.state not in ("orphan", "ending")
        and word(server.stage) not in _BEFORE_THE_GPU
        and gpu.index not in held_by_gpu(server, reading.processes)
    ]


def _unseen(gpu: Gpu, claiming: list[Server]) -> Iterator[Alert]:
    """The owner is of another container or of the host; from here nobody can end it."""
    hidden = [one for one in _of(gpu) if not one.is_visible and not one.is_ending]
    found = [(one, size) for one in hidden if (size := number(one.used_gib)) is not None]
    total = sum(size for _, size in found)
    if total < HELD_GIB:
        return
    about = f"GPU {gpu.index}"
    pids = ", ".join(str(one.pid) for one, _ in found[:4]) + (", …" if len(found) > 4 else "")
    who = (
        f"a process that is not visible here (pid {pids})"
        if len(found) == 1
        else f"processes not visible here ({pids})"
    )
    may_be = f"; it may be {' or '.join(one.name for one in claiming)}, by another pid" if claiming else ""
    what = "Look on the host or in the other containers whose it is, or take another GPU."
    yield Alert("warning", f"{about}: {gib(total)} held by {who}{may_be}", about, _OTHER, None, what)


def _unlisted(gpu: Gpu) -> Iterator[Alert]:
    """More is in use than all listed processes hold; asked only where every size is known."""
    used, sizes = number(gpu.used_gib), [number(one.used_gib) for one in _of(gpu)]
    if used is None or None in sizes or gpu.processes_unavailable is not None or gpu.slices:
        return
    rest = used - sum(size for size in sizes if size is not None)
    if rest < UNLISTED_GIB:
        return
    about = f"GPU {gpu.index}"
    text = f"{about}: {gib(rest)} held by processes that the driver does not list here"
    what = "Look on the host or in the other containers: nvidia-smi there shows whose it is."
    yield Alert("warning", text, about, _OTHER, None, what)


def _strangers(gpu: Gpu, reading: Reading) -> Iterator[Alert]:
    """A process of no engine, where a model loads: it has less than it counts on."""
    loading = [one.name for one in reading.servers if is_loading(one) and gpu.index in one.gpus]
    if not loading:
        return
    engines = {pid for server in reading.servers for pid in (server.pid, *server.pids)}
    about = f"GPU {gpu.index}"
    for one in _of(gpu):
        size = number(one.used_gib)
        if one.is_visible and one.pid not in engines and size is not None and size >= HELD_GIB:
            text = f"{about}: {gib(size)} held by {one.name} (pid {one.pid}), where {', '.join(loading)} loads"
            what = "End it if nobody needs it, or give the model another GPU or a smaller --gpu-memory-utilization."
            yield Alert("warning", text, about, _OTHER, one.pid, what)


def _of(gpu: Gpu) -> list[GpuProcess]:
    """With the processes of its slices, each once."""
    listed = [*gpu.processes, *(one for part in gpu.slices for one in part.processes)]
    return list({(one.pid, one.slice_index): one for one in listed}.values())
