"""What vLLM's memory use depends on in a model: which tensors lie where, and what each layer keeps for a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CacheKind = Literal["full", "sliding", "chunked", "mla", "state", "cross", "none"]
Split = Literal["tp", "kv_heads", "vocab", "experts", "replicated"]


@dataclass(frozen=True)
class LayerCache:
    """What one layer keeps. Sizes of the whole layer, before tensor parallelism divides it."""

    kind: CacheKind
    layer: int = 0
    """The decoder layer (0 on); one with attention and a state side by side has two entries."""
    kv_heads: int = 0
    head_size: int = 0
    value_head_size: int = 0
    window: int | None = None
    """Tokens, of sliding and chunked attention."""
    latent_width: int = 0
    """MLA: kv_lora_rank + rope head size; one head, not divided by tensor parallelism."""
    state_bytes: int = 0
    """Mamba and linear attention: bytes a request, whatever its length."""
    state_kind: str = ""
    """mamba1, mamba2, delta or conv."""
    temporal_numbers: int = 0
    """Numbers in `state_bytes` whose type --mamba-ssm-cache-dtype sets apart from the rest."""
    temporal_bytes: int = 0
    """Bytes of one of these in `state_bytes`."""
    state_groups: int = 0
    """Mamba 2: groups that share B and C. Where tp does not divide them, each rank keeps one more's worth."""
    state_group_bytes: int = 0
    """What one such group takes of `state_bytes`."""


@dataclass(frozen=True)
class WeightPart:
    """Tensors of one module that are placed alike. `size_bytes` is that of the whole model, as loaded."""

    name: str
    size_bytes: int
    layer: int | None
    """The decoder layer (0 on); None: embedding, head, vision tower and the like."""
    split: Split
    """How tensor parallelism divides it: `kv_heads` by at most their number, `experts` by expert parallelism too."""
    place: Literal["first", "last", "every", "layer"] = "layer"
    """Which pipeline stage holds it, where `layer` is None."""
    padding_bytes: int = 0
    """What vLLM adds, such as a vocabulary or a matrix rounded up; part of `size_bytes`."""
    floats: int = 0
    """Numbers in the model's own type: with another dtype these take other bytes."""
    linear_floats: int = 0
    """Of `floats`, those that quantisation while loading would convert."""


@dataclass(frozen=True)
class ModelShape:
    """A model as its folder tells it."""

    folder: str
    architecture: str
    source: str
    """Of the weights' sizes: "measured: safetensors headers", "computed: config.json", "parsed: GGUF header"."""
    weights: tuple[WeightPart, ...]
    weights_low: float
    """Factors on the weights: the range in which the true size is expected, 1.0 where it was measured."""
    weights_high: float
    layers: tuple[LayerCache, ...]
    hidden_size: int
    intermediate_size: int
    """Of the dense MLP; of a mixture of experts that of its shared or dense layers, 0 where there is none."""
    vocab_size: int
    max_position: int
    """As config.json counts positions; how long a request may be stands in `length_limit`."""
    attention_heads: int
    kv_heads: int
    dtype: str
    """Of activations, such as bfloat16."""
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    """Where the checkpoint itself asks for one."""
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate_size: int = 0
    has_vision: bool = False
    is_encoder_only: bool = False
    ties_embeddings: bool = False
    """The head is the embedding: a last pipeline stage that is not the first holds it too."""
    length_limit: int = 0
    """Tokens; a longer --max-model-len is refused. 0: as `max_position`."""
    usual_length: int = 0
    """Tokens of a request where no argument says it. 0: as `max_position`."""
    doubts: tuple[str, ...] = ()
    """What could not be known, each a sentence; each widens the range of what depends on it."""
