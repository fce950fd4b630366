"""Reads /proc: which processes belong together, what they hold, how they ended. Every read may fail."""

import os
from collections import namedtuple

Process = namedtuple("Process", "pid ppid session state start_ticks exit_status")
"""`exit_status` as wait(2) gives it, for a zombie that its parent has not taken yet; else None."""


def read_all():
    """{pid: Process} of every process that can be read."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            process = read_one(int(entry))
            if process is not None:
                found[process.pid] = process
    return found


def read_one(pid):
    text = _read("/proc/%d/stat" % pid)
    if not text:
        return None
    # The name is in brackets and may itself contain brackets and blanks: proc(5).
    fields = text[text.rindex(")") + 2 :].split()
    state = fields[0]
    exit_status = int(fields[49]) if state in "ZX" and len(fields) > 49 else None
    return Process(pid, int(fields[1]), int(fields[3]), state, int(fields[19]), exit_status)


def descendants(processes, roots):
    """The pids in `roots` and all that come from them by parentage."""
    children = {}
    for process in processes.values():
        children.setdefault(process.ppid, []).append(process.pid)
    found, todo = set(), list(roots)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children.get(pid, ()))
    return {pid for pid in found if pid in processes}


def title(pid):
    """What `ps` shows, shortened: vLLM sets titles such as `VLLM::EngineCore`."""
    words = _read("/proc/%d/cmdline" % pid).replace("\0", " ").strip()
    return words[:80] or _read("/proc/%d/comm" % pid).strip() or "?"


def rss_bytes(pid):
    fields = _read("/proc/%d/statm" % pid).split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else None


def read_bytes(pid):
    """Bytes read by any read call (`rchar`): a file in the page cache counts too, since it is progress."""
    for line in _read("/proc/%d/io" % pid).splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    return None


def memory_info():
    """(total bytes, available bytes) of the host, None each where not known."""
    values = {}
    for line in _read("/proc/meminfo").splitlines():
        words = line.split()
        if len(words) == 3:
            values[words[0].rstrip(":")] = int(words[1]) * 1024
    return values.get("MemTotal"), values.get("MemAvailable")


def shm_paths(pid):
    """Files below /dev/shm that the process has mapped or open."""
    found = set()
    for line in _read("/proc/%d/maps" % pid).splitlines():
        start = line.find("/dev/shm/")
        if start >= 0:
            found.add(line[start:].replace(" (deleted)", ""))
    try:
        for fd in os.listdir("/proc/%d/fd" % pid):
            target = _link("/proc/%d/fd/%s" % (pid, fd))
            if target.startswith("/dev/shm/"):
                found.add(target.replace(" (deleted)", ""))
    except OSError:
        pass  # gone, or not ours to read: then it holds nothing of ours
    return found


def marked(mark):
    """Pids whose environment at start held `mark`: survives re-parenting and new sessions."""
    wanted = mark.encode()
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit() and wanted in _read_raw("/proc/%s/environ" % entry).split(b"\0"):
            found.add(int(entry))
    return found


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read_raw(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _read(path):
    return _read_raw(path).decode("utf-8", "replace")
