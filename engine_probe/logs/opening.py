"""Opens a log file: only what can be read from any place again; a packed one, or one without line feeds, as a copy."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.logs.line_ends import with_line_ends
from engine_probe.logs.unpacking import packing_of, unpacked

if TYPE_CHECKING:
    from pathlib import Path


def open_file(path: Path) -> int:
    """A descriptor of a regular file, or of a nameless one with what is in it. Raises InputError."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot read {path}: {why}") from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise InputError(f"cannot read {path}: it is no regular file; pipe it in instead: … | vllm-console logs -")
    packing = packing_of(file)
    return with_line_ends(file if packing is None else unpacked(file, path, packing))
