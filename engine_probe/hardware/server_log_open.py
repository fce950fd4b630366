"""What a server prints into, and how that is opened: only regular files ever are."""

from __future__ import annotations

import os
import stat

from engine_probe.escapes import safe_lines


def look_at(name: str) -> tuple[tuple[int, int], str] | str:
    """What a descriptor of a process, /proc/PID/fd/1, is: a file's device and inode with its path; or why none."""
    try:
        found = os.stat(name)  # noqa: PTH116
        path = os.readlink(name) if os.path.islink(name) else name  # noqa: PTH114, PTH115
    except OSError as error:
        return f"where its output goes cannot be seen: {error.strerror}"
    if not stat.S_ISREG(found.st_mode):
        return f"its output goes to {_kind(found.st_mode, path)}, which cannot be read along"
    return (found.st_dev, found.st_ino), safe_lines(path)


def _kind(mode: int, path: str) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket, such as the journal's"
    return "nothing" if path == "/dev/null" else f"a terminal ({safe_lines(path)})"


def open_regular(name: str, path: str) -> int | str:
    """A descriptor of the file, `path` being how a person knows it; or why it cannot be read."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        return f"its log {path} cannot be read: {error.strerror}"
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return "its output goes to what is no file"
    return file
