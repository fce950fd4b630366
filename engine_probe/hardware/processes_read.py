"""Reads single files of /proc, cheaply: a monitor does it many times a second. Whatever cannot be read is None."""

from __future__ import annotations

import os
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_LONGEST_WORDS = 64 << 10
_AT_ONCE = 1 << 20
_SMALL = 4096


class Stat(NamedTuple):
    """What /proc/PID/stat says of one process (proc(5))."""

    pid: int
    ppid: int
    state: str
    group: int
    session: int
    cpu_ticks: int
    threads: int
    start_ticks: int
    rss_pages: int
    name: str

    @property
    def is_living(self) -> bool:
        return self.state not in "ZX"


def read_stat(proc: str, pid: int) -> Stat | None:
    return parse_stat(pid, read_small(f"{proc}/{pid}/stat") or b"")


def parse_stat(pid: int, content: bytes) -> Stat | None:
    """The name is in brackets and may itself hold brackets and blanks."""
    begin, end = content.find(b"("), content.rfind(b")")
    fields = content[end + 1 :].split(None, 22)
    if begin < 0 or end < begin or len(fields) < 22:
        return None
    try:
        return Stat(
            pid=pid,
            ppid=int(fields[1]),
            state=fields[0].decode("ascii", "replace"),
            group=int(fields[2]),
            session=int(fields[3]),
            cpu_ticks=int(fields[11]) + int(fields[12]),
            threads=int(fields[17]),
            start_ticks=int(fields[19]),
            rss_pages=int(fields[21]),
            name=content[begin + 1 : end].decode("utf-8", "replace"),
        )
    except ValueError:
        return None


def read_words(proc: str, pid: int) -> tuple[str, ...]:
    """The command line; a title that a process gave itself is one word, and nothing where it has ended."""
    content = read_small(f"{proc}/{pid}/cmdline", _LONGEST_WORDS) or b""
    return tuple(content.rstrip(b"\0").decode("utf-8", "replace").split("\0")) if content.strip(b"\0") else ()


def read_pids(proc: str) -> set[int]:
    """None that can be read: an empty set."""
    try:
        return {int(name) for name in os.listdir(proc) if name.isdigit()}  # noqa: PTH208 - 300 names a second
    except OSError:
        return set()


def read_environ(proc: str, pid: int) -> dict[str, str] | None:
    """As it was at the start. A process that gave itself a title has lost it: setproctitle writes over it."""
    content = read_bytes(f"{proc}/{pid}/environ")
    if content is None or not content.strip(b"\0"):
        return None
    pairs = (one.decode("utf-8", "replace").partition("=") for one in content.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def shared_pages(proc: str, pid: int) -> int | None:
    fields = (read_small(f"{proc}/{pid}/statm") or b"").split(None, 3)
    return int(fields[2]) if len(fields) > 2 and fields[2].isdigit() else None


def pss_kib(proc: str, pid: int) -> int | None:
    """The kernel walks all page tables for it: milliseconds for a large process."""
    for line in (read_bytes(f"{proc}/{pid}/smaps_rollup") or b"").split(b"\n", 8)[:8]:
        if line.startswith(b"Pss:"):
            words = line.split()
            return int(words[1]) if len(words) > 1 and words[1].isdigit() else None
    return None


def count_open_files(proc: str, pid: int) -> int | None:
    try:
        return len(os.listdir(f"{proc}/{pid}/fd"))  # noqa: PTH208
    except OSError:
        return None


def namespace_pid(proc: str, pid: int) -> int:
    """The number by which the process knows itself, which differs inside a container."""
    for line in (read_bytes(f"{proc}/{pid}/status") or b"").split(b"\n"):
        if line.startswith(b"NSpid:"):
            words = line.split()
            return int(words[-1]) if words[-1].isdigit() else pid
    return pid


def boot_time(proc: str) -> float | None:
    """When the host was started, seconds since the epoch."""
    for line in (read_bytes(f"{proc}/stat") or b"").split(b"\n"):
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return None


def link_of(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115
    except OSError:
        return None


def read_small(path: str, most: int = _AT_ONCE) -> bytes | None:
    """The same for a file of /proc that is given whole where it fits: its end is not asked for."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        content = os.read(file, _SMALL)
    except OSError:
        return None
    finally:
        os.close(file)
    return content if len(content) < _SMALL else read_bytes(path, most)


def read_bytes(path: str, most: int = _AT_ONCE) -> bytes | None:
    """Up to `most` bytes, unbuffered; None where it cannot be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        content = os.read(file, min(most, 16384))
        while len(content) < most and (more := os.read(file, min(most - len(content), 65536))):
            content += more
    except OSError:
        return None
    finally:
        os.close(file)
    return content
