"""A model's folder → what decides its memory: from safetensors headers, else config.json, else a GGUF header."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.memory import shapes_whisper
from engine_probe.memory.gguf_model import gguf_file, read_gguf_model
from engine_probe.memory.model import LayerCache, ModelShape
from engine_probe.memory.shapes_caches import layer_caches
from engine_probe.memory.shapes_decoder import Decoder, decoder_modules, decoder_of
from engine_probe.memory.shapes_encoder import encoder_modules, is_encoder
from engine_probe.memory.shapes_length import lengths_of
from engine_probe.memory.shapes_parts import MADE_WHILE_LOADING, parts_of
from engine_probe.memory.shapes_quantised import FLOAT_BYTES, Quantised, quantisation_of
from engine_probe.memory.shapes_runtime import runtime_modules
from engine_probe.memory.shapes_settings import MOST_LAYERS, Settings, read_json
from engine_probe.memory.shapes_tensors import measured_parts, stored_tensors
from engine_probe.memory.shapes_vision import vision_modules, vision_of

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.model import WeightPart
    from engine_probe.memory.shapes_modules import Module

_UNKNOWN_CLASS = 0.10
"""How far a class that is not known here may be from Llama's modules: biases, norms and gates are below this."""
_UNKNOWN_TOWER = 0.03
_UNKNOWN_QUANTISATION = 0.5
_CONFIG_ALONE = 0.01
"""What config.json does not tell of known classes: small tensors of one release or another."""


@dataclass(frozen=True)
class _Described:
    """A model as its config.json alone describes it."""

    modules: list[Module]
    decoder: Decoder | None
    caches: tuple[LayerCache, ...]
    doubts: tuple[str, ...]
    spread: float


def read_model(folder: Path) -> ModelShape:
    """Raises InputError where the folder is not there, or what it holds cannot be a model."""
    if not folder.is_dir():
        if folder.suffix == ".gguf" and folder.is_file():
            return read_gguf_model(folder)
        raise InputError("there is no such folder", file=str(folder))
    path = folder / "config.json"
    if not path.exists():
        gguf = gguf_file(folder)
        if gguf is not None:
            return read_gguf_model(gguf)
        raise InputError("there is no config.json in it", file=str(folder))
    settings = Settings(read_json(path), str(path))
    text = settings.text_model()
    dtype = _dtype(settings, text)
    quantised = quantisation_of(settings, folder) or (quantisation_of(text, folder) if text is not settings else None)
    described = _describe(settings, text, FLOAT_BYTES[dtype])
    return _shape(folder, settings, text, dtype, quantised, described)


def _dtype(settings: Settings, text: Settings) -> str:
    """vLLM takes float32 checkpoints as 16-bit ones unless it is told otherwise (config/model.py, dtype auto)."""
    named = settings.text("torch_dtype", "dtype") or text.text("torch_dtype", "dtype")
    named = named.removeprefix("torch.")
    return named if named in ("float16", "bfloat16") else "bfloat16"


def _describe(settings: Settings, text: Settings, float_bytes: int) -> _Described:
    if is_encoder(text.text("model_type")):
        layers = len(range(text.number("num_hidden_layers", "n_layer", "n_layers", default=0, most=MOST_LAYERS)))
        caches = tuple(LayerCache("none", layer) for layer in range(layers))
        return _Described(encoder_modules(text), None, caches, (), _CONFIG_ALONE)
    is_whisper = text.text("model_type") == "whisper"
    decoder = decoder_of(shapes_whisper.as_decoder(text) if is_whisper else text)
    if not _has_head(settings):
        decoder = replace(decoder, is_tied=True)
    doubts: list[str] = []
    spread = _CONFIG_ALONE
    modules = decoder_modules(decoder)
    if not decoder.traits.is_known and decoder.state is None:
        doubts.append(f"the class {decoder.model_type[:60] or 'without a model_type'} is taken for a kin of Llama")
        spread += _UNKNOWN_CLASS
    vision = vision_of(settings)
    if vision is not None:
        tower, doubt = vision_modules(settings, vision, decoder.hidden)
        modules += tower
        doubts += [doubt] if doubt else []
        spread += _UNKNOWN_TOWER if doubt else 0
    caches = layer_caches(decoder, float_bytes)
    if is_whisper:
        modules, caches = [*modules, *shapes_whisper.encoder_modules(text)], shapes_whisper.caches(caches)
    return _Described(modules, decoder, caches, tuple(doubts), spread)


def _has_head(settings: Settings) -> bool:
    """Models that embed or classify have no language head (adapters.py as_embedding_model takes it away)."""
    name = next(iter(settings.texts("architectures")), "")
    if any(word in name for word in ("LMHead", "ChatModel", "ChatGLM")):
        return True
    return not name.endswith(("Model", "Classification", "MaskedLM"))


def _shape(
    folder: Path, settings: Settings, text: Settings, dtype: str, quantised: Quantised | None, described: _Described
) -> ModelShape:
    float_bytes = FLOAT_BYTES[dtype]
    decoder = described.decoder
    runtime = runtime_modules(decoder) if decoder is not None else []
    parts, source, spread, doubts = _weights(folder, described, runtime, float_bytes, quantised)
    experts = decoder.experts if decoder is not None else None
    heads = text.number("num_attention_heads", "n_head", "n_heads", default=1)
    positions = text.number("max_position_embeddings", "n_positions", default=512)
    max_position = decoder.max_position if decoder else positions
    lengths = lengths_of(text, max_position)
    return ModelShape(
        folder=str(folder),
        architecture=next(iter(settings.texts("architectures")), settings.text("model_type")),
        source=source,
        weights=parts,
        weights_low=max(0.0, 1.0 - spread),
        weights_high=1.0 + spread,
        layers=described.caches,
        hidden_size=decoder.hidden if decoder else text.number("hidden_size", "n_embd", "dim"),
        intermediate_size=_dense_width(decoder, text),
        vocab_size=decoder.vocab if decoder else text.number("vocab_size"),
        max_position=max_position,
        length_limit=lengths.limit,
        usual_length=lengths.usual,
        attention_heads=decoder.heads if decoder else heads,
        kv_heads=decoder.kv_heads if decoder else heads,
        dtype=dtype,
        quantization=quantised.method if quantised else None,
        kv_cache_dtype=quantised.kv_cache_dtype if quantised else None,
        experts=experts.count if experts else 0,
        experts_per_token=experts.per_token if experts else 0,
        expert_intermediate_size=experts.width if experts else 0,
        has_vision=vision_of(settings) is not None,
        is_encoder_only=decoder is None,
        ties_embeddings=decoder is not None and decoder.is_tied and _has_head(settings),
        doubts=doubts,
    )


def _dense_width(decoder: Decoder | None, text: Settings) -> int:
    if decoder is None:
        return text.number("intermediate_size", "n_inner", "hidden_dim", default=0)
    if decoder.experts is None:
        return decoder.intermediate
    has_dense = any(not decoder.experts.is_sparse(layer, decoder.layers) for layer in range(decoder.layers))
    return decoder.experts.shared_width or (decoder.intermediate if has_dense else 0)


def _weights(
    folder: Path, described: _Described, runtime: list[Module], float_bytes: int, quantised: Quantised | None
) -> tuple[tuple[WeightPart, ...], str, float, tuple[str, ...]]:
    """Parts, their source, how far off they may be, doubts."""
    stored = stored_tensors(folder)
    if stored.tensors and stored.trouble is None:
        parts = measured_parts(
            stored, described.modules, described.decoder, runtime, float_bytes, quantised is not None
        )
        return parts, "measured: safetensors headers", 0.0, ()
    parts = parts_of([*described.modules, *runtime], float_bytes, quantised)
    doubts, spread = described.doubts, described.spread
    if stored.trouble is not None:
        doubts = (*doubts, stored.trouble)
    if quantised is not None and quantised.doubt:
        doubts, spread = (*doubts, quantised.doubt), spread + _UNKNOWN_QUANTISATION
    scaled = _scaled(parts, stored.total_bytes, runtime, float_bytes) if spread > _CONFIG_ALONE else None
    if scaled is not None:
        return scaled, "measured: total_size of the index", _CONFIG_ALONE, doubts
    return parts, "computed: config.json", spread, doubts


def _scaled(
    parts: tuple[WeightPart, ...], total_bytes: int | None, runtime: list[Module], float_bytes: int
) -> tuple[WeightPart, ...] | None:
    """The parts of an uncertain class, made to add up to what an index says lies on the disk; None: it says not."""
    made = sum(one.elements * (one.float_bytes or float_bytes) for one in runtime)
    padding = sum(one.padding_bytes for one in parts)
    ours = sum(one.size_bytes for one in parts) - made - padding
    if not total_bytes or ours <= 0 or not 0.3 < total_bytes / ours < 3.0:
        return None
    factor = total_bytes / ours
    return tuple(one if one.name == MADE_WHILE_LOADING else _times(one, factor) for one in parts)


def _times(part: WeightPart, factor: float) -> WeightPart:
    sizes = (part.size_bytes, part.padding_bytes, part.floats, part.linear_floats)
    size, padding, floats, linear = (int(one * factor) for one in sizes)
    return replace(part, size_bytes=size, padding_bytes=padding, floats=floats, linear_floats=linear)
