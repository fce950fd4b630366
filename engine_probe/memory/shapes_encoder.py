"""Encoders without a cache: BERT's kin and ModernBERT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.memory.shapes_modules import Module, existing, norm
from engine_probe.memory.shapes_settings import MOST_LAYERS
from engine_probe.memory.shapes_traits import pick_layers

if TYPE_CHECKING:
    from engine_probe.memory.shapes_settings import Settings

_LIKE_BERT = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "mpnet", "electra", "jina-bert")
_GATED = ("nomic_bert", "new", "gte-new", "NewModel")


def is_encoder(model_type: str) -> bool:
    """Whether a model of this model_type only encodes."""
    return model_type in (*_LIKE_BERT, *_GATED, "modernbert")


def encoder_modules(settings: Settings) -> list[Module]:
    """All of them."""
    model_type = settings.text("model_type")
    hidden = settings.number("hidden_size", "n_embd", "dim", least=1)
    layers = pick_layers(settings, MOST_LAYERS)
    inner = settings.number("intermediate_size", "n_inner", "hidden_dim", default=4 * hidden)
    is_modern, is_gated = model_type == "modernbert", model_type in (*_GATED, "modernbert")
    kind = "bare" if is_modern else "ln"
    bias = not is_gated
    found: list[Module | None] = []
    for layer in range(layers):
        at = f"encoder.layer.{layer}."
        found += [
            Module(at + "attention.query_key", 2 * hidden, hidden, layer=layer, has_bias=bias),
            Module(at + "attention.value", hidden, hidden, layer=layer, has_bias=bias),
            Module(at + "attention.output", hidden, hidden, layer=layer, has_bias=bias),
            Module(at + "intermediate", inner * (2 if is_gated else 1), hidden, layer=layer, has_bias=bias),
            Module(at + "output", hidden, inner, layer=layer, has_bias=bias),
            *[norm(at + "norm", hidden, layer, kind=kind)] * (1 if is_modern and layer == 0 else 2),
        ]
    found += _around(settings, hidden, kind)
    return existing(*found)


def _around(settings: Settings, hidden: int, kind: str) -> list[Module | None]:
    model_type = settings.text("model_type")
    vocab = settings.number("vocab_size", least=1)
    found: list[Module | None] = [
        Module("embeddings.word_embeddings", vocab, hidden, "embedding", "vocab", place="first"),
        norm("embeddings.norm", hidden, None, kind=kind, place="first"),
    ]
    if model_type == "modernbert":
        return [*found, norm("final_norm", hidden, None, kind=kind, place="last")]
    if model_type in _LIKE_BERT:
        rows = settings.number("max_position_embeddings", default=512)
        found.append(Module("embeddings.positions", rows, hidden, "plain", "replicated", place="first"))
        if model_type != "distilbert":
            found.append(Module("pooler", hidden, hidden, "plain", "replicated", place="last", has_bias=True))
    kinds = settings.number("type_vocab_size", default=0)
    found.append(Module("embeddings.types", kinds, hidden, "plain", "replicated", place="first") if kinds else None)
    return found
