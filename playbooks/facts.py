"""The register of facts that a playbook may name, and how to look one up for a launch.

A fact captured by a symptom has a bare name; all others are dotted and listed here with unit and meaning.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.facts import Known, Unknown
from engine_probe.flags import flag_for
from engine_probe.numbers import is_credible, number_in, shortened
from playbooks import computed
from playbooks.conditions import Answer, Lookup, Unset
from playbooks.facts_of_answers import ANSWERS
from playbooks.facts_of_evidence import (
    COPY,
    FILES,
    GPUS,
    HOST,
    KEPT,
    MODEL,
    NEAR,
    NEIGHBOURS,
    NOW,
    PACKAGES,
    TESTED,
    UNMET,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.facts import Fact, Value
    from engine_probe.launch import ArgValue, Launch


class FactInfo(NamedTuple):
    """One line of the register: `label` is what people read. `unit` is empty for words and yes/no."""

    name: str
    label: str
    unit: str
    meaning: str


_PARSED = (
    FactInfo("engine.vllm_version", "vLLM's release", "", "vLLM's release, as it printed it"),
    FactInfo(
        "engine.max_model_len",
        "length that vLLM serves",
        "tokens",
        "the length that the engine serves, given or its own choice",
    ),
    FactInfo("engine.dtype", "dtype that vLLM chose", "", "the type of weights and activations that vLLM chose"),
    FactInfo("engine.device", "device that vLLM runs on", "", "what vLLM calls its device, such as cuda or cpu"),
    FactInfo("engine.world_size", "workers", "processes", "workers of the model"),
    FactInfo(
        "engine.config_accepted",
        "vLLM accepts the configuration",
        "",
        "vLLM built its configuration from the arguments (measured by a dry load)",
    ),
    FactInfo("model.architecture", "architecture", "", "the class that vLLM resolved"),
    FactInfo("weights.gib", "weights on one worker", "GiB", "memory of the weights on one worker"),
    FactInfo("weights.load_s", "reading the weights", "s", "seconds to read the weights"),
    FactInfo(
        "weights.total_load_s",
        "building the model and reading the weights",
        "s",
        "seconds to build the model and read the weights",
    ),
    FactInfo("weights.checkpoint_gib", "checkpoint", "GiB", "size of the checkpoint's files"),
    FactInfo("weights.filesystem", "file system of the checkpoint", "", "file system that holds the checkpoint"),
    FactInfo(
        "kv.available_gib",
        "memory found for the KV cache",
        "GiB",
        "memory that vLLM found for the KV cache on one worker",
    ),
    FactInfo("kv.blocks", "KV cache blocks", "blocks", "blocks of the KV cache (V0)"),
    FactInfo("kv.max_concurrency", "full-length requests at once", "", "requests of full length that fit at once"),
    FactInfo("graphs.capture_s", "capturing CUDA graphs", "s", "seconds to capture CUDA graphs"),
    FactInfo("graphs.gib", "CUDA graphs", "GiB", "memory of the CUDA graphs"),
    FactInfo("init.engine_s", "profiling, KV cache and warm-up", "s", "seconds for profiling, KV cache and warm-up"),
    FactInfo("host.node_total_gib", "memory of the CPU node", "GiB", "memory of the CPU node that holds the KV cache"),
)
_PRINTED = (
    FactInfo("engine.model", "model as vLLM names it", "", "the model's name or path, as vLLM printed it"),
    FactInfo(
        "engine.tensor_parallel_size", "GPUs that share each layer", "", "tensor-parallel size, as vLLM printed it"
    ),
    FactInfo(
        "engine.max_num_batched_tokens", "tokens in one step", "tokens", "max-num-batched-tokens, as vLLM printed it"
    ),
    FactInfo("engine.nccl_version", "NCCL's release", "", "NCCL's release, as vLLM printed it"),
    FactInfo("weights.download_s", "downloading the weights", "s", "seconds to download the weights"),
    FactInfo(
        "weights.model_init_s", "building the model", "s", "seconds to build the model before its weights are read"
    ),
    FactInfo("memory.device_gib", "memory of the device", "GiB", "what vLLM printed as the device's memory"),
    FactInfo(
        "memory.startup_free_gib", "free memory at the start", "GiB", "what vLLM found free on the device at its start"
    ),
    FactInfo("memory.budget_gib", "memory that vLLM may use", "GiB", "the device's memory at gpu-memory-utilization"),
    FactInfo("memory.utilization", "share that vLLM may use", "", "gpu-memory-utilization, as vLLM printed it"),
    FactInfo("memory.consumed_gib", "memory used before the KV cache", "GiB", "what the weights and all else took"),
    FactInfo("memory.activation_gib", "memory of one step", "GiB", "the peak of the activations while vLLM profiled"),
    FactInfo("memory.non_torch_gib", "memory outside PyTorch", "GiB", "what NCCL and others took, as vLLM printed it"),
    FactInfo("memory.profiling_s", "profiling the memory", "s", "seconds to profile the memory"),
    FactInfo("kv.encoder_cache_tokens", "encoder cache", "tokens", "tokens of the encoder cache"),
    FactInfo("graphs.estimated_gib", "CUDA graphs, estimated", "GiB", "vLLM's estimate of the CUDA graphs"),
    FactInfo("graphs.pool_gib", "pool of the CUDA graphs", "GiB", "memory of the CUDA graphs' pool"),
    FactInfo("init.compile_s", "compiling", "s", "seconds of torch.compile"),
    FactInfo("init.graph_compile_s", "compiling one graph", "s", "seconds to compile the graph of one shape"),
)
"""No playbook needs these, and a report shows them."""
_MEASURED = (
    FactInfo("weights.on_disk_gib", "weights on disk", "GiB", "tensors in the safetensors files, by their headers"),
    FactInfo("host.available_gib", "free host memory", "GiB", "host memory free for new processes"),
    FactInfo("host.total_gib", "host memory", "GiB", "host memory"),
    FactInfo(
        "host.room_gib",
        "main memory for all models",
        "GiB",
        "main memory that was free, within all limits, before the first load",
    ),
    FactInfo(
        "host.oom_kills",
        "processes killed for memory",
        "processes",
        "by the kernel, in the load's control group, while the load went on",
    ),
    FactInfo("gpu.total_gib", "memory of the smallest GPU", "GiB", "memory of the launch's smallest GPU"),
    FactInfo(
        "gpu.free_before_launch_gib",
        "free GPU memory before the load",
        "GiB",
        "free memory of that GPU before the load",
    ),
    FactInfo(
        "gpu.used_by_others_gib", "GPU memory held by others", "GiB", "memory that other processes hold on that GPU"
    ),
    FactInfo(
        "gpu.others_growth_gib",
        "GPU memory that others took during the load",
        "GiB",
        "what other processes took on that GPU during the load",
    ),
    FactInfo("gpu.largest_other_pid", "pid of the largest other process", "", "the other process that holds most"),
    FactInfo("gpu.largest_other_name", "name of the largest other process", "", "the name of that process"),
)
_DECLARED = (
    FactInfo(
        "model.max_position_embeddings",
        "the model's own maximum length",
        "tokens",
        "the model's own length, from config.json",
    ),
    FactInfo("model.num_hidden_layers", "layers", "", "layers, from config.json"),
    FactInfo("model.num_kv_heads", "key/value heads", "", "key/value heads, from config.json"),
    FactInfo("model.head_dim", "size of one head", "", "size of one head, from config.json"),
    FactInfo("model.dtype", "dtype of the checkpoint", "", "type of the checkpoint, from config.json"),
    FactInfo(
        "model.plain_attention",
        "all layers are full attention",
        "",
        "all layers are full attention of one shape (decides if bytes can be computed)",
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
    FactInfo(
        f"launch.{name}",
        f"{name.replace('_', '-')} as launched",
        {"cpu_offload_gb": "GiB", "swap_space": "GiB", "kv_cache_memory_bytes": "bytes"}.get(name, ""),
        f"the argument --{name.replace('_', '-')} of the launch",
    )
    for name in _LAUNCH_ARGS
)
# Names that symptoms capture by custom, and that computed facts read. Known only where a symptom captures them.
_CAPTURED = (
    FactInfo("asked_len", "length asked for", "tokens", "the length of the failed start"),
    FactInfo("needed_gib", "KV cache needed", "GiB", "what one request of that length takes"),
    FactInfo("available_gib", "KV cache available", "GiB", "what vLLM had for the KV cache"),
    FactInfo("estimated_len", "length that vLLM says fits", "tokens", "vLLM's own estimate"),
)
_EVIDENCE = tuple(
    FactInfo(*row) for row in (*MODEL, *FILES, *NEAR, *GPUS, *NEIGHBOURS, *HOST, *UNMET, *TESTED, *ANSWERS)
)
_OF_ONE_FILE = {COPY: "whole copy", NOW: "what there is", KEPT: "place for what there is"}
OF_ONE_FILE = tuple(_OF_ONE_FILE)
"""Prefixes of facts about one file: known of those that a fix may restore, and shown with it."""
_ENVIRONMENT = "launch.env."
_LAUNCHED = "launch."
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def register() -> tuple[FactInfo, ...]:
    """All dotted facts, in the order of the documentation. `launch.env.NAME` comes beside them for any NAME."""
    of_computed = tuple(FactInfo(one.name, one.label, one.unit, one.meaning) for one in computed.COMPUTED)
    return _LAUNCH + _DECLARED + _PARSED + _PRINTED + _MEASURED + _EVIDENCE + of_computed


def named() -> tuple[FactInfo, ...]:
    """Every fact that has a label: the register, and what symptoms capture by custom."""
    return (*register(), *_CAPTURED)


def info_of(name: str) -> FactInfo:
    """The line of the register for `name`; for a name that is in none (captured, or a variable) one made from it."""
    if name.startswith(_ENVIRONMENT):
        variable = name.removeprefix(_ENVIRONMENT)
        return FactInfo(name, f"{variable} as launched", "", f"the environment variable {variable}")
    known = _by_name().get(name)
    if known is None and name.startswith(_LAUNCHED):
        flag = name.removeprefix(_LAUNCHED).replace("_", "-")
        return FactInfo(name, f"{flag} as launched", "", f"the argument --{flag} of the launch")
    if known is None and name.startswith(OF_ONE_FILE):
        prefix = next(one for one in OF_ONE_FILE if name.startswith(one))
        file, label = name.removeprefix(prefix), _OF_ONE_FILE[prefix]
        return FactInfo(name, f"{label} of {file}", "", f"{label} of the file {file}")
    if known is None and name.startswith(PACKAGES):
        package = name.removeprefix(PACKAGES)
        return FactInfo(name, f"{package} in the engine", "", f"the version of {package} in the engine")
    return known or FactInfo(name, name.replace("_", " "), "", "captured from the log")


@lru_cache(maxsize=1)
def _registered() -> frozenset[str]:
    return frozenset(one.name for one in register())


@lru_cache(maxsize=1)
def _by_name() -> dict[str, FactInfo]:
    return {one.name: one for one in reversed(named())}


def is_fact(name: str, captured: Iterable[str] = ()) -> bool:
    """Whether a playbook whose symptoms capture `captured` may name `name`."""
    if name.startswith(_ENVIRONMENT):
        return len(name) > len(_ENVIRONMENT)
    for prefix in (PACKAGES, *OF_ONE_FILE):
        if name.startswith(prefix):
            return len(name) > len(prefix)
    if name.startswith(_LAUNCHED) and flag_for(name.removeprefix(_LAUNCHED).replace("_", "-")) is not None:
        return True
    return name in set(captured) or name in _registered()


def lookup_for(launch: Launch | None, facts: Mapping[str, Fact], unsaid: Unset | None = None) -> Lookup:
    """A look-up over what is known (`facts`), the launch itself, and what can be computed from both.

    `unsaid`: without a launch, the answer for arguments of it that `facts` lacks; None: they are not known.
    """
    functions = {one.name: one.answer for one in computed.COMPUTED}

    def lookup(name: str) -> Answer:
        if name in facts:
            return facts[name]
        if name.startswith("launch."):
            if launch is None:
                is_argument = not name.startswith(_ENVIRONMENT) and name != "launch.name"
                return unsaid if unsaid is not None and is_argument else Unknown("the launch is not known")
            return launch_fact(launch, name.removeprefix("launch."))
        if name in functions:
            return functions[name](lookup)
        if name.startswith(PACKAGES):
            return _package(name.removeprefix(PACKAGES), facts)
        return Unknown("nothing in this session has told it yet")

    return lookup


def _package(name: str, facts: Mapping[str, Fact]) -> Answer:
    """Where the engine's packages were read, one that is not among them is not installed."""
    found = facts.get(f"{PACKAGES}{name.replace('_', '-').lower()}")
    if found is not None:
        return found
    were_read = isinstance(facts.get("packages_unmet.count"), Known)
    return Unset("the engine's packages") if were_read else Unknown("the engine's packages were not read")


def launch_fact(launch: Launch, name: str) -> Known | Unset:
    """An argument (`max_model_len`) or variable (`env.NAME`) of the launch, as it was written."""
    origin = f"launch {launch.name}"
    if name.startswith("env."):
        variable = name.removeprefix("env.")
        text = launch.env.get(variable)
        return Unset(origin) if text is None else Known(number_or_text(text), "declared", origin)
    if name == "name":
        return Known(launch.name, "declared", origin)
    if name == "model":
        return Known(launch.model, "declared", origin)
    if name == "lora_modules":  # kept apart from the arguments
        return Known(" ".join(launch.lora), "declared", origin) if launch.lora else Unset(origin)
    value = launch.args.get(name.replace("_", "-"))
    return Unset(origin) if value is None else Known(_plain(value), "declared", origin)


def _plain(value: ArgValue) -> Value:
    if isinstance(value, tuple):
        return " ".join(value)
    if isinstance(value, str):
        return number_or_text(value)
    return value if is_credible(value) else shortened(f"{value:g}" if isinstance(value, float) else hex(value))


def number_or_text(text: str) -> Value:
    """Numbers as vLLM reads them: `96M` is 96 x 2^20, `96m` is 96 million (engine/arg_utils.py human_readable_int)."""
    found = re.fullmatch(r"(-?\d+)(\.\d+)?([kKmMgGtT]?)", text.strip())
    if found is None:
        return text
    whole, fraction, suffix = found.groups()
    number = number_in(whole + (fraction or ""))
    if number is None or not is_credible(number * _SUFFIXES.get(suffix, 1)):
        return text
    return int(float(number) * _SUFFIXES[suffix]) if suffix else number
