"""What vLLM makes beside a checkpoint's tensors while it loads: rotary tables, and MLA's absorbed matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.memory.shapes_modules import Module
from engine_probe.memory.shapes_settings import Settings

if TYPE_CHECKING:
    from engine_probe.memory.shapes_decoder import Decoder

_MOST_ROWS = 1 << 28


def runtime_modules(decoder: Decoder) -> list[Module]:
    """In no checkpoint, and in "Model loading took"."""
    return [*_rotary(decoder), *_absorbed(decoder)]


def _rotary(decoder: Decoder) -> list[Module]:
    """Cosines and sines of every position, once a kind of rotation and process (rotary_embedding/base.py, 0.6 to 0.33).

    Rows are config.json's positions, whatever --max-model-len says: 2.5 GiB of Llama-4-Scout are this.
    """
    if decoder.traits.word("rotary", "1") == "0" or decoder.settings.flag("alibi") or decoder.rope_size <= 0:
        return []
    own_bytes = decoder.traits.number("rotary_float") or None
    rows = [min(_rows(decoder), _MOST_ROWS)]
    if decoder.model_type == "gemma3_text":
        rows.append(decoder.max_position)  # the sliding layers' own, not scaled
    return [
        Module(
            "rotary_emb",
            count,
            decoder.rope_size,
            "plain",
            "replicated",
            place="every",
            float_bytes=own_bytes,
            is_runtime=True,
        )
        for count in rows
    ]


def _rows(decoder: Decoder) -> int:
    scaling = decoder.settings.raw.get("rope_scaling") or decoder.settings.raw.get("rope_parameters")
    if not isinstance(scaling, dict):
        return decoder.max_position
    if isinstance(scaling.get("full_attention"), dict):
        scaling = scaling["full_attention"]
    rope = Settings(scaling, decoder.settings.where, {})
    kind = rope.text("rope_type", "type")
    factor = rope.real("factor", 1.0)
    original = rope.optional("original_max_position_embeddings", most=_MOST_ROWS)
    if "mrope_section" in scaling:
        return 4 * (original or decoder.max_position)  # rotary_embedding/mrope.py enlarges it for video
    if kind in ("yarn", "deepseek_yarn", "deepseek_llama_scaling"):
        return int((original or decoder.max_position) * factor)
    if kind in ("linear", "dynamic"):
        return int(decoder.max_position * factor)
    if kind in ("longrope", "su"):
        return decoder.max_position + (decoder.settings.optional("original_max_position_embeddings") or original or 0)
    return decoder.max_position


def _absorbed(decoder: Decoder) -> list[Module]:
    """MLA keeps kv_b_proj's two halves once more, unpacked (attention/backends/mla/common.py, 0.7 to 0.33)."""
    latent = decoder.latent
    if latent is None:
        return []
    rows = decoder.heads * (latent.nope + latent.value)
    return [
        Module(f"layers.{layer}.self_attn.absorbed", rows, latent.rank, "plain", "tp", layer, is_runtime=True)
        for layer in range(decoder.layers)
    ]
