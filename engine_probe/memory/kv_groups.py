"""Layers of a model in groups that share one kind of block, for a pool that all of them draw from."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.memory.kv_pages import Page, page_of

if TYPE_CHECKING:
    from engine_probe.memory.kv_pages import CacheUse
    from engine_probe.memory.kv_rules import KvRules
    from engine_probe.memory.model import LayerCache, ModelShape


@dataclass(frozen=True)
class Group:
    """`layers`: numbers of the decoder layers in it, of each as many entries as it has caches here."""

    pages: tuple[Page, ...]
    layers: tuple[int, ...]

    @property
    def page(self) -> Page:
        """The one that decides how many blocks a request needs."""
        return self.pages[0]

    def bytes_on(self, layers: range) -> int:
        """Of one block, for the layers of one pipeline stage."""
        return sum(page.size_bytes for page, layer in zip(self.pages, self.layers, strict=True) if layer in layers)


def groups_of(shape: ModelShape, use: CacheUse, rules: KvRules) -> tuple[Group, ...]:
    """Empty for a model that keeps nothing."""
    caches = [cache for cache in shape.layers if cache.kind != "none"]
    if not rules.has_groups and any(cache.kind != "state" for cache in caches):
        caches = [cache for cache in caches if cache.kind != "state"]  # kept beside the pool (models/mamba_cache.py)
    if not rules.chunked_groups and any(cache.kind == "chunked" for cache in caches):
        rules = replace(rules, has_groups=False)
    pages = _pages(caches, use, rules)
    if not pages:
        return ()
    layers = tuple(cache.layer for cache in caches)
    if not rules.has_groups or len({page.demand for page in pages}) == 1:
        return (Group(tuple(pages), layers),)
    return _split(_one_size(pages), layers, rules)


def _pages(caches: list[LayerCache], use: CacheUse, rules: KvRules) -> list[Page]:
    pages = [page_of(cache, use) for cache in caches]
    if rules.has_groups:
        return _with_states(pages, use)
    is_mixed = len({page.demand for page in pages}) > 1
    return [page.as_full() for page in pages] if is_mixed else pages


def _with_states(pages: list[Page], use: CacheUse) -> list[Page]:
    """Attention's blocks grow until a page holds a state; the states' pages are padded to it.

    platforms/interface.py _align_hybrid_block_size (0.32), models/config.py HybridAttentionMambaModelConfig (0.11).
    """
    state = max((page.size_bytes for page in pages if page.kind == "state"), default=0)
    others = [page for page in pages if page.kind != "state"]
    if not state or not others:
        return pages
    a_token = max(page.size_bytes // page.block_tokens for page in others)
    step = max(use.block_tokens, 128 if others[0].kind == "mla" else 16)
    block = max(use.block_tokens, step * -(-state // (step * a_token)))
    return [
        replace(page, size_bytes=block * a_token) if page.kind == "state" else page.with_block(block) for page in pages
    ]


def _one_size(pages: list[Page]) -> list[Page]:
    """All pages as large as the largest: by more tokens in a block where that comes out even, else by padding."""
    largest = max(page.size_bytes for page in pages)
    return [
        page
        if page.size_bytes == largest
        else page.with_block(page.block_tokens * (largest // page.size_bytes))
        if largest % page.size_bytes == 0 and page.kind != "state"
        else replace(page, size_bytes=largest)
        for page in pages
    ]


def _split(pages: list[Page], layers: tuple[int, ...], rules: KvRules) -> tuple[Group, ...]:
    kinds: dict[Page, list[int]] = defaultdict(list)
    for page, layer in zip(pages, layers, strict=True):
        kinds[page].append(layer)
    least, most = min(map(len, kinds.values())), max(map(len, kinds.values()))
    size = most if 100 * most < rules.growth_percent * least else least
    found = []
    for page, members in kinds.items():
        count = -(-len(members) // size)
        found += [Group((page,) * len(members[at::count]), tuple(members[at::count])) for at in range(count)]
    return tuple(found)
