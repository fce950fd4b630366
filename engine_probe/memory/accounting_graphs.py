"""What CUDA graphs take on a GPU, and what vLLM takes them for when it plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from engine_probe.memory.accounting_rules import graph_costs
from engine_probe.memory.accounting_values import capture_sizes
from engine_probe.memory.estimates import Estimate, exact
from engine_probe.memory.rank_weights import layer_count

if TYPE_CHECKING:
    from engine_probe.memory.accounting_rules import Rules
    from engine_probe.memory.accounting_values import Batch, Values
    from engine_probe.memory.model import ModelShape

_GIB = 2**30
_SIZES_OF_THE_TABLE = 51
_SPLITS, _SPLITS_UP_TO = 32, 992
"""Of FlashAttention 3's decode with graphs, and the largest batch it is used for (attention/backends/flash_attn.py)."""


def graphs_of(
    what: Literal["captured", "estimated"], values: Values, shape: ModelShape, rules: Rules, batch: Batch, family: str
) -> Estimate:
    """In GiB, of one GPU."""
    piecewise, full, largest = capture_sizes(values, rules, batch, shape)
    if not piecewise:
        return exact(0.0, "declared: no CUDA graphs are captured")
    costs = graph_costs(rules, what)
    layers = layer_count(shape) / values.parallel.pp
    modes = (piecewise + full) / 2 if costs.both_modes else piecewise / 2
    sized = costs.fixed + costs.per_32_layers * layers / 32 + (costs.moe if shape.experts else 0.0)
    copies = costs.hidden_copies * largest * shape.hidden_size * 2 / _GIB
    value = max(0.0, modes / _SIZES_OF_THE_TABLE * sized) + copies + _splits(values, shape, largest, family)
    lora = 2.0 if values.lora is not None and rules.engine == "V1" else 1.0  # captured with and without adapters
    source = f"computed: {piecewise} sizes up to {largest} ({costs.evidence})"
    return Estimate(value, value * costs.low, value * costs.high * lora, source)


def _splits(values: Values, shape: ModelShape, largest: int, family: str) -> float:
    """FlashAttention 3's buffer of partial results, which the full graphs keep; in float32."""
    kinds = {layer.kind for layer in shape.layers}
    if (
        family != "hopper"
        or largest > _SPLITS_UP_TO
        or not kinds & {"full", "sliding", "mla"}
        or _other_backend(values, shape)
    ):
        return 0.0
    heads = max(1, shape.attention_heads // values.parallel.tp)
    size = max((layer.latent_width or layer.head_size for layer in shape.layers), default=0)
    return _SPLITS * largest * heads * size * 4 / _GIB


def _other_backend(values: Values, shape: ModelShape) -> bool:
    """float32 and images that attend in both directions do not run on FlashAttention."""
    return (values.dtype or shape.dtype) in ("float32", "float") or shape.architecture.startswith("Gemma3ForCond")
