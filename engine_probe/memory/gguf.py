"""The header of a GGUF file: metadata and where its tensors are, read with hard bounds.

Source: the format's description, ggml/docs/gguf.md (versions 2 and 3).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from engine_probe.errors import InputError
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MOST_ENTRIES = 100_000
_MOST_ARRAY = 4_000_000
_LONGEST_TEXT = 1 << 20
_MOST_HEADER_BYTES = 256 << 20
_SIMPLE = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _ARRAY = 8, 9
# Type → numbers of a block, bytes of a block (ggml.h, ggml-common.h).
_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1",
    32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K",
    256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17:
    ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S",
    256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1,
    4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 39: ("MXFP4", 32, 17),
}  # fmt: skip

Value = int | float | bool | str


@dataclass(frozen=True)
class GgufTensor:
    """`kind` as GGUF names it, such as Q4_K; `shape` innermost first."""

    kind: str
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class Gguf:
    """`lengths`: of arrays in the metadata, whose values are not kept."""

    metadata: Mapping[str, Value]
    lengths: Mapping[str, int]
    tensors: Mapping[str, GgufTensor]


class _Reader:
    def __init__(self, content: BinaryIO, path: str) -> None:
        self.content, self.path, self.taken = content, path, 0

    def take(self, size: int) -> bytes:
        self.taken += size
        if self.taken > _MOST_HEADER_BYTES:
            raise InputError("its header is longer than any model's", file=self.path)
        found = self.content.read(size)
        if len(found) < size:
            raise InputError("ends inside its header", file=self.path)
        return found

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def count(self, most: int, what: str) -> int:
        found = self.number("<Q")
        if found > most:
            raise InputError(f"claims {found:,} {what}", file=self.path)
        return found

    def text(self) -> str:
        return self.take(self.count(_LONGEST_TEXT, "bytes of one text")).decode("utf-8", "replace")


def read_gguf(path: Path) -> Gguf:
    """Raises InputError for what is no GGUF file, and for sizes that no model has."""
    try:
        if not path.is_file():
            raise InputError("is no regular file", file=str(path))  # a pipe would hold us for ever
        with path.open("rb") as content:
            return _read(_Reader(content, str(path)))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=str(path)) from error


def _read(reader: _Reader) -> Gguf:
    if reader.take(4) != b"GGUF":
        raise InputError("does not begin with GGUF", file=reader.path)
    version = reader.number("<I")
    if version not in (2, 3):
        raise InputError(f"is GGUF version {version}; versions 2 and 3 are known", file=reader.path)
    tensors, entries = reader.count(_MOST_ENTRIES, "tensors"), reader.count(_MOST_ENTRIES, "entries of metadata")
    metadata: dict[str, Value] = {}
    lengths: dict[str, int] = {}
    for _ in range(entries):
        name = reader.text()
        kind = reader.number("<I")
        if kind == _ARRAY:
            lengths[name] = _skip_array(reader, metadata, name)
        else:
            metadata[name] = _value(reader, kind)
    return Gguf(metadata, lengths, dict(_tensor(reader) for _ in range(tensors)))


def _value(reader: _Reader, kind: int) -> Value:
    if kind == _TEXT:
        return reader.text()
    form = _SIMPLE.get(kind)
    if form is None:
        raise InputError(f"holds a value of the unknown type {kind}", file=reader.path)
    found: Value = struct.unpack(form, reader.take(struct.calcsize(form)))[0]
    if isinstance(found, float) and not math.isfinite(found):
        raise InputError("holds a number that is none", file=reader.path)
    return found


def _skip_array(reader: _Reader, metadata: dict[str, Value], name: str) -> int:
    """Its length; the first value is kept, as `name`, where it is a number."""
    kind, length = reader.number("<I"), reader.count(_MOST_ARRAY, "values of one list")
    if kind == _TEXT:
        for _ in range(length):
            reader.text()
    elif kind in _SIMPLE:
        size = struct.calcsize(_SIMPLE[kind])
        content = reader.take(size * length)
        if length and size <= 8 and kind not in (6, 12):
            metadata[name] = max(struct.unpack(f"<{length}{_SIMPLE[kind][1]}", content))
    else:
        raise InputError(f"holds a list of the type {kind}, which is not known here", file=reader.path)
    return length


def _tensor(reader: _Reader) -> tuple[str, GgufTensor]:
    name, dimensions = reader.text(), reader.number("<I")
    if dimensions > 8:
        raise InputError(f"the tensor {quoted(name, 80)} has {dimensions} dimensions", file=reader.path)
    shape = tuple(reader.count(1 << 40, "numbers in a row") for _ in range(dimensions))
    kind = reader.number("<I")
    reader.number("<Q")
    if kind not in _TYPES:
        raise InputError(f"the tensor {quoted(name, 80)} has the unknown type {kind}", file=reader.path)
    named, block, size = _TYPES[kind]
    numbers = math.prod(shape)
    if numbers > 1 << 50:
        raise InputError(f"the tensor {quoted(name, 80)} is larger than any model", file=reader.path)
    return name, GgufTensor(named, shape, -(-numbers // block) * size)
