"""Room that vLLM makes on a rank for LoRA adapters while it loads the model, whether any is there or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.memory.estimates import Estimate
from engine_probe.memory.rank_weights import GIB, layer_count

if TYPE_CHECKING:
    from engine_probe.memory.model import ModelShape
    from engine_probe.memory.parallel import Parallel

_BYTES = 2


def lora_on_rank(shape: ModelShape, parallel: Parallel, *, slots: int, rank: int) -> Estimate:
    """GiB. `slots`: max-loras, `rank`: max-lora-rank. For each linear layer and slot two matrices of that rank.

    lora/layers/*.py, create_lora_weights (0.11 to 0.33): of the two, the one on the side that tp cuts is
    cut too. Embedding and head have room in some classes, experts from 0.11 on: low is without them.
    """
    layers = max(parallel.layer_counts(layer_count(shape)))
    always = layers * (_attention(shape, parallel.tp) + _mlp(shape, parallel.tp))
    experts = layers * shape.experts * 3 * (shape.hidden_size + shape.expert_intermediate_size // parallel.tp)
    vocabulary = 2 * (shape.vocab_size + shape.hidden_size)
    unit = slots * rank * _BYTES / GIB
    value = (always + experts + vocabulary) * unit
    named = f"computed: {slots} slots of rank {rank} beside each linear layer"
    return Estimate(value, always * unit, value, named)


def _attention(shape: ModelShape, tp: int) -> int:
    """Inputs and outputs of query, key, value and output."""
    found = next((one for one in shape.layers if one.kind in ("full", "sliding", "chunked", "mla")), None)
    if found is None:
        return 0
    size = found.head_size or shape.hidden_size // max(shape.attention_heads, 1)
    query, key = shape.attention_heads * size // tp, max(1, shape.kv_heads // tp) * size
    return 4 * shape.hidden_size + 2 * query + 2 * key


def _mlp(shape: ModelShape, tp: int) -> int:
    return 3 * (shape.hidden_size + shape.intermediate_size // tp)
