"""Bytes of a module as vLLM loads it: which modules a quantisation converts, and what each number then takes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from engine_probe.memory.shapes_settings import Settings, read_json

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.memory.shapes_modules import Module

FLOAT_BYTES = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2, "float64": 2}
_OUTER = re.compile(r"^(?:(?:model|language_model|transformer|text_model)\.)+")
_REPEATED = re.compile(r"[*+}?]\)*[*+{]|\)[*+{]")


@dataclass(frozen=True)
class Scheme:
    """How a converted matrix is held. `group`: inputs that share a scale, 0: a whole row does, −1: the whole matrix."""

    bits: float
    group: int = 0
    scale_bytes: int = 4
    has_zeros: bool = False
    block_rows: int = 1
    """Rows that share a scale, of block-wise scales."""
    is_known: bool = True
    only_experts: bool = False

    def size(self, module: Module) -> int:
        """Bytes of all copies, without the bias."""
        body = -(-int(module.elements * self.bits) // 8)
        rows, columns = module.rows, module.columns
        if self.group < 0:
            return body + module.copies * self.scale_bytes
        groups = -(-columns // self.group) if self.group else 1
        scales = -(-rows // self.block_rows) * groups
        zeros = -(-int(rows * groups * self.bits) // 8) if self.has_zeros else 0
        return body + module.copies * (scales * self.scale_bytes + zeros)


FP8_ONLINE = Scheme(8, -1)
"""vLLM's --quantization fp8 on a checkpoint of floats: one scale a matrix (quantization/fp8.py)."""
_FOUR_BITS_NF4 = Scheme(4, 64)


@dataclass(frozen=True)
class Quantised:
    """A checkpoint's quantisation: `schemes` with the patterns of their targets; the first that fits a module holds."""

    method: str
    schemes: tuple[tuple[tuple[str, ...], Scheme], ...]
    ignored: tuple[str, ...] = ()
    kv_cache_dtype: str | None = None
    doubt: str | None = None
    converts_head: bool = False

    def scheme_of(self, module: Module) -> Scheme | None:
        """None: it stays in the model's own type."""
        if module.role not in ("linear", "experts", "head") or (module.role == "head" and not self.converts_head):
            return None
        if module.is_vision or self._ignored.fit(module.name):
            return None
        for (patterns, scheme), names in zip(self.schemes, self._targets, strict=True):
            if scheme.only_experts and module.role != "experts":
                continue
            if "Linear" in patterns or "*" in patterns or names.fit(module.name):
                return scheme
        return None

    @cached_property
    def _ignored(self) -> _Names:
        return _Names(self.ignored)

    @cached_property
    def _targets(self) -> tuple[_Names, ...]:
        return tuple(_Names(patterns) for patterns, _ in self.schemes)


class _Names:
    """vLLM's ways to name modules: a regular expression behind re:, a glob, a whole name, or its beginning or end."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.plain = {_OUTER.sub("", one) for one in patterns if "*" not in one and not one.startswith("re:")} - {""}
        written = {one[3:] if one.startswith("re:") else re.escape(one).replace(r"\*", ".*") for one in patterns}
        plain = {re.escape(one) for one in patterns if "*" not in one and not one.startswith("re:")}
        self.expressions = [found for one in sorted(written - plain) if (found := _compiled(one)) is not None]

    def fit(self, name: str) -> bool:
        short = _OUTER.sub("", name)
        words = short.split(".")
        whole = (".".join(words[:end]) for end in range(1, len(words) + 1))
        if any(one in self.plain for one in whole) or any(
            ".".join(words[at:]) in self.plain for at in range(len(words))
        ):
            return True
        forms = (short, name, "model." + short)
        return any(found.match(one) is not None for found in self.expressions for one in forms)


def _compiled(expression: str) -> re.Pattern[str] | None:
    # A checkpoint's text is not trusted to hold a regular expression that ends: only what such lists use is taken.
    if len(expression) > 200 or expression.count("*") + expression.count("+") > 4 or _REPEATED.search(expression):
        return None
    try:
        return re.compile(expression)
    except re.error:
        return None


def quantisation_of(settings: Settings, folder: Path) -> Quantised | None:
    """What config.json or hf_quant_config.json beside it says; None: nothing is quantised."""
    raw = settings.raw.get("quantization_config") or settings.raw.get("compression_config")
    if isinstance(raw, dict) and raw:
        return _parsed(Settings(raw, settings.where, {}))
    beside = folder / "hf_quant_config.json"
    if beside.is_file():
        found = read_json(beside).get("quantization")
        if isinstance(found, dict):
            return _modelopt(Settings(found, str(beside), {}))
    return None


def _parsed(found: Settings) -> Quantised:
    method = found.text("quant_method").lower().replace("_", "-") or "compressed-tensors"
    ignored = _names(
        found, "modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "llm_int8_skip_modules"
    )
    if method == "compressed-tensors":
        return _compressed(found, ignored)
    if method == "modelopt" or found.text("quant_algo"):
        return _modelopt(found)
    scheme = _scheme(method, found)
    if scheme is not None:
        return Quantised(method, ((("*",), scheme),), ignored, converts_head=found.raw.get("lm_head") is True)
    doubt = f"{found.where} names the quantisation {method}, whose sizes are not known here"
    return Quantised(method, ((("*",), Scheme(8, 0, is_known=False)),), ignored, doubt=doubt)


def _scheme(method: str, found: Settings) -> Scheme | None:
    """Of methods whose name says how numbers are held; gptq-marlin and the like are their first word."""
    if method == "fp8":
        return _fp8(found)
    if method == "fbgemm-fp8":
        return Scheme(8, 0)
    if method == "mxfp4":
        return Scheme(4, 32, 1, only_experts=True)
    word = method.split("-", maxsplit=1)[0]
    if word == "bitsandbytes":
        return _FOUR_BITS_NF4 if found.flag("load_in_4bit") else Scheme(8, 0)
    if word in ("awq", "gptq"):
        return Scheme(_bits(found, 4), _group(found), 2, word == "gptq" or found.flag("zero_point", True))
    return None


def _names(found: Settings, *keys: str) -> tuple[str, ...]:
    return tuple(name for key in keys for name in found.texts(key))


def _bits(found: Settings, default: int) -> int:
    return found.number("bits", "w_bit", "num_bits", default=default, most=16, least=1)


def _group(found: Settings) -> int:
    size = found.raw.get("group_size", found.raw.get("q_group_size", 128))
    return 0 if size in (-1, 0, None) else found.number("group_size", "q_group_size", default=128)


def _fp8(found: Settings) -> Scheme:
    block = found.numbers("weight_block_size")
    return _block(block) if block else Scheme(8, -1)


def _block(block: tuple[int, ...]) -> Scheme:
    rows, columns = (*block, 1, 1)[:2]
    return Scheme(8, max(columns, 1), 4, block_rows=max(rows, 1))


def _compressed(found: Settings, ignored: tuple[str, ...]) -> Quantised:
    schemes = []
    groups = found.inner("config_groups")
    for name in groups.raw if groups else ():
        group = groups.inner(name) if groups else None
        weights = group.inner("weights") if group else None
        if group is not None and weights is not None:
            schemes.append((group.texts("targets") or ("Linear",), _compressed_scheme(weights)))
    # A group that names modules goes before one for all of them, as in vLLM's compressed_tensors/utils.py.
    schemes.sort(key=lambda one: "Linear" in one[0])
    cache = found.inner("kv_cache_scheme")
    is_fp8 = cache is not None and cache.optional("num_bits") == 8
    return Quantised("compressed-tensors", tuple(schemes), ignored, "fp8" if is_fp8 else None)


def _compressed_scheme(weights: Settings) -> Scheme:
    bits, strategy = _bits(weights, 8), weights.text("strategy")
    is_packed = bits <= 4
    block = weights.numbers("block_structure")
    if strategy == "block" and block:
        return _block(block)
    if strategy == "tensor":
        return Scheme(bits, -1)
    if strategy in ("group", "tensor_group") or weights.optional("group_size"):
        is_float = weights.text("type") == "float"
        has_zeros = not weights.flag("symmetric", True)
        return Scheme(bits, weights.optional("group_size") or 128, 1 if is_float else 2, has_zeros)
    return Scheme(bits, 0, 2 if is_packed else 4)


def _modelopt(found: Settings) -> Quantised:
    algorithm = found.text("quant_algo").upper()
    ignored = _names(found, "exclude_modules", "ignore")
    cache = "fp8" if "FP8" in found.text("kv_cache_quant_algo").upper() else None
    scheme = {
        "FP8": Scheme(8, -1),
        "NVFP4": Scheme(4, 16, 1),
        "MXFP8": Scheme(8, 32, 1),
        "W4A16_AWQ": Scheme(4, 128, 2),
        "FP8_PB_WO": Scheme(8, 128, 4, block_rows=128),
        "FP8_PER_CHANNEL_PER_TOKEN": Scheme(8, 0),
    }.get(algorithm)
    if scheme is None:
        doubt = f"{found.where} names the quantisation {algorithm or 'of ModelOpt'}, whose sizes are not known here"
        return Quantised("modelopt", ((("*",), Scheme(8, 0, is_known=False)),), ignored, cache, doubt)
    return Quantised("modelopt", ((("*",), scheme),), ignored, cache)


def online(method: str) -> Scheme | None:
    """What --quantization METHOD makes of a checkpoint of floats; None for one that only reads such checkpoints."""
    known = {
        "fp8": FP8_ONLINE,
        "fp8-per-tensor": FP8_ONLINE,
        "fp8-per-block": Scheme(8, 128, 4, block_rows=128),
        "ptpc-fp8": Scheme(8, 0),
        "mxfp8": Scheme(8, 32, 1),
        "bitsandbytes": _FOUR_BITS_NF4,
        "experts-int8": replace(Scheme(8, 0), only_experts=True),
        "int8-per-channel-weight-only": Scheme(8, 0),
    }
    return known.get(method.lower().replace("_", "-"))
