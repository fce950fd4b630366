"""The page that one layer keeps for one block, and how many a request of some length needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.memory.model import CacheKind, LayerCache

CACHE_BYTES = {
    "float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
    "fp8_inc": 1, "int8": 1,
}  # fmt: skip
"""Bytes of a number in the cache; formats with scales of their own are not among them."""


@dataclass(frozen=True)
class CacheUse:
    """How the arguments make the cache. `batched_tokens`: of all batches in flight together."""

    tp: int
    number_bytes: int
    block_tokens: int
    batched_tokens: int
    encoder_tokens: int = 0
    state_blocks: Mapping[str, int] = field(default_factory=dict)
    """Blocks a request's state takes, by its kind: more than 1 where prefix caching keeps those before."""
    temporal_bytes: int | None = None
    """Of a number in a temporal state, where arguments or the device say it."""


@dataclass(frozen=True)
class Page:
    """Pages with the same `demand` need as many blocks for any length. Sizes are of one rank."""

    kind: CacheKind
    size_bytes: int
    block_tokens: int
    window: int | None = None
    batched_tokens: int = 0
    encoder_tokens: int = 0
    state_blocks: int = 1

    @property
    def demand(self) -> tuple[str, int, int | None]:
        return "full" if self.kind == "mla" else self.kind, self.block_tokens, self.window

    def with_block(self, tokens: int) -> Page:
        return replace(self, size_bytes=self.size_bytes // self.block_tokens * tokens, block_tokens=tokens)

    def as_full(self) -> Page:
        """As a layer that looks at everything keeps it."""
        return replace(self, kind="full", window=None)

    def blocks(self, length: int) -> int:
        """Of one request of `length` tokens (max_memory_usage_bytes in v1/kv_cache_interface.py, 0.9.2 to 0.33)."""
        if self.kind == "state":
            return self.state_blocks
        if self.kind == "cross":
            return -(-self.encoder_tokens // self.block_tokens)
        if self.kind == "sliding" and self.window:
            return -(-min(self.window - 1 + self.batched_tokens, length) // self.block_tokens) + 1
        if self.kind == "chunked" and self.window:
            return -(-min(self.window + self.batched_tokens, length) // self.block_tokens)
        return -(-length // self.block_tokens)


def page_of(cache: LayerCache, use: CacheUse) -> Page:
    """Of one layer on one rank."""
    if cache.kind == "state":
        return Page(
            "state", _state_bytes(cache, use), use.block_tokens, state_blocks=use.state_blocks.get(cache.state_kind, 1)
        )
    if cache.kind == "mla":
        return Page("mla", use.block_tokens * cache.latent_width * use.number_bytes, use.block_tokens)
    heads = max(1, cache.kv_heads // use.tp)
    width = cache.head_size + (cache.value_head_size or cache.head_size)
    size = use.block_tokens * heads * width * use.number_bytes
    window = cache.window if cache.kind in ("sliding", "chunked") else None
    batched = use.batched_tokens if window else 0
    encoder = use.encoder_tokens if cache.kind == "cross" else 0
    return Page(cache.kind, size, use.block_tokens, window, batched, encoder)


def _state_bytes(cache: LayerCache, use: CacheUse) -> int:
    more = use.tp - cache.state_groups if cache.state_groups and cache.state_groups % use.tp else 0
    total = cache.state_bytes + max(more, 0) * cache.state_group_bytes
    if use.temporal_bytes is not None:
        total += cache.temporal_numbers * (use.temporal_bytes - cache.temporal_bytes)
    return -(-total // use.tp)
