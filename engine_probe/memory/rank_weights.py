"""Weights on one GPU: which parts its rank holds, how they are cut, and what loading adds to them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.memory.estimates import Amount, Estimate
from engine_probe.memory.shapes_parts import MADE_WHILE_LOADING, OTHERS
from engine_probe.memory.shapes_quantised import FLOAT_BYTES, online

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.memory.model import ModelShape, WeightPart
    from engine_probe.memory.parallel import Parallel

GIB = 1 << 30
_MIB = 1 << 20
_SPREAD = 0.005
"""Of a measured checkpoint: kernels' workspaces and small tensors that vLLM makes beside it (75 starts: p90 0.2 %)."""


@dataclass(frozen=True)
class _Loading:
    dtype: str | None
    quantization: str | None
    cpu_offload_gib: float
    family: str | None


def weights_on_rank(
    shape: ModelShape,
    parallel: Parallel,
    rank: int | None = None,
    *,
    dtype: str | None = None,
    quantization: str | None = None,
    cpu_offload_gib: float = 0.0,
    family: str | None = None,
    draft: ModelShape | None = None,
) -> Amount:
    """GiB of a rank, or of the worst one, which the source names. Raises InputError for a rank that is not there.

    `dtype` and `quantization`: what the arguments ask for beyond the checkpoint. `family`: of the GPU (ampere, ada,
    hopper, blackwell, rocm, cpu), which chooses kernels and with them padding; None widens the range to all of them.
    `draft`: the model that speculates, on the last stage.
    """
    loading = _Loading(dtype if dtype != "auto" else None, quantization, cpu_offload_gib, family)
    stages = range(parallel.pp) if rank is None else [_stage(parallel, rank)]
    by_stage = {stage: _stage_bytes(shape, parallel, stage, loading) for stage in stages}
    if draft is not None and parallel.pp - 1 in by_stage:
        # A draft may share the model's embedding and head, or bring its own.
        low, value, high = _stage_bytes(draft, _flat(parallel), 0, loading)
        before = by_stage[parallel.pp - 1]
        by_stage[parallel.pp - 1] = (before[0] + low / 2, before[1] + value, before[2] + high)
    worst = max(by_stage, key=lambda stage: by_stage[stage][1])
    low, value, high = by_stage[worst]
    named = f"{shape.source}; rank {worst * parallel.tp if rank is None else rank} of {parallel.ranks}"
    return Estimate(value / GIB, low / GIB, high / GIB, named)


def _stage(parallel: Parallel, rank: int) -> int:
    if not 0 <= rank < parallel.ranks:
        raise InputError(f"there is no rank {rank}; there are {parallel.ranks}")
    return parallel.stage_of(rank)


def _flat(parallel: Parallel) -> Parallel:
    """A draft model lies whole on the last stage, cut as the model is (config/speculative.py)."""
    return type(parallel)(tp=parallel.tp, dp=parallel.dp, expert_parallel=parallel.expert_parallel)


def _stage_bytes(shape: ModelShape, parallel: Parallel, stage: int, loading: _Loading) -> tuple[float, float, float]:
    """Low, value, high of any rank of the stage: all its ranks hold as much."""
    tensors: dict[tuple[str, int | None], int] = defaultdict(int)
    movable = made = 0
    for part in _held(shape, parallel, stage):
        size = _cut(shape, parallel, part, _loaded_bytes(shape, part, loading))
        tensors[part.name, part.layer] += size
        movable += size if part.layer is not None else 0
        made += size if part.name == MADE_WHILE_LOADING else 0
    total = sum(tensors.values())
    padded = {family: _padding(shape, parallel, tensors, family) for family in _families(loading)}
    usual = padded[
        loading.family if loading.family in padded else "hopper" if "hopper" in padded else next(iter(padded))
    ]
    rounding = 0 if loading.family == "cpu" else sum(_rounding(key[0], size) for key, size in tensors.items())
    offloaded = min(int(loading.cpu_offload_gib * GIB), movable)
    spread_low, spread_high = shape.weights_low - _SPREAD, shape.weights_high + _SPREAD
    value = total + usual + rounding - offloaded
    low = (total - made) * spread_low + made + min(padded.values()) - offloaded
    high = (total - made) * spread_high + made + max(padded.values()) + rounding - offloaded
    return max(0.0, min(low, value)), float(value), max(high, value)


def _held(shape: ModelShape, parallel: Parallel, stage: int) -> Iterator[WeightPart]:
    """Parts of a stage."""
    layers = parallel.layers_of_stage(layer_count(shape), stage)
    is_last = stage == parallel.pp - 1
    for part in shape.weights:
        if part.layer is not None:
            holds = part.layer in layers
        else:
            holds = (
                part.place == "every" or (part.place == "first" and stage == 0) or (part.place == "last" and is_last)
            )
            holds = holds or (shape.ties_embeddings and is_last and part.name == "embedding")
        if holds:
            yield part


def layer_count(shape: ModelShape) -> int:
    """Decoder layers, which pipeline stages are made of."""
    from_caches = max((cache.layer for cache in shape.layers), default=-1)
    return 1 + max((part.layer for part in shape.weights if part.layer is not None), default=from_caches)


def _loaded_bytes(shape: ModelShape, part: WeightPart, loading: _Loading) -> int:
    """Of the whole part, with the arguments' dtype and quantisation."""
    before = FLOAT_BYTES[shape.dtype]
    after = FLOAT_BYTES.get(loading.dtype or "", before)
    size = part.size_bytes + part.floats * (after - before)
    scheme = online(loading.quantization) if loading.quantization else None
    if scheme is None or not part.linear_floats or (scheme.only_experts and part.split != "experts"):
        return size
    scales = part.linear_floats * scheme.scale_bytes // (scheme.group * scheme.block_rows) if scheme.group > 0 else 0
    return size - part.linear_floats * after + int(part.linear_floats * scheme.bits) // 8 + scales


def _cut(shape: ModelShape, parallel: Parallel, part: WeightPart, size: int) -> int:
    """What one of the ranks that share a part holds of it."""
    if part.split == "replicated":
        return size
    if part.split == "kv_heads":
        return -(-size // min(parallel.tp, max(shape.kv_heads, 1)))
    if part.split == "experts":
        if parallel.expert_parallel and shape.experts:
            return size * -(-shape.experts // parallel.expert_ranks) // shape.experts
        return -(-size // parallel.expert_ranks)
    return -(-size // parallel.tp)


def _rounding(name: str, size: int) -> int:
    """What torch's allocator adds from 10 MiB on: it gives out blocks of 2 MiB, of which a rest over 1 MiB is cut off.

    c10/cuda/CUDACachingAllocator.cpp: kMinLargeAlloc, kRoundLarge, should_split. "Model loading took" counts blocks.
    """
    if size < 10 * _MIB or name in (OTHERS, MADE_WHILE_LOADING, "vision"):
        return 0
    rest = -size % (2 * _MIB)
    return rest if rest <= _MIB else 0


def _families(loading: _Loading) -> tuple[str, ...]:
    """All whose kernels may be taken: on Hopper either triton's or Marlin's, as other packages are there or not."""
    if loading.family == "hopper":
        return "hopper", "ampere"
    return (loading.family,) if loading.family else ("ampere", "hopper", "blackwell")


def _padding(shape: ModelShape, parallel: Parallel, tensors: dict[tuple[str, int | None], int], family: str) -> int:
    """Bytes by which experts in MXFP4 grow: their matrices are rounded up for the kernel that the GPU's family gets.

    fused_moe/oracle/mxfp4.py (0.20), quantization/mxfp4.py (0.10 to 0.19): Marlin 128 × 256, TRT-LLM 256 × 256; the
    layout of triton for Hopper rounds one side up to 256 (printed: 64.38 GiB of gpt-oss-120b).
    """
    width, hidden = shape.expert_intermediate_size, shape.hidden_size
    if shape.quantization != "mxfp4" or not width or not hidden:
        return 0
    if not parallel.expert_parallel:
        width = -(-width // parallel.expert_ranks)
    inner, outer = {"hopper": (64, 256), "blackwell": (256, 256), "rocm": (256, 256)}.get(family, (128, 256))
    factor = _up(width, inner) * _up(hidden, outer) / (width * hidden)
    experts = sum(size for (name, _layer), size in tensors.items() if name.startswith("experts."))
    return int(experts * (factor - 1))


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
