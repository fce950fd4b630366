"""Modules → the parts whose place and bytes matter."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from engine_probe.memory.model import WeightPart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.memory.shapes_modules import Module
    from engine_probe.memory.shapes_quantised import Quantised

VOCABULARY_MULTIPLE = 64
"""vLLM rounds a vocabulary up to it (layers/vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE, 0.5 to 0.33)."""


MADE_WHILE_LOADING = "made while loading"
OTHERS = "norms and others"
_MERGED = (
    (
        "qkv_proj",
        re.compile(
            r"(?:^|\.)(?:q_proj|k_proj|v_proj|qkv|qkv_proj|query|key|value|query_key_value|c_attn|W_pack|wqkv|Wqkv|wq|wk|wv|attn_q|attn_k|attn_v)(?:[._]|$)"
        ),
    ),
    ("qkv_a_proj", re.compile(r"q_a_proj|kv_a_proj")),
    (
        "gate_up_proj",
        re.compile(
            r"\.(?:gate_proj|up_proj|gate_up_proj|w1|w3|ffn_gate|ffn_up|ffn_gate_exps|ffn_up_exps|input_linear)(?:[._]|$)|^ffn_(?:gate|up)"
        ),
    ),
    ("down_proj", re.compile(r"down_proj|\.w2(?:\.|$)|ffn_down|output_linear|fc_out|\.fc2|dense_4h_to_h")),
    ("o_proj", re.compile(r"o_proj|out_proj|\.dense(?:\.|$)|\.wo(?:\.|$)|attn_output|attn\.c_proj")),
    ("up_proj", re.compile(r"fc_in|\.fc1|dense_h_to_4h|c_fc")),
)


class Parts:
    """Adds up what lies alike."""

    def __init__(self, float_bytes: int) -> None:
        self.float_bytes = float_bytes
        self._sums: dict[tuple[str, int | None, str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])

    def add(self, module: Module, *, floats: int = 0, fixed_bytes: int = 0, linear_floats: int = 0) -> None:
        """`floats` are held in the model's own type; `fixed_bytes` whatever that is."""
        name = "vision" if module.is_vision else _named(module)
        sums = self._sums[name, module.layer, module.split, module.place]
        size = floats * self.float_bytes + fixed_bytes
        padding = (
            padded_rows(module.rows) * size // module.rows - size if module.split == "vocab" and module.rows else 0
        )
        for place, amount in enumerate((size + padding, padding, floats, linear_floats)):
            sums[place] += amount

    def parts(self) -> tuple[WeightPart, ...]:
        """In the order in which they came."""
        return tuple(
            WeightPart(name, sums[0], layer, split, place, sums[1], sums[2], sums[3])  # type: ignore[arg-type]
            for (name, layer, split, place), sums in self._sums.items()
        )


def padded_rows(rows: int) -> int:
    """Of a vocabulary, as vLLM makes it."""
    return -(-rows // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE


def _named(module: Module) -> str:
    """Of the tensor that vLLM holds, which several of a checkpoint's may be merged into."""
    if module.is_runtime:
        return MADE_WHILE_LOADING
    if module.role in ("embedding", "head"):
        return module.role
    if module.role == "plain":
        return OTHERS
    merged = next((name for name, found in _MERGED if found.search(module.name)), module.name.rsplit(".", 1)[-1])
    kind = "experts." if module.role == "experts" else "shared." if "shared" in module.name else ""
    return kind + merged


def parts_of(modules: Iterable[Module], float_bytes: int, quantised: Quantised | None) -> tuple[WeightPart, ...]:
    """Of a model as config.json describes it."""
    parts = Parts(float_bytes)
    for module in modules:
        scheme = quantised.scheme_of(module) if quantised is not None and not module.is_runtime else None
        if module.float_bytes is not None:
            parts.add(module, fixed_bytes=module.elements * module.float_bytes, floats=module.bias_elements)
        elif scheme is not None:
            parts.add(module, fixed_bytes=scheme.size(module), floats=module.bias_elements)
        else:
            converts = module.role in ("linear", "experts") and not module.is_vision
            linear = module.elements if converts and quantised is None else 0
            parts.add(module, floats=module.elements + module.bias_elements, linear_floats=linear)
    return parts.parts()
