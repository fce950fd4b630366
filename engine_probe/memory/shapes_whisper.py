"""Whisper: an encoder of sound, and a decoder whose layers look at it too."""

from __future__ import annotations

from engine_probe.memory.model import LayerCache
from engine_probe.memory.shapes_modules import Module, existing, norm
from engine_probe.memory.shapes_settings import MOST_LAYERS, Settings


def as_decoder(settings: Settings) -> Settings:
    """The decoder's sizes under the names that other decoders have."""
    raw = {
        "model_type": "whisper",
        "hidden_size": settings.number("d_model"),
        "num_hidden_layers": settings.number("decoder_layers", most=MOST_LAYERS),
        "num_attention_heads": settings.number("decoder_attention_heads"),
        "intermediate_size": settings.number("decoder_ffn_dim"),
        "vocab_size": settings.number("vocab_size"),
        "max_position_embeddings": settings.number("max_target_positions", default=448),
        "tie_word_embeddings": True,
    }
    return Settings(raw, settings.where, {})


def encoder_modules(settings: Settings) -> list[Module]:
    """The encoder, and the decoder's attention to it. Keys have no bias."""
    width, layers = settings.number("d_model"), settings.number("encoder_layers", most=MOST_LAYERS)
    inner = settings.number("encoder_ffn_dim")
    found: list[Module | None] = [
        _part("attention", 4 * width, width, layers, bias_rows=3 * width),
        _part("mlp.up", inner, width, layers, bias_rows=inner),
        _part("mlp.down", width, inner, layers, bias_rows=width),
        norm("encoder.norms", width * (2 * layers + 1), None, kind="ln", place="every"),
        _whole("conv1", width, 3 * settings.number("num_mel_bins", default=80)),
        _whole("conv2", width, 3 * width),
        _whole("positions", settings.number("max_source_positions", default=1500), width, has_bias=False),
    ]
    for layer in range(settings.number("decoder_layers", most=MOST_LAYERS)):
        at = f"model.layers.{layer}.encoder_attn."
        found += [
            Module(at + "out_proj", 2 * width, width, layer=layer, has_bias=True),
            Module(at + "v_proj", width, width, split="kv_heads", layer=layer, has_bias=True),
            Module(at + "k_proj", width, width, split="kv_heads", layer=layer),
        ]
    return existing(*found)


def caches(own: tuple[LayerCache, ...]) -> tuple[LayerCache, ...]:
    """Each layer's own, and beside it what it keeps of the encoder's output."""
    return tuple(
        one
        for cache in own
        for one in (cache, LayerCache("cross", cache.layer, cache.kv_heads, cache.head_size, cache.value_head_size))
    )


def _part(name: str, rows: int, columns: int, copies: int, *, bias_rows: int) -> Module:
    """All layers' as one; a bias counts as further inputs."""
    extra = -(-bias_rows * copies // max(columns, 1))
    return Module("encoder." + name, rows * copies + extra, columns, place="every", is_vision=True)


def _whole(name: str, rows: int, columns: int, *, has_bias: bool = True) -> Module:
    full = "encoder." + name
    return Module(full, rows, columns, "plain", "replicated", place="every", has_bias=has_bias, is_vision=True)
