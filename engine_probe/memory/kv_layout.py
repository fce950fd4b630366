"""What a pool of GPU memory becomes as a KV cache: blocks, tokens, concurrent requests, and the longest request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from engine_probe.facts import Unknown
from engine_probe.memory.kv_groups import Group, groups_of
from engine_probe.memory.kv_pages import CACHE_BYTES, CacheUse
from engine_probe.memory.kv_rules import KvRules, kv_rules
from engine_probe.memory.rank_weights import layer_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.memory.model import ModelShape
    from engine_probe.memory.parallel import Parallel

_LONGEST = 1 << 31
_LEAST_SLIDING_BLOCK_ON_CPU = 32


@dataclass(frozen=True)
class KvLayout:
    """Integers throughout, as vLLM counts. `stage_layers`: which decoder layers each pipeline stage has."""

    groups: tuple[Group, ...]
    stage_layers: tuple[range, ...]
    rules: KvRules

    @cached_property
    def block_bytes(self) -> tuple[int, ...]:
        """Of one block, by pipeline stage; 0 where a stage keeps nothing."""
        return tuple(max((group.bytes_on(layers) for group in self.groups), default=0) for layers in self.stage_layers)

    @property
    def block_tokens(self) -> int:
        """The least of any group; 0 for a model that keeps nothing."""
        return min((group.page.block_tokens for group in self.groups if group.page.kind != "state"), default=0)

    @property
    def bytes_per_token(self) -> float | None:
        """On the stage with the largest blocks; None where a token more may take nothing more."""
        if len(self.groups) != 1 or self.groups[0].page.kind not in ("full", "mla"):
            return None
        return max(self.block_bytes) / self.block_tokens

    def blocks(self, pool_bytes: int | Sequence[int]) -> int:
        """As many as every stage has room for. `pool_bytes`: of each stage, or of all alike."""
        pools = [pool_bytes] * len(self.stage_layers) if isinstance(pool_bytes, int) else list(pool_bytes)
        counts = [pool // size for pool, size in zip(pools, self.block_bytes, strict=True) if size]
        return max(0, min(counts, default=0))

    def request_blocks(self, length: int) -> int:
        """That one request of `length` tokens takes, over all groups."""
        return sum(group.page.blocks(length) for group in self.groups)

    def needed_bytes(self, length: int) -> int:
        """What the start asks of a pool for one request, on the stage that needs most: a pool below fails."""
        return max((self._needed(length, stage) for stage in range(len(self.stage_layers))), default=0)

    def _needed(self, length: int, stage: int) -> int:
        size = self.block_bytes[stage]
        kept = size if self.rules.keeps_null_block else 0
        if self.rules.needed == "groups" or len(self.groups) == 1:
            return self.request_blocks(length) * size + kept
        return sum(group.page.blocks(length) * group.bytes_on(self.stage_layers[stage]) for group in self.groups) + kept

    def fits(self, pool_bytes: int | Sequence[int], length: int) -> bool:
        """Whether the start goes on with this pool and max-model-len."""
        if not self.groups:
            return True
        pools = [pool_bytes] * len(self.stage_layers) if isinstance(pool_bytes, int) else list(pool_bytes)
        return all(
            0 < pool >= self._needed(length, stage) for stage, pool in enumerate(pools) if self.block_bytes[stage]
        )

    def max_concurrency(self, blocks: int, length: int) -> float:
        """The printed "Maximum concurrency for N tokens per request"; 0.0 without groups."""
        if self.rules.concurrency == "tokens":
            return blocks * self.block_tokens / length if length else 0.0
        needed = self.request_blocks(length)
        return blocks / needed if needed else 0.0

    def printed_tokens(self, blocks: int, length: int) -> int:
        """The N of "GPU KV cache size: N tokens", whose meaning releases changed."""
        if not self.groups:
            return 0
        if self.rules.tokens == "concurrency":
            return int(self.max_concurrency(blocks, length) * length)
        if self.rules.tokens == "groups":
            return blocks // len(self.groups) * self._least_block(length)
        return blocks * self._least_block(length)

    def _least_block(self, length: int) -> int:
        return self.block_tokens or length  # a model of states alone has one block a request

    def longest_length(self, pool_bytes: int | Sequence[int], most: int = _LONGEST) -> int:
        """The longest max-model-len up to `most` that starts with this pool; 0 where not even one token fits."""
        if not self.groups or self.fits(pool_bytes, most):
            return most
        low, high = 0, max(0, most)
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(pool_bytes, middle):
                low = middle
            else:
                high = middle - 1
        return low


def kv_layout(  # noqa: PLR0913 -- all that arguments say of the cache
    shape: ModelShape,
    parallel: Parallel,
    *,
    version: str | None = None,
    cache_dtype: str = "auto",
    dtype: str | None = None,
    block_tokens: int | None = None,
    batched_tokens: int = 8192,
    batches_in_flight: int | None = None,
    device: Literal["cuda", "cpu"] = "cuda",
    prefix_caching: bool | None = None,
    state_dtype: str | None = None,
    encoder_tokens: int = 0,
    one_kind: bool = False,
) -> KvLayout | Unknown:
    """Unknown for a cache format whose bytes are not known here. Raises InputError where the layers cannot be cut.

    `batched_tokens`: max-num-batched-tokens, which sliding windows keep room for. `prefix_caching`: whether it is on,
    None where no argument says it; layers that keep a state then keep the one before too. `state_dtype`:
    --mamba-ssm-cache-dtype; CPUs with AVX-512 take float32 (platforms/cpu.py, 0.32). `encoder_tokens`: an encoder's
    longest input, for layers that attend to one. `one_kind`: --disable-hybrid-kv-cache-manager.
    """
    rules = kv_rules(version)
    number_bytes = _number_bytes(shape, cache_dtype, dtype)
    if isinstance(number_bytes, Unknown):
        return number_bytes
    use = CacheUse(
        parallel.tp,
        number_bytes,
        _block(shape, device, block_tokens),
        batched_tokens * (batches_in_flight or _batches(rules, parallel, device)),
        encoder_tokens,
        rules.kept_states if (_caches_states(shape, rules) if prefix_caching is None else prefix_caching) else {},
        CACHE_BYTES.get(state_dtype or ("float32" if device == "cpu" else "")),
    )
    layers = layer_count(shape)
    stages = tuple(parallel.layers_of_stage(layers, stage) for stage in range(parallel.pp))
    if one_kind and not any(cache.kind == "state" for cache in shape.layers):
        rules = replace(rules, has_groups=False)
    return KvLayout(groups_of(shape, use, rules), stages, rules)


def _batches(rules: KvRules, parallel: Parallel, device: str) -> int:
    """Each stage has a batch, and one more is on its way where scheduling runs ahead, which it does not on CPUs.

    config/vllm.py max_concurrent_batches (0.25 to 0.33), platforms/cpu.py (0.32).
    """
    if rules.batches_in_flight == 1:
        return 1
    return parallel.pp if device == "cpu" else parallel.pp + 1


def _number_bytes(shape: ModelShape, cache_dtype: str, dtype: str | None) -> int | Unknown:
    named = cache_dtype if cache_dtype not in ("auto", "") else shape.kv_cache_dtype or dtype or shape.dtype
    named = shape.dtype if named == "auto" else named
    found = CACHE_BYTES.get(named)
    return Unknown(f"the bytes of a cache in {named} are not known here") if found is None else found


def _caches_states(shape: ModelShape, rules: KvRules) -> bool:
    """Models of states alone do not, unless they are told to."""
    return rules.caches_states and any(cache.kind not in ("state", "none") for cache in shape.layers)


def _block(shape: ModelShape, device: str, asked: int | None) -> int:
    """On CPUs the kernel for MLA knows blocks of 16 alone, whatever is asked for (platforms/cpu.py, 0.28 to 0.33).

    Layers that slide take blocks of at least 32 there, and the others follow (layers/attention/attention.py, 0.32).
    """
    usual = usual_block(shape, device)
    if asked is None or (device == "cpu" and _has_latent(shape)):
        return usual
    slides = any(cache.kind == "sliding" for cache in shape.layers)
    return max(asked, _LEAST_SLIDING_BLOCK_ON_CPU) if device == "cpu" and slides else asked


def usual_block(shape: ModelShape, device: str) -> int:
    """Tokens of a block where no argument says it: 16 on GPUs, 128 on CPUs but for MLA (platforms/cpu.py, 0.32)."""
    return 128 if device == "cpu" and not _has_latent(shape) else 16


def _has_latent(shape: ModelShape) -> bool:
    return any(cache.kind == "mla" for cache in shape.layers)
