"""Reads /proc: which processes belong together, what they hold, how they ended. Every read may fail."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_SHM = "/dev/shm/"  # noqa: S108 - read, never written


class Process(NamedTuple):
    """`exit_status` as wait(2) gives it, for a zombie that its parent has not taken yet; else None."""

    pid: int
    ppid: int
    session: int
    state: str
    start_ticks: int
    exit_status: int | None

    @property
    def is_living(self) -> bool:
        return self.state not in "ZX"


def read_all() -> dict[int, Process]:
    """Every process that can be read."""
    found = (read_one(pid) for pid in _pids())
    return {process.pid: process for process in found if process is not None}


def read_one(pid: int) -> Process | None:
    return parse_stat(pid, _read(f"/proc/{pid}/stat"))


def parse_stat(pid: int, text: str) -> Process | None:
    """The name is in brackets and may itself contain brackets and blanks: proc(5)."""
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20:
        return None
    state = fields[0]
    exit_status = int(fields[49]) if state in "ZX" and len(fields) > 49 else None
    return Process(pid, int(fields[1]), int(fields[3]), state, int(fields[19]), exit_status)


def descendants(processes: Mapping[int, Process], roots: Iterable[int]) -> set[int]:
    """The pids in `roots` and all that come from them by parentage."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.ppid, []).append(process.pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children.get(pid, ()))
    return {pid for pid in found if pid in processes}


def title(pid: int) -> str:
    """What `ps` shows, shortened: vLLM sets titles such as `VLLM::EngineCore`."""
    words = _read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()
    return words[:80] or _read(f"/proc/{pid}/comm").strip() or "?"


def is_resource_tracker(pid: int) -> bool:
    """Python's own process that removes shared memory of those that died (multiprocessing/resource_tracker.py)."""
    return b"resource_tracker import main" in _read_raw(f"/proc/{pid}/cmdline")


def rss_bytes(pid: int) -> int | None:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else None


def read_bytes(pid: int) -> int | None:
    """Bytes read by any read call (`rchar`): a file in the page cache counts too, since it is progress."""
    value = _field(_read(f"/proc/{pid}/io"), "rchar:")
    return None if value is None else int(value)


def memory_info() -> tuple[int | None, int | None]:
    """(total bytes, available bytes) of the host, None each where not known."""
    text = _read("/proc/meminfo")
    total, available = (_field(text, name) for name in ("MemTotal:", "MemAvailable:"))
    return _kib(total), _kib(available)


def catches(pid: int, signal_number: int) -> bool:
    """Whether the process has a handler for the signal, so that it does not end by it."""
    caught = _field(_read(f"/proc/{pid}/status"), "SigCgt:")
    return caught is not None and bool(int(caught, 16) >> (signal_number - 1) & 1)


def shm_paths(pid: int) -> set[str]:
    """Files below /dev/shm that the process has mapped or open."""
    lines = _read(f"/proc/{pid}/maps").splitlines()
    found = {line[line.index(_SHM) :] for line in lines if _SHM in line}
    try:
        links = [_link(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        links = []  # gone, or not ours to read: then it holds nothing of ours
    found.update(target for target in links if target.startswith(_SHM))
    return {path.replace(" (deleted)", "") for path in found}


def shm_listed() -> frozenset[str]:
    """The paths of all that lies in /dev/shm; nothing where it cannot be read."""
    try:
        return frozenset(_SHM + name for name in os.listdir(_SHM))
    except OSError:
        return frozenset()


def prints_into(pid: int, pipe_inode: int) -> bool:
    """Whether stdout or stderr of the process is this pipe: survives re-parenting, sessions and set titles."""
    return any(_link(f"/proc/{pid}/fd/{fd}") == f"pipe:[{pipe_inode}]" for fd in (1, 2))


def is_marked(pid: int, mark: str) -> bool:
    """Whether `mark` was in the environment at start. Setting a title overwrites it: setproctitle reuses the space."""
    return mark.encode() in _read_raw(f"/proc/{pid}/environ").split(b"\0")


def marked(mark: str) -> set[int]:
    """Every process that `is_marked`."""
    return {pid for pid in _pids() if is_marked(pid, mark)}


def _pids() -> Iterator[int]:
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


def _field(text: str, name: str) -> str | None:
    """The first word after `name` at the start of a line."""
    lines = (line.split() for line in text.splitlines() if line.startswith(name))
    return next((words[1] for words in lines if len(words) > 1), None)


def _kib(text: str | None) -> int | None:
    return None if text is None else int(text) * 1024


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read_raw(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _read(path: str) -> str:
    return _read_raw(path).decode("utf-8", "replace")
