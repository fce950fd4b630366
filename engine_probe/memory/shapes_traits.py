"""How a family's decoder differs from Llama's, as data (data/families.tsv)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.memory.shapes_settings import Settings


@dataclass(frozen=True)
class Traits:
    """`words`: what the family's row says; a family without a row is taken for Llama's kin, with a doubt."""

    is_known: bool
    words: Mapping[str, str] = field(default_factory=dict)

    def word(self, name: str, default: str) -> str:
        return self.words.get(name, default)

    def number(self, name: str, default: int = 0) -> int:
        return int(self.words.get(name, default))

    def says(self, name: str, settings: Settings) -> bool:
        """A bias or the like: 1, 0, or the field of config.json that decides."""
        word = self.words.get(name, "0" if self.is_known else "attention_bias" if name != "mlp_bias" else name)
        if word in ("0", "1"):
            return word == "1"
        key, _, default = word.partition(":")
        return settings.flag(key, default == "1")

    def qk_norm(self, settings: Settings) -> str:
        """none, head or heads."""
        word = self.words.get("qk_norm", "none")
        key, _, kind = word.partition("=")
        if not kind:
            return word
        return kind if settings.flag(key) else "none"


def traits_of(model_type: str) -> Traits:
    """Of a text model's model_type."""
    row = _rows().get(model_type)
    if row is None:
        return Traits(is_known=False)
    return Traits(True, dict(word.split("=", 1) for word in row.split() if "=" in word))


@cache
def _rows() -> Mapping[str, str]:
    text = resources.files("engine_probe.memory").joinpath("data/families.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {row[0]: row[1] for row in rows}


def pick_layers(settings: Settings, most: int) -> int:
    """How many decoder layers; raises InputError for none or for more than anyone builds."""
    listed = settings.text("hybrid_override_pattern") or settings.raw.get("layers_block_type") or ()
    default = len(listed) if isinstance(listed, str | list) else 0
    names = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers")
    count = settings.number(*names, default=min(default, most) or None, most=most)
    if count < 1:
        raise InputError("num_hidden_layers is 0; it must be at least 1", file=settings.where)
    return count
