"""Writes 1 MiB into /dev/shm and the folders that vLLM writes to, and takes it away again."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from engine_probe.examine.scripts.side import Side

_GIB = 1 << 30
_MIB = bytes(1 << 20)
_NO_FOLDER = "there is no such folder, and none above it"


def folders(env: dict[str, str]) -> dict[str, str]:
    """Where vLLM, the hub's client and Python's tempfile write, as their own variables say."""
    home = os.path.expanduser("~")
    caches = env.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    hub = env.get("HF_HOME") or os.path.join(caches, "huggingface")
    return {
        "shm": "/dev/shm",  # noqa: S108 -- where NCCL and vLLM look for it
        "cache": env.get("VLLM_CACHE_ROOT") or os.path.join(caches, "vllm"),
        "hub_cache": env.get("HF_HUB_CACHE") or os.path.join(hub, "hub"),
        "tmp": env.get("TMPDIR") or "/tmp",  # noqa: S108 -- Python's own choice
    }


def examine(where: dict[str, str], model: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Facts, and reasons for those that are not known."""
    facts: dict[str, Any] = {"host.shm_is_there": os.path.isdir(where.get("shm", ""))}
    unknown: dict[str, str] = {}
    troubles = []
    for name, path in where.items():
        folder = path if name == "shm" else nearest(path)
        if folder is None or not os.path.isdir(folder):
            unknown.update(dict.fromkeys((f"host.{name}_free_gib", f"host.{name}_is_writable"), _NO_FOLDER))
            troubles.append(f"{path}: {_NO_FOLDER}")
            continue
        space = os.statvfs(folder)
        facts[f"host.{name}_free_gib"] = round(space.f_bavail * space.f_frsize / _GIB, 3)
        if name == "shm":
            facts["host.shm_total_gib"] = round(space.f_blocks * space.f_frsize / _GIB, 3)
        trouble = write_to(folder)
        facts[f"host.{name}_is_writable"] = trouble is None
        if trouble is not None:
            troubles.append(f"{path}: {trouble.strerror or trouble}")
    place = nearest(model) if model else None
    if place is not None:
        facts["files.free_gib"] = round(os.statvfs(place).f_bavail * os.statvfs(place).f_frsize / _GIB, 3)
    facts["host.write_trouble"] = troubles[0] if troubles else "none found"
    return facts, unknown


def nearest(path: str) -> str | None:
    """`path`, or the folder above it in which it would be made."""
    path = os.path.abspath(os.path.expanduser(path))
    while not os.path.isdir(path):
        if path == os.path.dirname(path):
            return None
        path = os.path.dirname(path)
    return path


def write_to(folder: str) -> OSError | None:
    """A file without a name, so that nothing can be left behind."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(_MIB)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error
    return None


def main() -> None:
    side = Side()
    where = folders(dict(os.environ))
    facts, unknown = examine(where, side.given.get("model"))
    side.answer(facts, unknown, origin="1 MiB written to " + ", ".join(where.values()))


if __name__ == "__main__":
    main()
