"""The shapes of lines, from data/formats.tsv, each checked on its samples when it is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from engine_probe.literals import has_any
from engine_probe.logs.checked import DATA, first_signs_of_checked, literals_of_checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True)
class Shape:
    """A row of data/formats.tsv."""

    kind: str
    name: str
    layer: str
    source: str
    """The pattern as it is written."""
    literals: tuple[str, ...] = ()
    """See literals.py; empty also where they were not looked for."""
    first_signs: str = ""
    """See first_signs.py; empty also where they were not looked for."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first wanted. Raises re.error."""
        return re.compile(self.source, re.DOTALL)

    def match(self, text: str, plain: str) -> re.Match[str] | None:
        """`plain`: the plain form (literals.py) of `text`, or of one that it ends."""
        if self.first_signs and text[:1] not in self.first_signs and text[:1].isascii():
            return None
        if self.literals and not has_any(self.literals, plain):
            return None
        return self.pattern.match(text)


@lru_cache(maxsize=1)
def shapes() -> tuple[Shape, ...]:
    """The rows of data/formats.tsv in order. Raises ValueError where a pattern does not do what its samples say."""
    content = (DATA / "formats.tsv").read_bytes()
    literals = literals_of_checked("formats.tsv", content)
    signs = first_signs_of_checked("formats.tsv")
    return tuple(read_shapes(content.decode("utf-8"), None if literals is None else zip(literals, signs, strict=True)))


def read_shapes(text: str, known: Iterable[tuple[tuple[str, ...], str]] | None = None) -> Iterator[Shape]:
    """The shapes of a table, each checked on its samples. Raises ValueError with the number of the line.

    `known`: literals and first signs of each shape of a table that is known to be good (checked.py); then nothing is
    checked.
    """
    shape: Shape | None = None
    is_known, given = known is not None, iter(known or ())
    for number, row in enumerate(text.splitlines(), 1):
        columns = row.split("\t")
        if row.startswith("#"):
            continue
        if columns[0]:
            if len(columns) != 4:
                raise ValueError(f"formats.tsv:{number}: {len(columns)} columns, not 4")
            kind, name, layer, source = columns
            shape = Shape(kind, name, layer, source, *next(given, ((), "")))
            if not is_known:
                _check_pattern(shape, number)
            yield shape
        elif shape is not None and not is_known:
            _check_sample(shape, columns, number)


def _check_pattern(shape: Shape, number: int) -> None:
    try:
        re.compile(shape.pattern)
    except re.error as error:
        raise ValueError(f"formats.tsv:{number}: the pattern does not compile: {error}") from None


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
