"""Layers that keep a state instead of a cache that grows: Mamba 1 and 2, gated delta nets, short convolutions.

Sizes as vLLM's layers/mamba/mamba_utils.py has them (0.11 to 0.33).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine_probe.errors import InputError
from engine_probe.memory.shapes_modules import Module, existing, norm
from engine_probe.memory.shapes_settings import MOST_LAYERS
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from engine_probe.memory.shapes_settings import Settings

_MAMBA2 = ("mamba2", "bamba", "granitemoehybrid", "falcon_h1", "nemotron_h")
_MAMBA1 = ("mamba", "falcon_mamba", "jamba")
_DELTA = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
_STATE_WORDS = ("mamba", "linear_attention", "conv", "M", "recurrent")
_ATTENTION_WORDS = ("attention", "full_attention", "*")


@dataclass(frozen=True)
class State:
    """`inner`: the width inside (its heads × head size). `layer_kinds` empty: every layer is of `kind`."""

    kind: Literal["mamba1", "mamba2", "delta", "conv"]
    inner: int
    heads: int
    head_size: int
    size: int
    groups: int
    kernel: int
    rank: int = 0
    key_heads: int = 0
    key_size: int = 0
    is_alone: bool = False
    """Each layer is one part only: attention, state or MLP."""
    layer_kinds: tuple[str, ...] = ()
    every: str = "state"
    state_type: str = ""
    """The temporal state's own type; empty: the cache's."""

    def kinds(self, layers: int) -> tuple[str, ...]:
        """Of each layer."""
        return self.layer_kinds or (self.every,) * layers

    @property
    def conv_width(self) -> int:
        if self.kind == "delta":
            return 2 * self.key_heads * self.key_size + self.inner
        return self.inner + (2 * self.groups * self.size if self.kind == "mamba2" else 0)

    def numbers(self) -> tuple[int, int]:
        """Of the convolution's state and of the temporal one."""
        conv = self.conv_width * max(self.kernel - 1, 0)
        if self.kind == "conv":
            return conv, 0
        if self.kind == "mamba1":
            return conv, self.inner * self.size
        return conv, self.inner * (self.key_size if self.kind == "delta" else self.size)


def state_of(settings: Settings, model_type: str, hidden: int) -> State | None:
    """None for a model of attention only."""
    if model_type in _MAMBA1:
        found = _mamba1(settings, model_type, hidden)
    elif model_type in _MAMBA2:
        found = _mamba2(settings, model_type, hidden)
    elif model_type in _DELTA:
        found = _delta(settings)
    elif model_type in ("lfm2", "lfm2_moe"):
        kernel = settings.number("conv_L_cache", default=3)
        found = State(
            "conv", settings.optional("conv_dim") or hidden, 1, hidden, 0, 0, kernel, layer_kinds=_listed(settings)
        )
    else:
        return None
    layers = settings.optional("num_hidden_layers", "n_layer")
    if found.layer_kinds and layers is not None and len(found.layer_kinds) != layers:
        raise InputError(f"names {len(found.layer_kinds)} layers, and not as many as it has", file=settings.where)
    return found


def _mamba1(settings: Settings, model_type: str, hidden: int) -> State:
    inner = settings.number("mamba_expand", "expand", default=2) * hidden
    kinds: tuple[str, ...] = ()
    if model_type == "jamba":
        period = max(1, settings.number("attn_layer_period", default=8))
        offset = settings.number("attn_layer_offset", default=4)
        count = settings.number("num_hidden_layers", most=MOST_LAYERS)
        kinds = tuple("attention" if layer % period == offset else "state" for layer in range(count))
    else:
        inner = settings.optional("intermediate_size") or inner
    rank = settings.raw.get("mamba_dt_rank", settings.raw.get("time_step_rank"))
    return State(
        "mamba1", inner, 1, inner, settings.number("mamba_d_state", "state_size", default=16), 0,
        settings.number("mamba_d_conv", "conv_kernel", default=4), rank if isinstance(rank, int) else -(-hidden // 16),
        is_alone=model_type != "jamba", layer_kinds=kinds,
    )  # fmt: skip


def _mamba2(settings: Settings, model_type: str, hidden: int) -> State:
    heads = settings.number("mamba_n_heads", "mamba_num_heads", "num_heads")
    inner = settings.optional("mamba_d_ssm") or settings.number("mamba_expand", "expand", default=2) * hidden
    size = settings.raw.get("mamba_d_head", settings.raw.get("mamba_head_dim", settings.raw.get("head_dim")))
    if model_type == "nemotron_h":
        size = settings.number("mamba_head_dim")
    head_size = size if isinstance(size, int) and size > 0 and model_type != "bamba" else inner // max(heads, 1)
    return State(
        "mamba2", heads * head_size, heads, head_size,
        settings.number("mamba_d_state", "ssm_state_size", "state_size"),
        settings.number("mamba_n_groups", "n_groups", default=1),
        settings.number("mamba_d_conv", "conv_kernel", default=4),
        is_alone=model_type in ("mamba2", "nemotron_h"), layer_kinds=_mamba2_kinds(settings, model_type),
        every="both" if model_type == "falcon_h1" else "state",
        state_type=settings.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype") or _usual_type(model_type),
    )  # fmt: skip


def _usual_type(model_type: str) -> str:
    """models/config.py NemotronHForCausalLMConfig: float32 from 0.20 on, float16 before."""
    return "float32" if model_type == "nemotron_h" else ""


def _mamba2_kinds(settings: Settings, model_type: str) -> tuple[str, ...]:
    if model_type in ("falcon_h1", "mamba2"):
        return ()
    if model_type == "nemotron_h" and settings.text("hybrid_override_pattern"):
        words = {"M": "state", "*": "attention", "-": "mlp", "E": "moe"}
        pattern = settings.text("hybrid_override_pattern")
        if not set(pattern) <= set(words):
            raise InputError("hybrid_override_pattern holds other signs than M, *, - and E", file=settings.where)
        return tuple(words[sign] for sign in pattern[: MOST_LAYERS + 1])
    indices = settings.numbers("attn_layer_indices")
    if indices is not None:
        count = settings.number("num_hidden_layers", most=MOST_LAYERS)
        return tuple("attention" if layer in set(indices) else "state" for layer in range(count))
    return _listed(settings, missing_is_fine=model_type == "bamba")


def _delta(settings: Settings) -> State:
    kinds = _listed(settings, missing_is_fine=True)
    if not kinds:
        every = max(1, settings.number("full_attention_interval", default=4))
        count = settings.number("num_hidden_layers", most=MOST_LAYERS)
        kinds = tuple("attention" if (layer + 1) % every == 0 else "state" for layer in range(count))
    heads, size = settings.number("linear_num_value_heads"), settings.number("linear_value_head_dim")
    return State(
        "delta", heads * size, heads, size, 0, 0, settings.number("linear_conv_kernel_dim", default=4),
        key_heads=settings.number("linear_num_key_heads"), key_size=settings.number("linear_key_head_dim"),
        layer_kinds=kinds, state_type=settings.text("mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
    )  # fmt: skip


def _listed(settings: Settings, missing_is_fine: bool = False) -> tuple[str, ...]:
    words = settings.texts("layer_types") or settings.texts("layers_block_type")
    if not words and not missing_is_fine:
        raise InputError("says nowhere which layers attend and which keep a state (layer_types)", file=settings.where)
    plain = {**dict.fromkeys(_STATE_WORDS, "state"), **dict.fromkeys(_ATTENTION_WORDS, "attention")}
    plain |= {"hybrid": "both", "mlp": "mlp", "moe": "moe", "-": "mlp"}
    unknown = next((word for word in words if word not in plain), None)
    if unknown is not None:
        raise InputError(
            f"names a layer of the kind {quoted(unknown, 40)!r}, which is not known here", file=settings.where
        )
    return tuple(plain[word] for word in words)


def state_modules(state: State, hidden: int, layer: int, at: str) -> list[Module]:
    """Of one layer; `at` ends with a dot."""
    make = {"mamba1": _mamba1_modules, "mamba2": _mamba2_modules, "delta": _delta_modules, "conv": _conv_modules}
    return make[state.kind](state, hidden, layer, at)


def _mamba1_modules(state: State, hidden: int, layer: int, at: str) -> list[Module]:
    name = at + "mixer."
    normed = () if state.is_alone else (state.rank, state.size, state.size)  # Jamba's dt, B and C
    return [
        Module(name + "in_proj", 2 * state.inner, hidden, layer=layer),
        Module(name + "conv1d", state.inner, state.kernel, "plain", "tp", layer, has_bias=True),
        Module(name + "x_proj", state.rank + 2 * state.size, state.inner, layer=layer),
        Module(name + "dt_proj", state.inner, state.rank, layer=layer, has_bias=True),
        Module(name + "A", state.inner, state.size, "plain", "tp", layer, float_bytes=4),
        Module(name + "D", state.inner, 1, "plain", "tp", layer),
        Module(name + "out_proj", hidden, state.inner, layer=layer),
        *existing(*(norm(name + "norm", width, layer) for width in normed)),
    ]


def _mamba2_modules(state: State, hidden: int, layer: int, at: str) -> list[Module]:
    name, shared = at + "mixer.", 2 * state.groups * state.size
    return existing(
        Module(name + "in_proj", 2 * state.inner + shared + state.heads, hidden, layer=layer),
        Module(name + "conv1d", state.inner + shared, state.kernel, "plain", "tp", layer, has_bias=True),
        Module(name + "A", state.heads, 1, "plain", "tp", layer, float_bytes=4),
        Module(name + "D", state.heads, 2, "plain", "tp", layer),
        Module(name + "norm", state.inner, 1, "plain", "tp", layer),
        Module(name + "out_proj", hidden, state.inner, layer=layer),
    )


def _delta_modules(state: State, hidden: int, layer: int, at: str) -> list[Module]:
    name, keys = at + "linear_attn.", state.key_heads * state.key_size
    return existing(
        Module(name + "in_proj_qkvz", 2 * keys + 2 * state.inner, hidden, layer=layer),
        Module(name + "in_proj_ba", 2 * state.heads, hidden, layer=layer),
        Module(name + "conv1d", state.conv_width, state.kernel, "plain", "tp", layer),
        Module(name + "A", state.heads, 1, "plain", "tp", layer, float_bytes=4),
        Module(name + "dt_bias", state.heads, 1, "plain", "tp", layer),
        norm(name + "norm", state.head_size, layer),
        Module(name + "out_proj", hidden, state.inner, layer=layer),
    )


def _conv_modules(state: State, hidden: int, layer: int, at: str) -> list[Module]:
    name = at + "conv."
    return [
        Module(name + "in_proj", 3 * hidden, hidden, layer=layer),
        Module(name + "conv", hidden, state.kernel, "plain", "tp", layer),
        Module(name + "out_proj", hidden, hidden, layer=layer),
    ]
