"""Containers made of the kernel's namespaces alone, behind docker's words: what `docker exec` and `docker run` do here.

A box has its own pids, mounts, IPC and /tmp, and no image: it sees this host's files otherwise. As with docker, what
`exec` starts goes on when its client is killed, and a box that ends takes all its processes with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME, IMAGE = "serving", "acme/vllm:1"
_UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--mount", "--ipc")
_DOCKER = """\
#!{python}
# docker's words for boxes: exec -i NAME WORDS… | run --rm -i [OPTIONS] --entrypoint PROGRAM IMAGE WORDS…
import subprocess, sys, threading
verb, *words = sys.argv[1:]
if verb == "exec":
    name, *words = words[1:]
    if name != {name!r}:
        sys.exit(f"Error response from daemon: No such container: {{name}}")
    argv = ["nsenter", "--target", "{pid}", "--pid", "--mount", "--ipc", "--", *words]
elif verb == "run":
    program, image, *words = words[words.index("--entrypoint") + 1 :]
    if image != {image!r}:
        sys.exit(f"Unable to find image '{{image}}' locally")
    argv = [*{unshare!r}, "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"', program, *words]
else:
    sys.exit(f"docker: '{{verb}}' is not a docker command.")
# As docker's client does, it carries the bytes: what runs in the box sees the end of its stdin when the client is gone.
box = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
def carry(source, target):
    while content := source.read1(65536):
        target.write(content)
        target.flush()
    target.close()
threading.Thread(target=carry, args=(sys.stdin.buffer, box.stdin), daemon=True).start()
carry(box.stdout, sys.stdout.buffer)
sys.stdout = None
sys.exit(box.wait())
"""


@dataclass(frozen=True)
class Boxes:
    """`bin` holds the `docker`; `serving` runs, and its first process is `pid` outside."""

    bin: Path
    pid: int


@contextlib.contextmanager
def boxes(folder: Path) -> Iterator[Boxes]:
    """Skips where namespaces are not to be had."""
    if any(shutil.which(tool) is None for tool in ("unshare", "nsenter")):
        pytest.skip("no unshare and nsenter (util-linux) here")
    if subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not make namespaces")
    words = [*_UNSHARE, "--kill-child", "sh", "-c", "mount -t tmpfs tmpfs /dev/shm && echo up && exec sleep infinity"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as box:
        assert box.stdout is not None
        assert box.stdout.readline() == b"up\n"
        (first,) = Path(f"/proc/{box.pid}/task/{box.pid}/children").read_text().split()
        script = folder / "docker"
        script.write_text(
            _DOCKER.format(python=sys.executable, name=NAME, image=IMAGE, pid=first, unshare=_UNSHARE),
            encoding="utf-8",
        )
        script.chmod(0o755)
        try:
            yield Boxes(folder, int(first))
        finally:
            box.kill()


def with_boxes(path: str, found: Boxes) -> str:
    """A PATH on which the boxes' docker comes first."""
    return f"{found.bin}{os.pathsep}{path}"
