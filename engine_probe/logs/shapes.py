"""The shapes of lines, from data/formats.tsv, each checked on its samples when it is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Shape:
    """A row of data/formats.tsv."""

    kind: str
    name: str
    layer: str
    pattern: re.Pattern[str]


@lru_cache(maxsize=1)
def shapes() -> tuple[Shape, ...]:
    """The rows of data/formats.tsv in order. Raises ValueError where a pattern does not do what its samples say."""
    return tuple(read_shapes((Path(__file__).parent / "data" / "formats.tsv").read_text(encoding="utf-8")))


def read_shapes(text: str) -> Iterator[Shape]:
    """The shapes of a table, each checked on its samples. Raises ValueError with the number of the line."""
    shape: Shape | None = None
    for number, row in enumerate(text.splitlines(), 1):
        columns = row.split("\t")
        if row.startswith("#"):
            continue
        if columns[0]:
            if len(columns) != 4:
                raise ValueError(f"formats.tsv:{number}: {len(columns)} columns, not 4")
            try:
                shape = Shape(columns[0], columns[1], columns[2], re.compile(columns[3], re.DOTALL))
            except re.error as error:
                raise ValueError(f"formats.tsv:{number}: the pattern does not compile: {error}") from None
            yield shape
        elif shape is not None:
            _check_sample(shape, columns, number)


def _check_sample(shape: Shape, columns: list[str], number: int) -> None:
    found = shape.pattern.match(columns[1])
    if found is None:
        raise ValueError(f"formats.tsv:{number}: {shape.name} does not match its sample {columns[1]!r}")
    for pair in columns[2:]:
        group, _, value = pair.partition("=")
        if str(found[group]) != value:
            raise ValueError(f"formats.tsv:{number}: {shape.name} yields {group}={found[group]!r}, not {value!r}")


@lru_cache(maxsize=1)
def split_shapes() -> tuple[tuple[Shape, ...], tuple[Shape, ...], tuple[Shape, ...]]:
    """Prefixes; vLLM's own shapes, which are most lines; all others."""
    every = shapes()
    lines = [shape for shape in every if shape.kind == "line"]
    own = tuple(shape for shape in lines if shape.name.startswith("vllm"))
    return tuple(one for one in every if one.kind == "prefix"), own, tuple(one for one in lines if one not in own)


@lru_cache(maxsize=1)
def layer_of_format() -> dict[str, str]:
    """Layer of a line by its shape, for the shapes that have one."""
    return {shape.name: shape.layer for shape in shapes() if shape.layer != "-"}
