"""All that a log's source holds now, as one file that can be read from any place: a file, or what a program prints.

file = open_source("docker:vllm-0")
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.logs.opening import open_file
from engine_probe.logs.sources import parse_source, path_of

if TYPE_CHECKING:
    from engine_probe.logs.sources import Source

_END_BYTES = 1_000


def open_source(word: str) -> int:
    """A descriptor of the log that `word` names as parse_source reads it; not of `-`. Raises InputError."""
    source = parse_source(word)
    return open_file(path_of(source)) if source.kind == "file" else _printed(source)


def _printed(source: Source) -> int:
    from engine_probe.logs.source_child import Child  # noqa: PLC0415 -- most logs are files

    with Child(source, follow=False) as child, os.fdopen(os.dup(child.output), "rb") as pipe:
        file = kept_copy(pipe)
        size = os.fstat(file).st_size
        end = os.pread(file, _END_BYTES, max(0, size - _END_BYTES)).decode("utf-8", "replace")
        trouble = child.failure(end) or (None if end.strip() else child.nothing_printed())
        if trouble is not None:
            os.close(file)
            raise InputError(trouble)
    return file


def kept_copy(pipe: IO[bytes]) -> int:
    """A descriptor of a nameless file that holds all that comes through the pipe. Raises InputError."""
    import shutil  # noqa: PLC0415 -- as above
    import tempfile  # noqa: PLC0415 -- as above

    try:
        with tempfile.TemporaryFile(prefix="vllm-console-") as copy:
            shutil.copyfileobj(pipe, copy, 1 << 20)
            copy.flush()
            return os.dup(copy.fileno())
    except OSError as error:
        raise InputError(f"cannot keep what comes through the pipe: {error.strerror or error}") from error
