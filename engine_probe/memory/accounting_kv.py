"""How one worker's pool is divided: blocks, tokens, requests at once, and whether a request of full length has room."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.memory.cards import CPU
from engine_probe.memory.kv_layout import kv_layout
from engine_probe.memory.kv_rules import kv_rules

if TYPE_CHECKING:
    from engine_probe.memory.accounting_values import Batch, Values
    from engine_probe.memory.model import ModelShape

GIB = 2**30
_LONGEST = 1 << 24
_SOUND_TOKENS = 1500
"""What Whisper, V1's only encoder-decoder, makes of 30 seconds."""
_STEP_COUNTS_SINCE = (0, 13, 0)


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
    """Unknown for a cache format whose size is not known. Of the worker's own pipeline stage."""
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
        state_dtype=values.state_dtype,
        encoder_tokens=_encoder_tokens(by),
        one_kind=values.one_kind_of_cache,
    )
    if isinstance(layout, Unknown):
        return layout
    layout = replace(layout, stage_layers=(layout.stage_layers[by.stage],))
    pool = max(0, int(pool_gib * GIB))
    blocks = layout.blocks(pool) if values.blocks is None else values.blocks
    per_token = layout.bytes_per_token
    return Room(
        bytes_per_token=None if per_token is None else round(per_token),
        block_size=layout.block_tokens,
        blocks=blocks,
        tokens=layout.printed_tokens(blocks, max_len),
        concurrency=layout.max_concurrency(blocks, max_len),
        needed_gib=layout.needed_bytes(max_len) / GIB,
        is_enough=layout.fits(pool, max_len),
        longest=layout.longest_length(pool, min(by.shape.length_limit or by.shape.max_position or _LONGEST, _LONGEST)),
    )


def _encoder_tokens(by: Division) -> int:
    """Of an input, as layers that look at an encoder keep room for: a whole step's (config/scheduler.py, 0.13 on)."""
    return by.batch.tokens if kv_rules(by.version).since >= _STEP_COUNTS_SINCE else _SOUND_TOKENS
