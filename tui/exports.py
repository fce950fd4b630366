"""Text that is kept as a file: a new one each time, nothing is written over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def keep_text(folder: Path, case: str, kind: str, text: str) -> Path:
    """Write `text` to a new file in `folder`, named after the case and `kind`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = "-".join([*([re.sub(r"[^A-Za-z0-9.-]", "_", case).lstrip(".")] if case else []), kind])
    path = free_path(folder, stem)
    path.write_text(text, encoding="utf-8")
    return path


def free_path(folder: Path, stem: str) -> Path:
    """A file that is not there yet."""
    path, number = folder / f"{stem}.txt", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.txt", number + 1
    return path
