"""Writes a file that was not there: whole, or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def write_new(path: Path, text: str) -> None:
    """Raises InputError where the file is there already or cannot be written; nothing of it is left then."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if os.path.lexists(path):
            raise FileExistsError
        try:
            with part.open("x", encoding="utf-8") as file:
                file.write(text)
            _take_name(part, path)
        finally:
            part.unlink(missing_ok=True)
    except FileExistsError:
        raise InputError(f"{path} is there already: give another name") from None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def _take_name(part: Path, path: Path) -> None:
    """Raises FileExistsError where somebody else made the file in between, if the file system can tell."""
    try:
        path.hardlink_to(part)
    except FileExistsError:
        raise
    except OSError:  # no hard links here
        part.rename(path)
