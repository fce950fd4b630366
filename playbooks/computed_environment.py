"""Computed facts for playbooks about environment."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from playbooks.computing import Computed, MissingInputError, first_number, known, number

if TYPE_CHECKING:
    from playbooks.conditions import Answer, Lookup

_DEFAULT_PORT = 8000
_LAST_PORT = 65535
_MIB_PER_GIB = 1024
# vllm/envs.py 0.32.0: variables that are read as whole numbers and may be set by hand.
_NUMBERS = (
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_CPU_NUM_OF_RESERVED_CPU",
    "VLLM_ENGINE_ITERATION_TIMEOUT_S",
    "VLLM_ENGINE_READY_TIMEOUT_S",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS",
    "VLLM_MQ_MAX_CHUNK_BYTES_MB",
    "VLLM_RPC_TIMEOUT",
)
# Most specific first: a Triton folder may lie in the home folder's cache.
_CACHES = (
    ("inductor", re.compile(r"torchinductor|inductor", re.IGNORECASE)),
    ("triton", re.compile(r"\.?triton", re.IGNORECASE)),
    ("flashinfer", re.compile(r"flashinfer", re.IGNORECASE)),
    ("hub", re.compile(r"huggingface|/hub\b|/hf\b|modelscope|transformers", re.IGNORECASE)),
    ("vllm", re.compile(r"vllm|torch_compile_cache|modelinfos|torch_aot_compile", re.IGNORECASE)),
)


def _next_port(lookup: Lookup) -> tuple[float, str]:
    try:
        now = int(first_number(lookup, "port", "launch.port"))
    except MissingInputError:
        now = _DEFAULT_PORT
    named = lookup("deployment.ports")
    others = str(named.value).split() if isinstance(named, Known) else []
    found = next((port for port in range(now + 1, _LAST_PORT + 1) if str(port) not in others), None)
    if found is None:
        raise MissingInputError(f"{now} is the last port there is")
    return found, f"{now} is taken; whether the next one that no model names is free is not known"


def _port_is_own(lookup: Lookup) -> Answer:
    """VLLM_PORT is where vLLM's own processes start to listen; nobody set it: then it is somebody else's port."""
    internal, api = lookup("launch.env.VLLM_PORT"), lookup("launch.port")
    if not isinstance(internal, Known):
        return Known(value=False, source="computed", origin="the launch sets no VLLM_PORT")
    port = api.value if isinstance(api, Known) else _DEFAULT_PORT
    return Known(str(internal.value) == str(port), "computed", f"VLLM_PORT is {internal.value}, the API's port {port}")


def _device_index(lookup: Lookup) -> tuple[float, str]:
    count = number(lookup, "gpu.count")
    if count != 1:
        raise MissingInputError(f"{count:g} GPUs are visible: nvidia-smi -L says which one has this UUID")
    return 0, "the only GPU that NVML lists"


def _shm_gib(lookup: Lookup) -> tuple[float, str]:
    """1 GiB a worker and what the message asks for, at least 2; NCCL alone takes some 10 MiB for each pair."""
    workers = number(lookup, "launch.tensor_parallel_size", unset=1)
    workers *= number(lookup, "launch.pipeline_parallel_size", unset=1)
    asked = 0.0
    if isinstance(lookup("needed_mib"), Known):
        asked = number(lookup, "needed_mib") / _MIB_PER_GIB
    elif isinstance(lookup("segment_bytes"), Known):
        asked = number(lookup, "segment_bytes") / 2**30
    return max(2, math.ceil(workers * (1 + asked))), f"1 GiB and what was asked for, for each of {workers:g} workers"


def _cache_kind(lookup: Lookup) -> Answer:
    answer = lookup("folder")
    if not isinstance(answer, Known):
        return Unknown("the message names no folder")
    path = str(answer.value)
    kind = next((name for name, pattern in _CACHES if pattern.search(path)), "home")
    return Known(kind, "computed", f"the folder {path}")


def _variable_at_fault(lookup: Lookup) -> Answer:
    """By its name in the message, else by the value in it: only what the launch itself sets can be taken out of it."""
    named, value = lookup("variable"), lookup("value")
    if isinstance(named, Known):
        is_set = isinstance(lookup(f"launch.env.{named.value}"), Known)
        return named if is_set else Unknown(f"the launch does not set {named.value}")
    for name in _NUMBERS:
        told = lookup(f"launch.env.{name}")
        if isinstance(value, Known) and isinstance(told, Known) and str(told.value) == str(value.value):
            return Known(name, "computed", "the value in the message is that of the launch")
    return Unknown("the message names no variable, and none of the launch has that value")


COMPUTED: tuple[Computed, ...] = (
    Computed("environment.next_port", "next port", "", "the port after the one that is taken", known(_next_port)),
    Computed(
        "environment.port_is_own",
        "vLLM took the port itself",
        "",
        "VLLM_PORT of the launch is the API's port",
        _port_is_own,
    ),
    Computed(
        "environment.device_index",
        "index of the only GPU",
        "",
        "the index for CUDA_VISIBLE_DEVICES where one GPU is visible",
        known(_device_index),
    ),
    Computed(
        "environment.shm_gib_needed",
        "shared memory that would do",
        "GiB",
        "size of /dev/shm for the workers of this launch",
        known(_shm_gib),
    ),
    Computed(
        "environment.cache_kind",
        "whose cache it is",
        "",
        "vllm, hub, triton, inductor, flashinfer or home, by the folder in the message",
        _cache_kind,
    ),
    Computed(
        "environment.variable_at_fault",
        "variable at fault",
        "",
        "the environment variable of the launch that the message is about",
        _variable_at_fault,
    ),
)
