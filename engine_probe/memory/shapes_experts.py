"""Mixtures of experts: which layers have them, how many, how wide, and what is shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.memory.shapes_modules import Module
from engine_probe.memory.shapes_settings import MOST_EXPERTS

if TYPE_CHECKING:
    from engine_probe.memory.shapes_settings import Settings
    from engine_probe.memory.shapes_traits import Traits


@dataclass(frozen=True)
class Experts:
    """`dense_first` layers at the start, and then `step − 1` of every `step`, have none."""

    count: int
    per_token: int
    width: int
    shared_width: int = 0
    dense_first: int = 0
    step: int = 1
    offset: int | None = None
    """The first sparse layer of a period; None: the last of it."""
    dense_layers: frozenset[int] = frozenset()

    def is_sparse(self, layer: int, layers: int) -> bool:
        """Whether this of `layers` layers has experts."""
        if layer < self.dense_first or layer in self.dense_layers or layer >= layers:
            return False
        if self.offset is None:
            return (layer + 1) % self.step == 0
        return layer % self.step == self.offset % self.step


def experts_of(settings: Settings, model_type: str) -> Experts | None:
    """None for a dense model."""
    count = settings.optional(
        "num_local_experts",
        "num_experts",
        "n_routed_experts",
        "moe_num_experts",
        "num_routed_experts",
        most=MOST_EXPERTS,
    )
    if not count or count == 1 or model_type in ("mamba", "mamba2"):
        return None
    names: tuple[str, ...] = ("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    if model_type == "llama4_text":
        names = ("intermediate_size",)
    width = (settings.numbers("moe_intermediate_size") or (0,))[0] or settings.number(*names)
    per_token = settings.number(
        "num_experts_per_tok", "experts_per_token", "moe_topk", "moe_k", "num_experts_per_token", default=1
    )
    step, offset = _period(settings, model_type)
    return Experts(
        count, per_token, width, _shared(settings, model_type, width),
        settings.number("first_k_dense_replace", "moe_layer_start_index", default=0), step, offset,
        frozenset(settings.numbers("mlp_only_layers") or ()),
    )  # fmt: skip


def _period(settings: Settings, model_type: str) -> tuple[int, int | None]:
    if model_type == "jamba":
        return max(1, settings.number("expert_layer_period", default=2)), settings.number(
            "expert_layer_offset", default=1
        )
    if model_type == "llama4_text":
        return max(1, settings.number("interleave_moe_layer_step", default=1)), None
    sparse = settings.optional("decoder_sparse_step")
    if sparse is not None:
        return max(1, sparse), None
    every = settings.raw.get("moe_layer_freq")
    return (max(1, settings.number("moe_layer_freq")), 0) if isinstance(every, int) else (1, None)


def _shared(settings: Settings, model_type: str, width: int) -> int:
    if model_type == "llama4_text":
        return width
    own = settings.optional(
        "shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size"
    )
    if own:
        return own
    many = settings.optional("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    return (many or 0) * width


def expert_modules(experts: Experts, traits: Traits, hidden: int, layer: int, at: str) -> list[Module]:
    """The router, all experts as two or three matrices with copies, and the shared expert."""
    name, bias = at + "mlp.", bool(traits.number("expert_bias"))
    is_gated = traits.word("mlp", "gated") == "gated"
    found = [
        Module(
            name + "gate",
            experts.count,
            hidden,
            "plain",
            "replicated",
            layer,
            has_bias=bool(traits.number("router_bias")),
        )
    ]
    parts = (
        ("gate_proj", experts.width, hidden),
        ("up_proj", experts.width, hidden),
        ("down_proj", hidden, experts.width),
    )
    for part, rows, columns in parts if is_gated else parts[1:]:
        full = f"{name}experts.0.{part}"
        found.append(Module(full, rows, columns, "experts", "experts", layer, copies=experts.count, has_bias=bias))
    if experts.shared_width:
        shared = (("gate_proj", experts.shared_width, hidden), ("up_proj", experts.shared_width, hidden))
        for part, rows, columns in (*(shared if is_gated else shared[1:]), ("down_proj", hidden, experts.shared_width)):
            found.append(Module(f"{name}shared_expert.{part}", rows, columns, layer=layer))
        if traits.number("shared_gate"):
            found.append(Module(name + "shared_expert_gate", 1, hidden, "plain", "replicated", layer))
    return found
