"""NaN and infinity in a sample of the weights: enough to tell a broken conversion from a good one, in a second."""

from __future__ import annotations

import os
import sys
from array import array
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from engine_probe.model_files.headers import Header, TensorPlace

# Exponent bits: all of them set is NaN or infinity (IEEE 754; bfloat16 has float32's exponent).
_EXPONENTS = {"F16": ("H", 0x7C00), "BF16": ("H", 0x7F80), "F32": ("I", 0x7F800000), "F64": ("Q", 0x7FF0000000000000)}
_SAMPLE_BYTES = 4 << 10
_PLACES = 4
"""Samples of a tensor: at its start, at its end and between."""


@dataclass(frozen=True)
class NotFinite:
    """Counts are of the sample."""

    file: str
    tensor: str
    bad_values: int
    looked_at: int


def not_finite(folder: Path, headers: Mapping[str, Header]) -> Iterator[NotFinite]:
    """Tensors of whose sample some values are no numbers. A file that cannot be read tells nothing here."""
    for name, header in headers.items():
        yield from _of_file(folder / name, header)


def _of_file(path: Path, header: Header) -> Iterator[NotFinite]:
    with suppress(OSError), path.open("rb") as content:
        for tensor, place in header.tensors.items():
            if place.dtype in _EXPONENTS:
                bad, count = _count(content.fileno(), header.data_offset, place)
                if bad:
                    yield NotFinite(path.name, tensor, bad, count)


def _count(file: int, offset: int, place: TensorPlace) -> tuple[int, int]:
    code, mask = _EXPONENTS[place.dtype]
    bad = count = 0
    width = array(code).itemsize
    size = place.end - place.start
    step = max(size // _PLACES, _SAMPLE_BYTES) // width * width
    for start in range(0, size, step):
        content = os.pread(file, min(_SAMPLE_BYTES, size - start), offset + place.start + start)
        values = array(code, content[: len(content) // width * width])
        if sys.byteorder == "big":
            values.byteswap()
        count += len(values)
        bad += sum(1 for value in values if value & mask == mask)
    return bad, count
