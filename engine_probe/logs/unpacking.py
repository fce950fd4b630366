"""Logs that rotation has packed (.gz, .xz, .bz2, .zst): unpacked into a nameless file, by their first bytes."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 4 << 30
"""Unpacked. Some kilobytes can hold any number of zeros."""
_CHUNK_BYTES = 1 << 20
_LONGEST_MAGIC = 6


class _Packing(NamedTuple):
    magic: bytes
    module: str
    tool: str


_PACKINGS = (
    _Packing(b"\x1f\x8b\x08", "gzip", "zcat"),
    _Packing(b"\xfd7zXZ\x00", "lzma", "xzcat"),
    _Packing(b"BZh", "bz2", "bzcat"),
    _Packing(b"\x28\xb5\x2f\xfd", "compression.zstd", "zstdcat"),  # Python 3.14 on
)


def packing_of(file: int) -> _Packing | None:
    """None: it is a log as it was written."""
    begin = os.pread(file, _LONGEST_MAGIC, 0)
    return next((one for one in _PACKINGS if begin.startswith(one.magic)), None)


def is_packed(path: Path) -> bool:
    """Also False where it cannot be read: whoever opens it says so."""
    try:
        with path.open("rb") as stream:
            return packing_of(stream.fileno()) is not None
    except OSError:
        return False


def unpacked(file: int, path: Path, packing: _Packing, most_bytes: int = MOST_BYTES) -> int:
    """A descriptor of what is in it; `file` is closed. Raises InputError."""
    import tempfile  # noqa: PLC0415 - most logs are not packed

    try:
        with os.fdopen(file, "rb") as stream, tempfile.TemporaryFile(prefix="vllm-console-") as copy:
            _copy(_reader(packing, stream), copy, most_bytes)
            copy.flush()
            return os.dup(copy.fileno())
    except ImportError as error:
        raise InputError(_pipe_it(path, packing, "this Python cannot unpack it")) from error
    except _TooLargeError as error:
        raise InputError(_pipe_it(path, packing, f"it holds more than {most_bytes >> 30} GiB")) from error
    except (OSError, EOFError, ValueError, RuntimeError) as error:
        raise InputError(f"cannot unpack {path}: {getattr(error, 'strerror', None) or error}") from error
    except Exception as error:  # each module has an error of its own: zlib.error, lzma.LZMAError, ZstdError
        if type(error).__module__ not in ("zlib", "_lzma", "lzma", "compression.zstd", "_zstd"):
            raise
        raise InputError(f"cannot unpack {path}: {error}") from error


class _TooLargeError(Exception):
    pass


def _reader(packing: _Packing, stream: IO[bytes]) -> IO[bytes]:
    from importlib import import_module  # noqa: PLC0415 - as above

    opened: IO[bytes] = import_module(packing.module).open(stream, "rb")
    return opened


def _copy(reader: IO[bytes], copy: IO[bytes], most_bytes: int) -> None:
    total = 0
    with reader:
        while chunk := reader.read(_CHUNK_BYTES):
            total += len(chunk)
            if total > most_bytes:
                raise _TooLargeError
            copy.write(chunk)


def _pipe_it(path: Path, packing: _Packing, why: str) -> str:
    return f"cannot read {path}: {why}; pipe it in: {packing.tool} {path} | vllm-console diagnose -"
