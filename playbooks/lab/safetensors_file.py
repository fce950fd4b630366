"""Reads and writes safetensors files with the standard library alone, so that the lab can change what is in them.

Layout: 8 bytes little-endian header length, a JSON header, then raw tensors.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BYTES_PER_VALUE: Mapping[str, int] = {
    "BF16": 2,
    "F16": 2,
    "F32": 4,
    "F64": 8,
    "F8_E4M3": 1,
    "I8": 1,
    "U8": 1,
    "I32": 4,
    "I64": 8,
}


@dataclass(frozen=True)
class Tensor:
    """`dtype` in safetensors' words, such as BF16."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of the file, in its order."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    start = 8 + length
    return {
        name: Tensor(
            one["dtype"],
            tuple(one["shape"]),
            content[start + one["data_offsets"][0] : start + one["data_offsets"][1]],
        )
        for name, one in header.items()
    }


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """A new file with these tensors; one that was there is replaced, never written into."""
    header: dict[str, object] = {}
    position = 0
    for name, one in tensors.items():
        end = position + len(one.data)
        header[name] = {"dtype": one.dtype, "shape": list(one.shape), "data_offsets": [position, end]}
        position = end
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    path.unlink(missing_ok=True)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(encoded)) + encoded)
        for one in tensors.values():
            out.write(one.data)


def size_of(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor."""
    return BYTES_PER_VALUE[dtype] * math.prod(shape)
