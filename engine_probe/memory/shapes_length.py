"""How long a request may be by the model's own configuration, and how long it is where no argument says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from engine_probe.memory.shapes_settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCALED_ALREADY = ("su", "longrope", "llama3", "default")
_YARN = ("yarn", "deepseek_yarn", "deepseek_llama_scaling")
_MOST_TOKENS = 1 << 30


class Lengths(NamedTuple):
    """In tokens. `limit`: a longer --max-model-len is refused; `usual`: without that argument."""

    limit: int
    usual: int


def lengths_of(text: Settings, max_position: int) -> Lengths:
    """config/model.py, _get_and_verify_max_len (0.8 to 0.33), for the text model's settings.

    yarn's factor lies on top of the original length up to about 0.25, and in max_position_embeddings later: the longer
    one counts.
    """
    scaling = _scaling(text.raw)
    if scaling is None or "gemma3" in str(text.raw.get("model_type", "")):
        return Lengths(max_position, max_position)
    rope = Settings(scaling, text.where, {})
    kind, factor = rope.text("rope_type", "type"), rope.real("factor", 1.0)
    original = rope.optional("original_max_position_embeddings") or text.optional("original_max_position_embeddings")
    if kind == "longrope":
        return Lengths(max_position, original or max_position)
    if kind in _YARN:
        longest = max(max_position, int((original or max_position) * factor))
        return Lengths(longest, longest)
    longest = max_position if kind in _SCALED_ALREADY else min(_MOST_TOKENS, int(max_position * max(factor, 1.0)))
    return Lengths(longest, longest)


def _scaling(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """One for all layers, or that of the layers that see everything."""
    found = raw.get("rope_scaling") or raw.get("rope_parameters")
    if isinstance(found, dict) and isinstance(found.get("full_attention"), dict):
        found = found["full_attention"]
    return found if isinstance(found, dict) else None
