"""What each layer of a decoder keeps for a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.memory.model import LayerCache
from engine_probe.memory.shapes_decoder import layer_kinds

if TYPE_CHECKING:
    from engine_probe.memory.shapes_decoder import Decoder
    from engine_probe.memory.shapes_state import State

_FULL = ("full_attention", "attention", "global", "full", "*")
_SLIDING = ("sliding_attention", "sliding", "local", "local_attention")


def layer_caches(decoder: Decoder, float_bytes: int) -> tuple[LayerCache, ...]:
    """Of all layers in their order. `float_bytes`: of a number in the model's own type, which states are kept in."""
    kinds, windows = layer_kinds(decoder), _windows(decoder)
    found: list[LayerCache] = []
    for layer, kind in enumerate(kinds):
        if kind in ("attention", "both", "cross"):
            found.append(_attention(decoder, layer, kind, windows[layer]))
        if kind in ("state", "both") and decoder.state is not None:
            found.append(_state(decoder.state, layer, float_bytes))
        if kind in ("mlp", "moe"):
            found.append(LayerCache("none", layer))
    return tuple(found)


def _attention(decoder: Decoder, layer: int, kind: str, window: tuple[str, int | None]) -> LayerCache:
    if decoder.latent is not None:
        return LayerCache("mla", layer, 1, latent_width=decoder.latent.rank + decoder.latent.rope)
    size = decoder.head_size
    if kind == "cross":
        return LayerCache("cross", layer, decoder.kv_heads, size, size)
    if window[0] == "sliding":
        return LayerCache("sliding", layer, decoder.kv_heads, size, size, window[1])
    if window[0] == "chunked":
        return LayerCache("chunked", layer, decoder.kv_heads, size, size, window[1])
    return LayerCache("full", layer, decoder.kv_heads, size, size)


def _state(state: State, layer: int, float_bytes: int) -> LayerCache:
    conv, temporal = state.numbers()
    temporal_bytes = 4 if state.state_type == "float32" else float_bytes
    group = 2 * state.size * max(state.kernel - 1, 0) * float_bytes if state.kind == "mamba2" else 0
    total = conv * float_bytes + temporal * temporal_bytes
    return LayerCache(
        "state",
        layer,
        state_bytes=total,
        state_kind=state.kind,
        temporal_numbers=temporal,
        temporal_bytes=temporal_bytes,
        state_groups=state.groups,
        state_group_bytes=group,
    )


def _windows(decoder: Decoder) -> list[tuple[str, int | None]]:
    """Of each layer: full, sliding with its window or chunked with its chunk."""
    window = _window(decoder)
    chunk = decoder.settings.optional("attention_chunk_size")
    return [_as_seen(kind, window, chunk) for kind in _kinds(decoder, window)]


def _as_seen(kind: str, window: int | None, chunk: int | None) -> tuple[str, int | None]:
    if kind == "sliding" and window:
        return "sliding", window
    if kind == "chunked" and chunk:
        return "chunked", chunk
    return "full", None


def _window(decoder: Decoder) -> int | None:
    settings = decoder.settings
    if settings.raw.get("use_sliding_window") is False or not settings.flag("use_sliding_window", True):
        return None
    return settings.optional("sliding_window", "sliding_window_size") or None


def _kinds(decoder: Decoder, window: int | None) -> list[str]:
    settings, layers = decoder.settings, decoder.layers
    named = settings.texts("layer_types")
    if named and decoder.state is None:
        return _named(decoder, named)
    every = (
        settings.optional("sliding_window_pattern", "global_attn_every_n_layers")
        if "every" in decoder.traits.words
        else None
    )
    every = every or decoder.traits.number("every")
    if decoder.model_type == "llama4_text":
        return _llama4(decoder, every)
    if every:
        return ["full" if (layer + 1) % every == 0 else "sliding" for layer in range(layers)]
    if settings.raw.get("use_sliding_window") is True:
        first = settings.number("max_window_layers", default=0)
        first = 0 if first >= layers else first
        return ["sliding" if layer >= first else "full" for layer in range(layers)]
    return ["sliding" if window else "full"] * layers


def _named(decoder: Decoder, named: tuple[str, ...]) -> list[str]:
    if len(named) != decoder.layers:
        text = f"layer_types names {len(named)} layers; there are {decoder.layers}"
        raise InputError(text, file=decoder.settings.where)
    words = {**dict.fromkeys(_FULL, "full"), **dict.fromkeys(_SLIDING, "sliding"), "chunked_attention": "chunked"}
    return [words.get(word, "full") for word in named]


def _llama4(decoder: Decoder, every: int) -> list[str]:
    """Layers with rotation look at their own chunk, the others at everything (models/llama4.py)."""
    listed = decoder.settings.numbers("no_rope_layers")
    if listed and len(listed) == decoder.layers:
        return ["chunked" if one else "full" for one in listed]
    return ["full" if (layer + 1) % max(every, 1) == 0 else "chunked" for layer in range(decoder.layers)]
