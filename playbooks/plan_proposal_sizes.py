"""Sizes that a model can be cut into, GPUs that it could have, and lengths worth trying."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.memory.shapes_quantised import quantisation_of
from engine_probe.memory.shapes_settings import Settings, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine_probe.memory.cards import Card
    from engine_probe.memory.model import ModelShape

_MOST_SETS = 2
_SHORTEST = 1024


def tensor_sizes(shape: ModelShape, most: int, *, cuts_experts: bool) -> tuple[int, ...]:
    """Tensor-parallel sizes up to `most` that divide heads, matrices and groups that share a scale; powers of 2 first.

    KV heads may be fewer: they are then held more than once, as long as the size is a multiple of their number.
    """
    group = quantised_group(shape)
    inner = [shape.intermediate_size, shape.expert_intermediate_size if cuts_experts else 0]
    sizes = [size for size in range(1, most + 1) if _divides(shape, size, inner, group)]
    return tuple(sorted(sizes, key=lambda size: (size & (size - 1) != 0, size)))


def _divides(shape: ModelShape, size: int, inner: Iterable[int], group: int) -> bool:
    if shape.attention_heads % size or (shape.kv_heads and shape.kv_heads % size and size % shape.kv_heads):
        return False
    return all(not width or (width % size == 0 and (size == 1 or (width // size) % group == 0)) for width in inner)


def quantised_group(shape: ModelShape) -> int:
    """Numbers that share a scale and must stay together; 1 where nothing must, or the folder does not tell."""
    path = Path(shape.folder) / "config.json"
    if shape.quantization is None or not path.is_file():
        return 1
    try:
        found = quantisation_of(Settings(read_json(path), str(path)), path.parent)
    except InputError:
        return 1
    schemes = found.schemes if found is not None else ()
    return max((max(scheme.group, scheme.block_rows, 1) for _, scheme in schemes), default=1)


def gpu_sets(cards: Sequence[Card], held: Mapping[int, float], count: int) -> tuple[tuple[int, ...], ...]:
    """Neighbouring GPUs of one kind, the emptiest first. `held`: shares that other models of the plan ask for.

    Sets that nobody has, if there are any; a start at a multiple of `count` goes first: such GPUs share a switch.
    """
    found: list[tuple[tuple[float, float, bool, int], tuple[int, ...]]] = []
    for name in dict.fromkeys(card.name for card in cards):
        alike = [card for card in cards if card.name == name]
        for start in range(len(alike) - count + 1):
            chosen = alike[start : start + count]
            most = max(held.get(card.index, 0.0) for card in chosen)
            others = max(getattr(card.others_gib, "value", 0.0) for card in chosen)
            rank = (most, round(others, 1), start % count != 0, start)
            found.append((rank, tuple(card.index for card in chosen)))
    found.sort()
    best = _one_of_each_kind(found, {card.index: card.name for card in cards})
    free = [gpus for rank, gpus in best if rank[0] == 0.0]
    return tuple(free or [gpus for _, gpus in best])[:_MOST_SETS]


def _one_of_each_kind(
    found: Sequence[tuple[tuple[float, float, bool, int], tuple[int, ...]]], kinds: Mapping[int, str]
) -> list[tuple[tuple[float, float, bool, int], tuple[int, ...]]]:
    """GPUs of one kind are alike: the best of them is enough."""
    best: dict[str, tuple[tuple[float, float, bool, int], tuple[int, ...]]] = {}
    for rank, gpus in found:
        best.setdefault(kinds[gpus[0]], (rank, gpus))
    return sorted(best.values())


def lengths_below(longest: int, least: int | None) -> tuple[int, ...]:
    """Round lengths under `longest`, longest first, eight to an octave; none below `least`."""
    least = least if least is not None else min(_SHORTEST, max(16, longest // 8))
    found = []
    power = 1 << max(longest.bit_length() - 1, 4)
    while power >= 16:
        found += [power // 8 * eighth for eighth in range(15, 7, -1)]
        power //= 2
    return tuple(length for length in found if least <= length < longest)
