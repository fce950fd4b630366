"""The header of a safetensors file: 8 bytes of little-endian length, JSON, then the tensors' bytes one after the other.

Source: safetensors' format description (README of huggingface/safetensors).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LONGEST_HEADER_BYTES = 100_000_000
"""safetensors refuses longer ones."""
_MOST_DIMENSIONS = 64
"""No tensor has as many; the product of thousands of sizes takes minutes."""
_MOST_PAIRS = 2_500_000
"""Of a name and a value; a tensor has four. The largest models have some 200,000 tensors, in many files."""


class NoHeaderError(ValueError):
    """The file has no readable header; the message completes "this file …"."""


class _Entry(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


@dataclass(frozen=True)
class TensorPlace:
    """`start` and `end` count from the first byte behind the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Header:
    """`data_offset`: where the tensors' bytes begin in the file."""

    tensors: Mapping[str, TensorPlace]
    data_offset: int
    file_bytes: int

    @property
    def tensor_bytes(self) -> int:
        return max((place.end for place in self.tensors.values()), default=0)

    @property
    def missing_bytes(self) -> int:
        """How many of the tensors' bytes the file lacks: 0 of a whole one."""
        return max(0, self.data_offset + self.tensor_bytes - self.file_bytes)


def read_header(file: Path) -> Header:
    """Raises NoHeaderError, and OSError where the file cannot be read."""
    if not file.is_file():
        raise NoHeaderError("is no regular file")  # a pipe would hold us for ever
    with file.open("rb") as content:
        size = os.fstat(content.fileno()).st_size
        first = content.read(8)
        if len(first) < 8:
            raise NoHeaderError(f"holds {size} bytes, too few for a header")
        length = struct.unpack("<Q", first)[0]
        if length > LONGEST_HEADER_BYTES:
            raise NoHeaderError("does not begin with the length of a header")
        text = content.read(length)
    if len(text) < length:
        raise NoHeaderError(f"ends inside its header ({size} of at least {length + 8} bytes are there)")
    return Header(_tensors(text), 8 + length, size)


def _tensors(text: bytes) -> dict[str, TensorPlace]:
    if text.count(b":") > _MOST_PAIRS:
        raise NoHeaderError("names more tensors than any model has")
    decoder = msgspec.json.Decoder(_Entry)
    try:
        header = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return {name: _place(decoder.decode(raw)) for name, raw in header.items() if name != "__metadata__"}
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise NoHeaderError("has a header that is no safetensors header") from error


def _place(entry: _Entry) -> TensorPlace:
    start, end = entry.data_offsets
    if len(entry.shape) > _MOST_DIMENSIONS:
        raise ValueError("too many dimensions")
    return TensorPlace(entry.dtype, tuple(entry.shape), start, end)
