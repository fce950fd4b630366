"""Tiny model folders, whole and damaged, and what is beside a file: for changes outside the deployment file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine_probe.outside.file_change import place, planned
from engine_probe.outside.work import Work
from playbooks.lab.tiny_model import write_tiny_llama

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.outside.file_change import FileChange

WEIGHTS = "model.safetensors"


def models(folder: Path) -> tuple[Path, Path]:
    """A model whose weights are cut in half, and the whole one beside; both in folders of their own."""
    whole, broken = folder / "whole" / "chat", folder / "served" / "chat"
    for one in (whole, broken):
        one.parent.mkdir()
        write_tiny_llama(one)
    weights = broken / WEIGHTS
    os.truncate(weights, weights.stat().st_size // 2)
    os.utime(weights, ns=(1_000_000_000, 1_000_000_007))
    weights.chmod(0o640)
    return whole, broken


def state(path: Path) -> tuple[object, ...]:
    """Everything that a way back must bring back."""
    if path.is_symlink():
        return ("link", str(path.readlink()))
    found = path.stat()
    return (path.read_bytes(), found.st_mode, found.st_mtime_ns, found.st_ino)


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def replaced(folder: Path, name: str, source: Path) -> FileChange:
    return place(planned(folder, name, str(source)), lambda _: None, Work())
