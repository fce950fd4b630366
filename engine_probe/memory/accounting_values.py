"""What of a launch decides its memory, with the defaults that its release fills in. Bad values raise InputError."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.errors import InputError
from engine_probe.flags import flag_for
from engine_probe.memory.parallel import Parallel
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.launch import Launch
    from engine_probe.memory.accounting_rules import Rules
    from engine_probe.memory.model import ModelShape

_MOST = 2**31 - 1
_MOST_BYTES = 2**50
_MOST_SEED = 2**64 - 1
_LARGE_CARD_GIB, _LARGEST_CARD_GIB = 70, 160
_CAPTURES_UP_TO = {"GptOssForCausalLM": 1024}
"""Architectures for which vLLM itself raises the limit (model_executor/models/config.py, 0.11.2 to 0.20.2)."""
_NOT_MODELLED = {
    "speculative-config": "speculative decoding: the draft's weights, cache and activations",
    "speculative-model": "speculative decoding: the draft's weights, cache and activations",
    "config": "what the file behind --config sets",
    "limit-mm-per-prompt": "the limit of images and videos a prompt",
    "kv-transfer-config": "buffers of the KV connector",
    "hf-overrides": "what --hf-overrides changes in the model",
    "decode-context-parallel-size": "decode context parallelism",
    "enable-eplb": "redundant experts",
    "enable-dbo": "a second set of buffers for dual batch overlap",
    "load-format": "the load format",
}
_PLAIN_LOAD_FORMATS = ("auto", "safetensors", "hf", "fastsafetensors", "runai_streamer", "pt", "mistral", "dummy")


@dataclass(frozen=True)
class LoraValues:
    """Room that vLLM makes for adapters, whether or not they are loaded."""

    slots: int
    rank: int


@dataclass(frozen=True)
class Values:
    """Sizes in their own units; None: the launch does not say and the model or the backend decides."""

    parallel: Parallel
    utilization: float | None
    max_len: int | None
    fits_length: bool
    """`--max-model-len auto`: the length is lowered to what fits (0.16 on)."""
    seqs: int | None
    tokens: int | None
    chunked_prefill: bool | None
    block_size: int | None
    kv_cache_dtype: str | None
    dtype: str | None
    quantization: str | None
    kv_bytes: int | None
    cpu_space_gib: float | None
    """VLLM_CPU_KVCACHE_SPACE."""
    blocks: int | None
    offload_gib: float
    lora: LoraValues | None
    captures_graphs: bool
    capture_up_to: int | None
    capture_sizes: int | None
    """How many sizes, where the launch lists them."""
    estimates_graphs: bool | None
    flashinfer_sampler: bool | None
    allows_long: bool
    caches_prefixes: bool | None
    """As the launch says; it matters to layers with a state only."""
    state_dtype: str | None
    """--mamba-ssm-cache-dtype."""
    one_kind_of_cache: bool
    """--disable-hybrid-kv-cache-manager."""
    notes: tuple[str, ...]
    """What is set and not part of the sums, each completing "not in these numbers: …"."""


def values_of(launch: Launch) -> Values:
    """The launch's own words, nothing filled in. Raises InputError for a value that vLLM would refuse."""
    read = _Reader(launch)
    compilation = read.mapping("compilation-config")
    fits_length = launch.arg("max-model-len") in ("auto", -1)
    values = Values(
        parallel=_parallel(read, launch.env),
        utilization=_utilization(read),
        max_len=None if fits_length else read.whole("max-model-len"),
        fits_length=fits_length,
        seqs=read.whole("max-num-seqs"),
        tokens=read.whole("max-num-batched-tokens"),
        chunked_prefill=read.truth("enable-chunked-prefill"),
        block_size=read.whole("block-size"),
        kv_cache_dtype=_unless_auto(read.word("kv-cache-dtype")),
        dtype=_unless_auto(read.word("dtype")),
        quantization=read.word("quantization"),
        kv_bytes=read.whole("kv-cache-memory-bytes", least=0, most=_MOST_BYTES) or None,
        cpu_space_gib=_cpu_space(launch.env),
        blocks=read.whole("num-gpu-blocks-override", least=0),
        offload_gib=read.number("cpu-offload-gb") or 0.0,
        lora=_lora(launch, read),
        captures_graphs=_captures(launch, compilation),
        capture_up_to=_capture_limit(launch, compilation),
        capture_sizes=_listed_sizes(launch, compilation),
        estimates_graphs=_switch(launch.env, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"),
        flashinfer_sampler=_switch(launch.env, "VLLM_USE_FLASHINFER_SAMPLER"),
        allows_long=_switch(launch.env, "VLLM_ALLOW_LONG_MAX_MODEL_LEN") or False,
        caches_prefixes=read.truth("enable-prefix-caching"),
        state_dtype=_unless_auto(read.word("mamba-ssm-cache-dtype")),
        one_kind_of_cache=bool(read.truth("disable-hybrid-kv-cache-manager")),
        notes=_notes(launch),
    )
    read.demand_sane_numbers()
    return values


class _Reader:
    """Arguments as numbers and words; an error names the launch and the argument."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def whole(self, name: str, least: int = 1, most: int = _MOST) -> int | None:
        value = self._launch.arg(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.error(name, value, f"a whole number from {least} on is wanted, and at most {most:,}")
        return value

    def number(self, name: str) -> float | None:
        value = self._launch.arg(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
            raise self.error(name, value, "a number from 0 on is wanted")
        return float(value)

    def word(self, name: str) -> str | None:
        value = self._launch.arg(name)
        return None if value is None else str(value)

    def truth(self, name: str) -> bool | None:
        value = self._launch.arg(name)
        return value if isinstance(value, bool) else None

    def mapping(self, name: str) -> Mapping[str, Any]:
        """A JSON argument with its dotted forms; empty where it is none."""
        value = self._launch.arg(name)
        try:
            found = json.loads(value) if isinstance(value, str) and value.startswith("{") else {}
        except (ValueError, RecursionError):
            raise self.error(name, str(value)[:40], "JSON is wanted") from None
        dotted = {
            key.partition(".")[2].replace("-", "_"): one
            for key, one in self._launch.args.items()
            if key.startswith(f"{name}.")
        }
        return {**found, **dotted}

    def demand_sane_numbers(self) -> None:
        """Also of arguments that no sum needs: a number that no engine takes is a slip of the pen."""
        for name, value in self._launch.args.items():
            flag = flag_for(name)
            if flag is None or "." in name or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            most = {"int": _MOST_SEED if name == "seed" else _MOST, "size": _MOST_BYTES, "float": _MOST}.get(flag.type)
            if most is None:
                continue
            if flag.type != "float" and not isinstance(value, int):
                raise self.error(name, value, "a whole number is wanted")
            if not -most <= value <= most:
                raise self.error(name, value, f"a number up to {most:,} is wanted")

    def error(self, name: str, value: object, wanted: str, nearest: str | None = None) -> InputError:
        shown = f"{value:.12g}" if isinstance(value, float) else str(value)[:60]
        message = f"{self._launch.name}: {name} is {shown!r}; {wanted}"
        return InputError(message, key=f"args.{name}", nearest=nearest)


def _cpu_space(env: Mapping[str, str]) -> float | None:
    """Whole GiB; empty is as if it were not set (platforms/cpu.py, 0.20.2)."""
    written = env.get("VLLM_CPU_KVCACHE_SPACE")
    if not written:
        return None
    try:
        return float(int(written))
    except ValueError:
        raise InputError(
            f"VLLM_CPU_KVCACHE_SPACE is {quoted(written, 40)!r}; whole GiB are wanted", key="env.VLLM_CPU_KVCACHE_SPACE"
        ) from None


def _parallel(read: _Reader, env: Mapping[str, str]) -> Parallel:
    partition = env.get("VLLM_PP_LAYER_PARTITION")
    counts: tuple[int, ...] | None = None
    if partition:
        try:
            counts = tuple(int(one) for one in partition.split(","))
        except ValueError:
            message = f"VLLM_PP_LAYER_PARTITION is {quoted(partition, 60)!r}; numbers like 20,20 are wanted"
            raise InputError(message, key="env.VLLM_PP_LAYER_PARTITION") from None
    sizes = {
        name: read.whole(name) or 1 for name in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
    }
    for name, size in sizes.items():
        if size > 4096:
            raise read.error(name, size, "at most 4096 is planned for")
    return Parallel(
        tp=sizes["tensor-parallel-size"],
        pp=sizes["pipeline-parallel-size"],
        dp=sizes["data-parallel-size"],
        expert_parallel=bool(read.truth("enable-expert-parallel")),
        pp_partition=counts,
    )


def _utilization(read: _Reader) -> float | None:
    share = read.number("gpu-memory-utilization")
    if share is not None and not 0 < share <= 1:
        percent = f"{share / 100:g}" if 1 < share <= 100 else None
        raise read.error("gpu-memory-utilization", share, "a share above 0 and at most 1 is wanted", percent)
    return share


def _lora(launch: Launch, read: _Reader) -> LoraValues | None:
    if launch.arg("enable-lora") is not True:  # set by a launch with adapters too
        return None
    return LoraValues(slots=read.whole("max-loras") or 1, rank=read.whole("max-lora-rank") or 16)


def _captures(launch: Launch, compilation: Mapping[str, Any]) -> bool:
    """Graphs are off eagerly, at level 0, and with the mode NONE (config/compilation.py)."""
    level = launch.arg("optimization-level")
    mode = compilation.get("cudagraph_mode")
    eager = launch.arg("enforce-eager") is True or (isinstance(level, int) and level == 0)
    return not eager and not (isinstance(mode, str) and mode.upper() == "NONE")


def _capture_limit(launch: Launch, compilation: Mapping[str, Any]) -> int | None:
    value = compilation.get("max_cudagraph_capture_size", launch.arg("max-cudagraph-capture-size"))
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _listed_sizes(launch: Launch, compilation: Mapping[str, Any]) -> int | None:
    listed = compilation.get("cudagraph_capture_sizes", launch.arg("cudagraph-capture-sizes"))
    return len(listed) if isinstance(listed, (list, tuple)) and listed else None


def _switch(env: Mapping[str, str], name: str) -> bool | None:
    value = env.get(name)
    return None if value is None else value.strip().lower() not in ("0", "false", "")


def _unless_auto(word: str | None) -> str | None:
    return None if word in (None, "auto") else word


def _notes(launch: Launch) -> tuple[str, ...]:
    set_by_hand = [name for name in launch.args if name.partition(".")[0] in _NOT_MODELLED]
    said = {}
    for name in set_by_hand:
        base = name.partition(".")[0]
        if base == "load-format" and launch.arg(name) in _PLAIN_LOAD_FORMATS:
            continue
        said[_NOT_MODELLED[base]] = f"{_NOT_MODELLED[base]} (--{base})"
    return tuple(said.values())


@dataclass(frozen=True)
class Batch:
    """What vLLM plans a step for."""

    seqs: int
    tokens: int
    source: str


def batch_of(values: Values, rules: Rules, max_len: int, total_gib: float, *, counts_as_a100: bool) -> Batch:
    """--max-num-seqs and --max-num-batched-tokens as set, else as this release sets them on this card.

    engine/arg_utils.py: _set_default_args (0.6.4 to 0.10), get_batch_defaults (0.11 on).
    """
    if rules.engine == "V0":
        tokens = int(rules.batch.removeprefix("v0-"))
        chunks = values.chunked_prefill if values.chunked_prefill is not None else max_len > 32768
        seqs, tokens = 256, tokens if chunks else max(max_len, 2048)
    else:
        seqs, tokens = _v1_defaults(rules.batch, total_gib, counts_as_a100=counts_as_a100)
        if values.chunked_prefill is False:
            tokens = max(tokens, max_len)
        seqs = values.seqs or seqs
        tokens = min(tokens, seqs * max_len)
    tokens = values.tokens or tokens
    seqs = values.seqs or min(seqs, tokens)
    set_by = "declared: the launch" if values.seqs and values.tokens else f"declared: defaults of {rules.name}"
    return Batch(seqs, tokens, set_by)


def _v1_defaults(batch: str, total_gib: float, *, counts_as_a100: bool) -> tuple[int, int]:
    if batch == "v1-early":
        return 1024, 2048
    if batch == "v1-160" and total_gib >= _LARGEST_CARD_GIB:
        return 1024, 16384
    if total_gib >= _LARGE_CARD_GIB and not (counts_as_a100 and batch != "v1-70"):
        return 1024, 8192
    return 256, 2048


def capture_sizes(values: Values, rules: Rules, batch: Batch, shape: ModelShape) -> tuple[int, int, int]:
    """How many sizes are captured piecewise and as full graphs, and the largest.

    config/vllm.py: _set_cudagraph_sizes, 0.11.2 to 0.33.0.
    """
    if not values.captures_graphs:
        return 0, 0, 0
    if rules.engine == "V0":
        sizes = [one for one in (1, 2, 4, *range(8, 257, 8)) if one <= max(batch.seqs, 1) or one == 1]
        return len(sizes), 0, sizes[-1]
    limit = values.capture_up_to or _CAPTURES_UP_TO.get(shape.architecture) or min(batch.seqs * 2, 512)
    limit = min(limit, batch.tokens)
    old = rules.until[:2] <= (0, 11)
    steps = range(8, limit + 1, 8) if old else [*range(8, min(limit + 1, 256), 8), *range(256, limit + 1, 16)]
    sizes = [one for one in (1, 2, 4) if one <= limit] + list(steps)
    full = sum(1 for one in sizes if one <= batch.seqs)
    if values.capture_sizes is not None:
        share = values.capture_sizes / max(len(sizes), 1)
        return values.capture_sizes, min(values.capture_sizes, round(full * share)), sizes[-1]
    return len(sizes), full, sizes[-1]
