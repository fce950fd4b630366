"""Tensors that one layer lacks and its neighbours have: found by their names alone, without the model's class."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LAYER = re.compile(r"(?P<stack>(?:^|.*\.)(?:layers|h|blocks))\.(?P<number>\d+)\.(?P<inner>.+)")
_LACKING_SHARE = 20
"""One layer of twenty, at least one, may lack a tensor by mistake; where more do, the model was made so."""


def lacking(names: Iterable[str]) -> Iterator[str]:
    """Names that belong beside those of `names` and are not there, in the order of the layers.

    Modules with the same name and other parts (dense and expert layers) are no neighbours.
    """
    for (stack, module), layers in _modules(names).items():
        kinds = Counter(frozenset(parts) for parts in layers.values())
        whole = max(kinds, key=lambda kind: (kinds[kind], len(kind)))
        short = {number: whole - parts for number, parts in layers.items() if parts < whole}
        if len(short) > max(1, len(layers) // _LACKING_SHARE):
            continue
        for number in sorted(short):
            yield from (".".join((stack, str(number), *module, part)) for part in sorted(short[number]))


def _modules(names: Iterable[str]) -> Mapping[tuple[str, tuple[str, ...]], Mapping[int, set[str]]]:
    """Parts of each module by layer: of `model.layers.3.mlp.up_proj.weight` the part is `up_proj.weight` of `mlp`."""
    found: dict[tuple[str, tuple[str, ...]], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name in names:
        place = _LAYER.fullmatch(name)
        if place is not None:
            parts = place["inner"].split(".")
            found[place["stack"], ()][int(place["number"])] |= set()  # a layer without any part of its own counts
            found[place["stack"], tuple(parts[:-2])][int(place["number"])].add(".".join(parts[-2:]))
    return found
