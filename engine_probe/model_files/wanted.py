"""The tensors that a model's class wants, against those of the checkpoint, by names alone: data/wanted_tensors.tsv.

vLLM checks them only of some models (model_loader/default_loader.py), and leaves what it did not find as it was made.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_TABLE = Path(__file__).parent / "data" / "wanted_tensors.tsv"
_LAYERS = "model.layers"
_HEAD = "lm_head"
_MOST = 2_000_000
"""Modules; a configuration that asks for more is no model."""


@dataclass(frozen=True)
class _Class:
    layer: tuple[str, ...]
    around: tuple[str, ...]
    is_tied: bool
    biases: tuple[str, ...]


@dataclass(frozen=True)
class Compared:
    """`missing`: names that no file has, in the order of the model. `unknown`: why that cannot be said."""

    missing: tuple[str, ...] = ()
    wanted: int = 0
    unknown: str | None = None


def compare(config: Mapping[str, Any], tensors: Collection[str], architecture: str | None = None) -> Compared:
    """`architecture` stands for the one of config.json, as --hf-overrides does."""
    names = config.get("architectures")
    name = architecture or (str(names[0]) if isinstance(names, list) and names else "")
    known = _classes().get(name)
    if known is None:
        return Compared(unknown=f"what {name or 'a model without architectures'} wants is not known here")
    layers, experts = config.get("num_hidden_layers"), config.get("num_local_experts") or 0
    if not isinstance(layers, int) or not isinstance(experts, int) or layers * max(1, experts) > _MOST:
        return Compared(unknown="config.json does not say how many layers there are")
    if not any(one.startswith(f"{_LAYERS}.") for one in tensors):
        return Compared(unknown=f"no tensor is called {_LAYERS}.…, so the names are of another kind")
    tied = config.get("tie_word_embeddings", known.is_tied)
    wanted = tuple(_wanted(known, layers, experts, is_tied=bool(tied)))
    there = _modules(tensors)
    missing = tuple(one for one in wanted if one not in (tensors if one.endswith(".bias") else there))
    return Compared(tuple(one if one.endswith(".bias") else f"{one}.weight" for one in missing), len(wanted))


def _wanted(known: _Class, layers: int, experts: int, *, is_tied: bool) -> Iterator[str]:
    yield from known.around[:1]
    for layer in range(layers):
        for module in known.layer:
            numbers = range(experts) if "{e}" in module else range(1)
            yield from (f"{_LAYERS}.{layer}.{module.replace('{e}', str(number))}" for number in numbers)
        yield from (f"{_LAYERS}.{layer}.{module}.bias" for module in known.biases)
    yield from known.around[1:]
    if not is_tied:
        yield _HEAD


def _modules(tensors: Collection[str]) -> frozenset[str]:
    """What lies right above each tensor, and above that: `…q_proj` of `…q_proj.weight` and `…q_proj.weight.absmax`."""
    above = {name.rpartition(".")[0] for name in tensors}
    return frozenset(above | {name.rpartition(".")[0] for name in above})


@cache
def _classes() -> Mapping[str, _Class]:
    with _TABLE.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t")
        return {
            row["architecture"]: _Class(
                tuple(row["layer"].split()),
                tuple(row["around"].split()),
                row["tied"] == "yes",
                tuple((row["biases"] or "").split()),
            )
            for row in rows
        }
