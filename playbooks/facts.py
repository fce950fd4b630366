"""The register of facts that a playbook may name, and how to look one up for a launch.

A fact captured by a symptom has a bare name; all others are dotted and listed here with unit and meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from playbooks import computed
from playbooks.conditions import Answer, Lookup, Unset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.facts import Fact, Value
    from engine_probe.launch import ArgValue, Launch


@dataclass(frozen=True)
class FactInfo:
    """One line of the register. `unit` is empty for words and yes/no."""

    name: str
    unit: str
    meaning: str


_PARSED = (
    FactInfo("engine.vllm_version", "", "vLLM's release, as it printed it"),
    FactInfo("engine.max_model_len", "tokens", "the length that the engine serves, given or its own choice"),
    FactInfo("engine.dtype", "", "the type of weights and activations that vLLM chose"),
    FactInfo("engine.world_size", "processes", "workers of the model"),
    FactInfo("engine.config_accepted", "", "vLLM built its configuration from the arguments (measured by a dry load)"),
    FactInfo("model.architecture", "", "the class that vLLM resolved"),
    FactInfo("weights.gib", "GiB", "memory of the weights on one worker"),
    FactInfo("weights.load_s", "s", "seconds to read the weights"),
    FactInfo("weights.total_load_s", "s", "seconds to build the model and read the weights"),
    FactInfo("weights.checkpoint_gib", "GiB", "size of the checkpoint's files"),
    FactInfo("weights.filesystem", "", "file system that holds the checkpoint"),
    FactInfo("kv.available_gib", "GiB", "memory that vLLM found for the KV cache on one worker"),
    FactInfo("kv.blocks", "blocks", "blocks of the KV cache (V0)"),
    FactInfo("kv.max_concurrency", "", "requests of full length that fit at once"),
    FactInfo("graphs.capture_s", "s", "seconds to capture CUDA graphs"),
    FactInfo("graphs.gib", "GiB", "memory of the CUDA graphs"),
    FactInfo("init.engine_s", "s", "seconds for profiling, KV cache and warm-up"),
    FactInfo("host.node_total_gib", "GiB", "memory of the CPU node that holds the KV cache"),
)
_MEASURED = (
    FactInfo("host.available_gib", "GiB", "host memory free for new processes"),
    FactInfo("host.total_gib", "GiB", "host memory"),
    FactInfo("gpu.total_gib", "GiB", "memory of the launch's smallest GPU"),
    FactInfo("gpu.free_before_launch_gib", "GiB", "free memory of that GPU before the load"),
    FactInfo("gpu.used_by_others_gib", "GiB", "memory that other processes hold on that GPU"),
    FactInfo("gpu.others_growth_gib", "GiB", "what other processes took on that GPU during the load"),
    FactInfo("gpu.largest_other_pid", "", "the other process that holds most"),
    FactInfo("gpu.largest_other_name", "", "the name of that process"),
)
_DECLARED = (
    FactInfo("model.max_position_embeddings", "tokens", "the model's own length, from config.json"),
    FactInfo("model.num_hidden_layers", "", "layers, from config.json"),
    FactInfo("model.num_kv_heads", "", "key/value heads, from config.json"),
    FactInfo("model.head_dim", "", "size of one head, from config.json"),
    FactInfo("model.dtype", "", "type of the checkpoint, from config.json"),
    FactInfo(
        "model.plain_attention", "", "all layers are full attention of one shape (decides if bytes can be computed)"
    ),
)
_LAUNCH_ARGS = (
    "block_size",
    "cpu_offload_gb",
    "data_parallel_size",
    "dtype",
    "enable_lora",
    "enforce_eager",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "kv_cache_memory_bytes",
    "load_format",
    "max_lora_rank",
    "max_loras",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "num_gpu_blocks_override",
    "pipeline_parallel_size",
    "port",
    "quantization",
    "served_model_name",
    "swap_space",
    "tensor_parallel_size",
    "tokenizer",
    "trust_remote_code",
)
_LAUNCH = tuple(
    FactInfo(f"launch.{name}", "as vLLM's argument", f"the argument --{name.replace('_', '-')} of the launch")
    for name in _LAUNCH_ARGS
)
_ENVIRONMENT = "launch.env."
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def register() -> tuple[FactInfo, ...]:
    """All dotted facts, in the order of the documentation. `launch.env.NAME` comes beside them for any NAME."""
    of_computed = tuple(FactInfo(one.name, one.unit, one.meaning) for one in computed.COMPUTED)
    return _LAUNCH + _DECLARED + _PARSED + _MEASURED + of_computed


def is_fact(name: str, captured: Iterable[str] = ()) -> bool:
    """Whether a playbook whose symptoms capture `captured` may name `name`."""
    if name.startswith(_ENVIRONMENT):
        return len(name) > len(_ENVIRONMENT)
    return name in set(captured) or any(info.name == name for info in register())


def lookup_for(launch: Launch, facts: Mapping[str, Fact]) -> Lookup:
    """A look-up over what the session knows (`facts`), the launch itself, and what can be computed from both."""
    functions = {one.name: one.compute for one in computed.COMPUTED}

    def lookup(name: str) -> Answer:
        if name in facts:
            return facts[name]
        if name.startswith("launch."):
            return launch_fact(launch, name.removeprefix("launch."))
        if name in functions:
            return functions[name](lookup)
        return Unknown("nothing in this session has told it yet")

    return lookup


def launch_fact(launch: Launch, name: str) -> Known | Unset:
    """An argument (`max_model_len`) or variable (`env.NAME`) of the launch, as it was written."""
    origin = f"launch {launch.name}"
    if name.startswith("env."):
        variable = name.removeprefix("env.")
        text = launch.env.get(variable)
        return Unset(origin) if text is None else Known(_number_or_text(text), "declared", origin)
    value = launch.args.get(name.replace("_", "-"))
    return Unset(origin) if value is None else Known(_plain(value), "declared", origin)


def _plain(value: ArgValue) -> Value:
    if isinstance(value, tuple):
        return " ".join(value)
    return _number_or_text(value) if isinstance(value, str) else value


def _number_or_text(text: str) -> Value:
    """Numbers as vLLM reads them: `96M` is 96 x 2^20, `96m` is 96 million (engine/arg_utils.py human_readable_int)."""
    found = re.fullmatch(r"(-?\d+)(\.\d+)?([kKmMgGtT]?)", text.strip())
    if found is None:
        return text
    whole, fraction, suffix = found.groups()
    if not suffix:
        return float(whole + fraction) if fraction else int(whole)
    return int(float(whole + (fraction or "")) * _SUFFIXES[suffix])
