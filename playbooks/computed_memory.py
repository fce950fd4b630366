"""Facts about the KV cache and the memory budget that follow from others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from playbooks.computing import Computed, MissingInputError, first_number, known, number

if TYPE_CHECKING:
    from playbooks.conditions import Answer, Lookup

GIB = 2**30
# The pool holds one block back that no request can use (v1/core/kv_cache_utils.py, 0.32.0). Blocks have 16 tokens on
# most GPUs, 64 with MLA and 128 on the CPU backend: the largest is assumed, which costs a few MiB.
_LARGEST_USUAL_BLOCK = 128
# Sizes are printed with two decimals, so that what is meant may be this much more or less.
_ROUNDING_GIB = 0.005


def _pool_is_fixed(lookup: Lookup) -> Answer:
    for name in ("launch.kv_cache_memory_bytes", "launch.env.VLLM_CPU_KVCACHE_SPACE", "launch.num_gpu_blocks_override"):
        if isinstance(lookup(name), Known):
            return Known(value=True, source="computed", origin=name)
    return Known(value=False, source="computed", origin="no argument or variable sets the pool")


def _pool_now_bytes(lookup: Lookup) -> tuple[float, str]:
    if isinstance(lookup("launch.kv_cache_memory_bytes"), Known):
        return number(lookup, "launch.kv_cache_memory_bytes"), "launch.kv_cache_memory_bytes"
    return number(lookup, "launch.env.VLLM_CPU_KVCACHE_SPACE") * GIB, "VLLM_CPU_KVCACHE_SPACE, GiB"


def _element_bytes(lookup: Lookup) -> int:
    cache_type = lookup("launch.kv_cache_dtype")
    if isinstance(cache_type, Known) and str(cache_type.value).startswith(("fp8", "int8")):
        return 1
    for name in ("launch.dtype", "engine.dtype"):
        answer = lookup(name)
        if isinstance(answer, Known) and answer.value not in ("auto", "half"):
            return 4 if answer.value in ("float32", "float") else 2
    return 2  # `auto` never leaves float32: it becomes float16 or bfloat16 (config/model.py)


def _kv_bytes_per_token(lookup: Lookup) -> tuple[float, str]:
    plain = lookup("model.plain_attention")
    if not isinstance(plain, Known):
        why = plain.reason if isinstance(plain, Unknown) else "not set"
        raise MissingInputError(f"the model's attention is unknown: {why}")
    if plain.value is not True:
        raise MissingInputError("the model's layers are not all plain full attention")
    heads = max(1.0, number(lookup, "model.num_kv_heads") // number(lookup, "launch.tensor_parallel_size", unset=1))
    layers = math.ceil(
        number(lookup, "model.num_hidden_layers") / number(lookup, "launch.pipeline_parallel_size", unset=1)
    )
    size = 2 * heads * layers * number(lookup, "model.head_dim") * _element_bytes(lookup)
    return int(size), "config.json: 2 (K and V) x layers x KV heads x head size x bytes per value"


def _pool_needed_bytes(lookup: Lookup) -> tuple[float, str]:
    """Prefers the exact size; else bounds from above, so that the pool is never chosen too small by rounding."""
    length = first_number(lookup, "asked_len", "engine.max_model_len", "launch.max_model_len")
    try:
        per_token, _ = _kv_bytes_per_token(lookup)
    except MissingInputError:
        return _pool_needed_from_message(lookup, length)
    block = number(lookup, "launch.block_size", unset=_LARGEST_USUAL_BLOCK)
    blocks = math.ceil(length / block) + 1
    return int(blocks * block * per_token), f"{blocks} blocks of {block:.0f} tokens at {per_token:,.0f} bytes a token"


def _pool_needed_from_message(lookup: Lookup, length: float) -> tuple[float, str]:
    try:
        # The pool held more than `estimated_len` tokens, so this bound has the block held back in it.
        size = number(lookup, "memory.pool_now_bytes") * length / number(lookup, "estimated_len")
        origin = "the pool of this start, in proportion to the length that vLLM says fits"
    except MissingInputError:
        needed_gib = number(lookup, "needed_gib") + _ROUNDING_GIB
        size = needed_gib * GIB * (1 + _LARGEST_USUAL_BLOCK / length)
        origin = "the size that vLLM printed, its rounding and one block added"
    return math.ceil(size / 2**20) * 2**20, origin


def _pool_needed_gib(lookup: Lookup) -> tuple[float, str]:
    needed, origin = _pool_needed_bytes(lookup)
    return needed / GIB, origin


def _pool_needed_whole_gib(lookup: Lookup) -> tuple[float, str]:
    needed, origin = _pool_needed_bytes(lookup)
    return math.ceil(needed / GIB), origin + ", rounded up to whole GiB"


def _pool_growth_gib(lookup: Lookup) -> tuple[float, str]:
    needed, _ = _pool_needed_bytes(lookup)
    now, _ = _pool_now_bytes(lookup)
    return max(0.0, (needed - now) / GIB), "memory.pool_needed_gib less the pool now"


def _length_that_fits(lookup: Lookup) -> tuple[float, str]:
    try:
        return int(number(lookup, "estimated_len")), "vLLM's own estimate on this start"
    except MissingInputError:
        pass
    share = (number(lookup, "available_gib") - _ROUNDING_GIB) / (number(lookup, "needed_gib") + _ROUNDING_GIB)
    length = int(number(lookup, "asked_len") * share) - _LARGEST_USUAL_BLOCK
    if length < 16:
        raise MissingInputError("vLLM printed no estimate, and its rounded sizes leave room for no length")
    return length // 16 * 16, "vLLM's printed sizes, in proportion, rounded down"


def _quarter_of_length(lookup: Lookup) -> tuple[float, str]:
    """Short enough to take the KV cache out of the picture, long enough for a request."""
    length = first_number(
        lookup, "launch.max_model_len", "engine.max_model_len", "asked_len", "model.max_position_embeddings"
    )
    return max(16, int(length) // 4 // 16 * 16), f"a quarter of {length:,.0f}"


def _utilization_now(lookup: Lookup) -> tuple[float, str]:
    launched = lookup("launch.gpu_memory_utilization")
    if isinstance(launched, Unknown):
        raise MissingInputError(f"launch.gpu_memory_utilization is unknown: {launched.reason}")
    if isinstance(launched, Known):
        return number(lookup, "launch.gpu_memory_utilization"), "launch.gpu_memory_utilization"
    version = lookup("engine.vllm_version")
    if not isinstance(version, Known):
        raise MissingInputError("gpu-memory-utilization is not set, and its default depends on vLLM's unknown release")
    parts = tuple(int(part) for part in str(version.value).split(".")[:2] if part.isdigit())
    return (0.92 if parts >= (0, 20) else 0.9), f"vLLM {version.value}'s default"


def _utilization_needed(lookup: Lookup) -> tuple[float, str]:
    now, origin = _utilization_now(lookup)
    missing_gib = number(lookup, "needed_gib") - number(lookup, "available_gib") + 2 * _ROUNDING_GIB
    needed = now + missing_gib / number(lookup, "gpu.total_gib")
    return math.ceil(needed * 100) / 100, f"{now} ({origin}) and {missing_gib:.2f} GiB more of this GPU"


def _needed_gib_at_fp8(lookup: Lookup) -> tuple[float, str]:
    needed_gib = number(lookup, "needed_gib") + _ROUNDING_GIB
    return needed_gib / _element_bytes(lookup), "needed_gib, at one byte a value"


def _kv_tokens(lookup: Lookup) -> tuple[float, str]:
    block = number(lookup, "launch.block_size", unset=16)
    return int(number(lookup, "kv.blocks") * block), f"kv.blocks x {block:.0f} tokens (V0's default block)"


COMPUTED: tuple[Computed, ...] = (
    Computed("kv.tokens", "KV cache tokens", "tokens", "tokens that the whole KV cache holds", known(_kv_tokens)),
    Computed(
        "memory.pool_is_fixed",
        "KV cache size set by hand",
        "",
        "an argument or variable sets the KV pool; utilization does not",
        _pool_is_fixed,
    ),
    Computed(
        "memory.pool_now_bytes",
        "KV cache size now",
        "bytes",
        "the KV pool that the launch sets by hand",
        known(_pool_now_bytes),
    ),
    Computed(
        "memory.kv_bytes_per_token",
        "KV cache of one token",
        "bytes",
        "KV cache of a token on one worker",
        known(_kv_bytes_per_token),
    ),
    Computed(
        "memory.pool_needed_bytes",
        "KV cache for one full request",
        "bytes",
        "pool for one request of full length",
        known(_pool_needed_bytes),
    ),
    Computed(
        "memory.pool_needed_gib", "KV cache for one full request", "GiB", "the same in GiB", known(_pool_needed_gib)
    ),
    Computed(
        "memory.pool_needed_whole_gib",
        "KV cache for one full request, whole GiB",
        "GiB",
        "the same, in whole GiB",
        known(_pool_needed_whole_gib),
    ),
    Computed(
        "memory.pool_growth_gib",
        "growth of the KV cache",
        "GiB",
        "what the pool must grow by",
        known(_pool_growth_gib),
    ),
    Computed(
        "memory.length_that_fits",
        "longest length that fits",
        "tokens",
        "longest request for the memory found",
        known(_length_that_fits),
    ),
    Computed(
        "memory.quarter_of_length",
        "a quarter of the length",
        "tokens",
        "a quarter of the length in force, to load with for a test",
        known(_quarter_of_length),
    ),
    Computed(
        "memory.utilization_now",
        "gpu-memory-utilization now",
        "",
        "gpu-memory-utilization in force",
        known(_utilization_now),
    ),
    Computed(
        "memory.utilization_needed",
        "gpu-memory-utilization that would do",
        "",
        "gpu-memory-utilization that would do",
        known(_utilization_needed),
    ),
    Computed(
        "memory.needed_gib_at_fp8",
        "8-bit KV cache needed",
        "GiB",
        "what an 8-bit KV cache would need",
        known(_needed_gib_at_fp8),
    ),
)
