"""Whether a path is there, where asking may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def is_there(path: Path) -> bool:
    """Raises InputError where a folder on the way may not be entered. What is too long for a path is none."""
    try:
        return path.exists()
    except PermissionError as error:
        raise InputError(f"{path} may not be read: permission denied") from error
    except (OSError, ValueError):
        return False
