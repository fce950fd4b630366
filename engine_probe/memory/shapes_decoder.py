"""The modules of a decoder from its config.json: attention, MLP, experts, norms, embedding and head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.memory.shapes_experts import Experts, expert_modules, experts_of
from engine_probe.memory.shapes_modules import Module, existing, norm
from engine_probe.memory.shapes_settings import MOST_LAYERS
from engine_probe.memory.shapes_state import State, state_modules, state_of
from engine_probe.memory.shapes_traits import Traits, pick_layers, traits_of

if TYPE_CHECKING:
    from engine_probe.memory.shapes_settings import Settings


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention; `query_rank` 0: the query is not compressed."""

    rank: int
    rope: int
    nope: int
    value: int
    query_rank: int


@dataclass(frozen=True)
class Decoder:
    """A language model's sizes."""

    settings: Settings
    traits: Traits
    model_type: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int
    vocab: int
    max_position: int
    is_tied: bool
    latent: Latent | None
    experts: Experts | None
    state: State | None

    @property
    def rope_size(self) -> int:
        """Numbers of a head that are rotated."""
        if self.latent is not None:
            return self.latent.rope
        rotary = self.settings.optional("rotary_dim")
        share = self.settings.real("partial_rotary_factor", self.settings.real("rotary_pct", 1.0))
        return rotary or int(self.head_size * min(share, 1.0))


def decoder_of(settings: Settings) -> Decoder:
    """Raises InputError where a size that decides is missing or is no size."""
    model_type = settings.text("model_type")
    hidden = settings.number("hidden_size", "n_embd", "d_model", "dim", least=1)
    state = state_of(settings, model_type, hidden)
    least = 1 if state is None else 0  # of a model that may be without attention and without a dense layer
    heads = settings.number(
        "num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", default=1, least=least
    )
    latent = _latent(settings)
    head_size = settings.optional("head_dim", "kv_channels", "attention_head_dim", least=least)
    head_size = head_size or hidden // max(heads, 1)
    if latent is not None:
        head_size = latent.nope + latent.rope
    vocab = settings.number("padded_vocab_size", "vocab_size", default=0, least=1)
    experts = experts_of(settings, model_type)
    return Decoder(
        settings, traits_of(model_type), model_type, pick_layers(settings, MOST_LAYERS), hidden,
        _intermediate(settings, model_type, hidden, least if experts is None else 0), heads,
        _kv_heads(settings, model_type, heads, least), head_size, vocab,
        settings.number("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx", default=2048),
        settings.flag("tie_word_embeddings", model_type not in ("chatglm", "baichuan", "internlm2", "internlm3")),
        latent, experts, state,
    )  # fmt: skip


def _latent(settings: Settings) -> Latent | None:
    rank = settings.optional("kv_lora_rank")
    if not rank:
        return None
    return Latent(
        rank,
        settings.number("qk_rope_head_dim", default=64),
        settings.number("qk_nope_head_dim", default=128),
        settings.number("v_head_dim", default=128),
        settings.optional("q_lora_rank") or 0,
    )


def _intermediate(settings: Settings, model_type: str, hidden: int, least: int) -> int:
    names = ("intermediate_size_mlp",) if model_type == "llama4_text" else ()
    found = settings.optional(
        *names, "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff", "ffn_config", least=least
    )
    if model_type == "lfm2":
        return _adjusted(settings, settings.number("block_ff_dim", "intermediate_size"))
    return 4 * hidden if found is None and model_type != "mamba" else found or 0


def _adjusted(settings: Settings, width: int) -> int:
    """LFM2 takes two thirds of what it says, rounded up (transformers, modeling_lfm2.py)."""
    if not settings.flag("block_auto_adjust_ff_dim", True):
        return width
    scaled = int(settings.real("block_ffn_dim_multiplier", 1.0) * int(2 * width / 3))
    multiple = max(1, settings.number("block_multiple_of", default=256))
    return -(-scaled // multiple) * multiple


def _kv_heads(settings: Settings, model_type: str, heads: int, least: int) -> int:
    if model_type == "falcon" and not settings.flag("new_decoder_architecture"):
        return 1 if settings.flag("multi_query", True) else heads
    if model_type == "gpt_bigcode" and settings.flag("multi_query", True):
        return 1
    names = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv")
    found = settings.optional(*names, least=least)
    return found or heads


def decoder_modules(decoder: Decoder, prefix: str = "model.") -> list[Module]:
    """All of them, layers first."""
    kinds = layer_kinds(decoder)
    found: list[Module] = []
    for layer in range(decoder.layers):
        found += _layer(decoder, layer, kinds[layer], f"{prefix}layers.{layer}.")
    return found + _around(decoder, prefix)


def layer_kinds(decoder: Decoder) -> tuple[str, ...]:
    """Of each layer: attention, state, both (side by side), cross, mlp (neither)."""
    if decoder.state is not None:
        return decoder.state.kinds(decoder.layers)
    crossing = set(decoder.settings.numbers("cross_attention_layers") or ())
    return tuple("cross" if layer in crossing else "attention" for layer in range(decoder.layers))


def _layer(decoder: Decoder, layer: int, kind: str, at: str) -> list[Module]:
    found: list[Module] = []
    if kind in ("attention", "both", "cross"):
        found += _latent_attention(decoder, layer, at) if decoder.latent else attention(decoder, layer, at)
    if kind in ("state", "both") and decoder.state is not None:
        found += state_modules(decoder.state, decoder.hidden, layer, at)
    found += _feed_forward(decoder, layer, kind, at)
    norms = 1 if _one_part_a_layer(decoder) else _norms(decoder)
    named = norm(at + "input_layernorm", decoder.hidden, layer, kind=decoder.traits.word("norm", "rms"))
    return found + existing(*[named] * norms)


def _one_part_a_layer(decoder: Decoder) -> bool:
    """Layers that are attention, state or MLP and nothing else."""
    return decoder.state is not None and decoder.state.is_alone


def _norms(decoder: Decoder) -> int:
    settings = decoder.settings
    if decoder.model_type == "falcon":
        parts = settings.optional("num_ln_in_parallel_attn")
        new = settings.flag("new_decoder_architecture")
        return parts or (2 if new or not settings.flag("parallel_attn", True) else 1)
    if decoder.model_type == "stablelm" and settings.flag("use_parallel_residual"):
        return 1
    return decoder.traits.number("norms", 2)


def attention(decoder: Decoder, layer: int | None, at: str) -> list[Module]:
    """Query, key, value and output; `at` ends with a dot."""
    traits, settings, hidden = decoder.traits, decoder.settings, decoder.hidden
    query, key = decoder.heads * decoder.head_size, decoder.kv_heads * decoder.head_size
    bias = traits.says("qkv_bias", settings)
    name = at + "self_attn."
    kind = traits.qk_norm(settings)
    widths = {"none": (0, 0), "head": (decoder.head_size,) * 2, "heads": (query, key)}[kind]
    normed = "bare" if traits.word("norm", "rms") == "ln" else "rms"
    gate = 2 if traits.number("output_gate") and settings.flag("attn_output_gate", True) else 1
    found: list[Module | None] = [
        Module(name + "q_proj", query * gate, hidden, layer=layer, has_bias=bias),
        Module(
            name + "k_proj",
            key,
            hidden,
            split="kv_heads",
            layer=layer,
            has_bias=bias and traits.number("k_bias", 1) == 1,
        ),
        Module(name + "v_proj", key, hidden, split="kv_heads", layer=layer, has_bias=bias),
        Module(name + "o_proj", hidden, query, layer=layer, has_bias=traits.says("o_bias", settings)),
        *(norm(name + "norm", width, layer, kind=normed) for width in widths if width),
    ]
    if traits.number("sinks"):
        found.append(Module(name + "sinks", decoder.heads, 1, "plain", "tp", layer))
    return existing(*found)


def _latent_attention(decoder: Decoder, layer: int, at: str) -> list[Module]:
    latent, hidden, heads = decoder.latent, decoder.hidden, decoder.heads
    assert latent is not None
    query = heads * (latent.nope + latent.rope)
    name = at + "self_attn."
    found: list[Module | None] = [
        Module(name + "kv_a_proj_with_mqa", latent.rank + latent.rope, hidden, split="replicated", layer=layer),
        norm(name + "kv_a_layernorm", latent.rank, layer),
        Module(name + "kv_b_proj", heads * (latent.nope + latent.value), latent.rank, layer=layer),
        Module(name + "o_proj", hidden, heads * latent.value, layer=layer),
    ]
    if latent.query_rank:
        found += [
            Module(name + "q_a_proj", latent.query_rank, hidden, split="replicated", layer=layer),
            norm(name + "q_a_layernorm", latent.query_rank, layer),
            Module(name + "q_b_proj", query, latent.query_rank, layer=layer),
        ]
    else:
        found.append(Module(name + "q_proj", query, hidden, layer=layer))
    return existing(*found)


def _feed_forward(decoder: Decoder, layer: int, kind: str, at: str) -> list[Module]:
    alone = _one_part_a_layer(decoder)
    if alone and kind not in ("mlp", "moe"):
        return []
    if decoder.experts is not None and (kind == "moe" if alone else decoder.experts.is_sparse(layer, decoder.layers)):
        return expert_modules(decoder.experts, decoder.traits, decoder.hidden, layer, at)
    if not decoder.intermediate:
        return []
    return mlp(decoder, layer, at + "mlp.", decoder.intermediate)


def mlp(decoder: Decoder, layer: int, name: str, width: int) -> list[Module]:
    """Gated (gate, up, down) or plain (up, down)."""
    bias = decoder.traits.says("mlp_bias", decoder.settings)
    gate = [Module(name + "gate_proj", width, decoder.hidden, layer=layer, has_bias=bias)]
    return [
        *(gate if decoder.traits.word("mlp", "gated") == "gated" else []),
        Module(name + "up_proj", width, decoder.hidden, layer=layer, has_bias=bias),
        Module(name + "down_proj", decoder.hidden, width, layer=layer, has_bias=bias),
    ]


def _around(decoder: Decoder, prefix: str) -> list[Module]:
    traits, hidden, settings = decoder.traits, decoder.hidden, decoder.settings
    width = settings.optional("word_embed_proj_dim", "embedding_size") or hidden
    kind = traits.word("norm", "rms")
    found: list[Module | None] = [
        Module(prefix + "embed_tokens", decoder.vocab, width, "embedding", "vocab", place="first"),
        norm(prefix + "norm", hidden, None, kind=kind, place="last"),
    ]
    if width != hidden:
        found += [
            Module(prefix + name, hidden, width, split="replicated", place="first")
            for name in ("project_in", "project_out")
        ]
    if not decoder.is_tied and decoder.vocab:
        bias = traits.says("head_bias", settings) if traits.is_known else False
        found.append(Module("lm_head", decoder.vocab, width, "head", "vocab", place="last", has_bias=bias))
    if "positions" in traits.words:
        rows = decoder.max_position + traits.number("positions")
        found.append(Module(prefix + "embed_positions", rows, hidden, "plain", "replicated", place="first"))
    if traits.number("embedding_norm"):
        found.append(norm(prefix + "embedding_norm", hidden, None, kind=kind, place="first"))
    return existing(*found)
