"""Folders that the console made for this probe alone: they go with it, however the console ends."""

from __future__ import annotations

import os
import shutil

PREFIX = "vllm-console-"
_LIST = "owned"


def add(private_dir: str, folder: str) -> None:
    """Raises ValueError for a folder that does not look like one of ours: nothing else is ever removed."""
    if not os.path.isabs(folder) or not os.path.basename(folder).startswith(PREFIX) or os.path.islink(folder):
        raise ValueError(f"not a folder of the console's own: {folder!r}")
    with open(os.path.join(private_dir, _LIST), "a", encoding="utf-8") as file:
        file.write(folder.replace("\n", "") + "\n")


def remove_all(private_dir: str) -> None:
    """The owned folders and then the private one itself, which holds their list for the watchdog too."""
    for folder in _read(private_dir):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(private_dir, ignore_errors=True)


def _read(private_dir: str) -> list[str]:
    try:
        with open(os.path.join(private_dir, _LIST), encoding="utf-8") as file:
            return file.read().splitlines()
    except OSError:
        return []
