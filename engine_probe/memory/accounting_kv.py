"""How one worker's pool is divided: blocks, tokens, requests at once, and whether a request of full length has room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.memory.cards import CPU
from engine_probe.memory.kv_layout import kv_layout

if TYPE_CHECKING:
    from engine_probe.memory.accounting_values import Batch, Values
    from engine_probe.memory.model import ModelShape

GIB = 2**30
_NO_LIMIT = 1 << 62
_LONGEST = 1 << 24


@dataclass(frozen=True)
class Room:
    """`is_enough`: a request of full length fits. `longest`: that would; 0 where not one token does."""

    bytes_per_token: int | None
    block_size: int
    blocks: int
    tokens: int
    """As the log prints them."""
    concurrency: float
    needed_gib: float
    is_enough: bool
    longest: int


@dataclass(frozen=True)
class Division:
    """What the pool of one worker is divided by."""

    values: Values
    shape: ModelShape
    version: str | None
    batch: Batch
    stage: int
    family: str


def room_of(by: Division, max_len: int, pool_gib: float) -> Room | Unknown:
    """Unknown for a cache format whose size is not known. The pools of other stages do not count."""
    values = by.values
    layout = kv_layout(
        by.shape,
        values.parallel,
        version=by.version,
        cache_dtype=values.kv_cache_dtype or "auto",
        dtype=values.dtype,
        block_tokens=values.block_size,
        batched_tokens=by.batch.tokens,
        device="cpu" if by.family == CPU else "cuda",
        prefix_caching=values.caches_prefixes,
        one_kind=values.one_kind_of_cache,
    )
    if isinstance(layout, Unknown):
        return layout
    pool = max(0, int(pool_gib * GIB))
    pools = [pool if stage == by.stage else _NO_LIMIT for stage in range(values.parallel.pp)]
    blocks = layout.blocks(pools) if layout.block_bytes[by.stage] else 0
    if values.blocks is not None:
        blocks = values.blocks
    needed = layout.needed_bytes(max_len) / GIB
    per_token = layout.bytes_per_token
    return Room(
        bytes_per_token=None if per_token is None else round(per_token),
        block_size=layout.block_tokens,
        blocks=blocks,
        tokens=layout.printed_tokens(blocks, max_len),
        concurrency=layout.max_concurrency(blocks, max_len),
        needed_gib=needed,
        is_enough=layout.fits(pools, max_len),
        longest=layout.longest_length(pools, min(by.shape.max_position or _LONGEST, _LONGEST)),
    )
