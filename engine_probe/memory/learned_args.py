"""The arguments of a launch that may change its memory, in a form that can be kept: no secrets, no paths."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from engine_probe.redact import mask, names_a_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.launch import Launch

Setting = bool | int | float | str
"""A number, a switch or a plain word as it was set; anything else by its digest."""

_FRONTEND = frozenset(
    """
    host port uds api-key hf-token served-model-name root-path response-role middleware config-format tokenizer
    tokenizer-mode tokenizer-revision revision code-revision download-dir trust-remote-code seed api-server-count
    return-tokens-as-token-ids tool-call-parser tool-parser-plugin tool-server reasoning-parser reasoning-parser-plugin
    max-log-len generation-config override-generation-config show-hidden-metrics-for-version collect-detailed-traces
    otlp-traces-endpoint use-tqdm-on-load shutdown-timeout headless distributed-executor-backend lora-modules
    """.split()  # noqa: SIM905 - a list of words
)
_FRONTEND_BEGINNINGS = (
    "allow",
    "chat-template",
    "disable-fastapi",
    "disable-log",
    "disable-uvicorn",
    "enable-auto-tool",
    "enable-force-include",
    "enable-log",
    "enable-prompt-tokens",
    "enable-request-id",
    "enable-server-load",
    "exclude-tools",
    "h11-",
    "log-",
    "ssl-",
    "uvicorn-",
)
_POOL = frozenset(
    """
    gpu-memory-utilization kv-cache-memory-bytes num-gpu-blocks-override swap-space block-size enable-prefix-caching
    prefix-caching-hash-algo env.VLLM_CPU_KVCACHE_SPACE
    """.split()  # noqa: SIM905 - a list of words
)
"""They divide what is left and take nothing of their own on the GPU."""
_WEIGHTS = frozenset(
    """
    tensor-parallel-size pipeline-parallel-size data-parallel-size enable-expert-parallel dtype quantization load-format
    cpu-offload-gb enable-lora max-loras max-lora-rank lora-dtype lora-extra-vocab-size speculative-config
    speculative-model hf-overrides limit-mm-per-prompt mm-encoder-tp-mode enable-eplb config language-model-only
    env.VLLM_PP_LAYER_PARTITION
    """.split()  # noqa: SIM905 - a list of words
)
_SIZES = frozenset(("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"))
_VARIABLES = re.compile(r"VLLM_\w+|PYTORCH(?:_CUDA)?_ALLOC_CONF")
_QUIET_VARIABLES = re.compile(
    r"VLLM_(?:\w*LOG\w*|\w*CACHE_ROOT|CONFIG_ROOT|HOST_IP|PORT|LOOPBACK_IP|NO_USAGE_STATS|DO_NOT_TRACK|USAGE\w*|RPC\w*"
    r"|API_KEY|TARGET_DEVICE|TRACE\w*|DEBUG\w*|ASSETS\w*|MEDIA\w*|\w*_TIMEOUT\w*|WORKER_MULTIPROC_METHOD)"
)
_PLAIN_WORD = re.compile(r"[A-Za-z0-9][\w.+,:-]{0,39}", re.ASCII)
_DIGEST_LENGTH = 12


def launch_args(launch: Launch) -> dict[str, Setting]:
    """By canonical name; variables as `env.NAME`. What only the front end reads is not among them."""
    args = {
        name: _kept(value)
        for name, value in launch.values().items()
        if name != "model" and not _is_of_frontend(name) and not (name in _SIZES and value == 1)
    }
    for name, value in launch.env.items():
        if is_memory_variable(name):
            args[f"env.{name}"] = _kept(value)
    if launch.lora:
        args["adapters"] = len(launch.lora)
    return dict(sorted(args.items()))


def is_memory_variable(name: str) -> bool:
    """Of vLLM or of torch's allocator, and neither a secret nor about logs, caches and addresses."""
    is_known = _VARIABLES.fullmatch(name) is not None and _QUIET_VARIABLES.fullmatch(name) is None
    return is_known and not names_a_secret(name)


def without_pool_args(args: Mapping[str, Setting]) -> dict[str, Setting]:
    return {name: value for name, value in args.items() if name not in _POOL}


def weight_args(args: Mapping[str, Setting]) -> dict[str, Setting]:
    """Those that decide how large the weights on a GPU are."""
    return {name: value for name, value in args.items() if name.partition(".")[0] in _WEIGHTS or name in _WEIGHTS}


def _is_of_frontend(name: str) -> bool:
    return name in _FRONTEND or name.startswith(_FRONTEND_BEGINNINGS)


def _kept(value: object) -> Setting:
    """Long or odd texts, such as a path, are only told apart."""
    if isinstance(value, (bool, int, float)):
        return value
    text = " ".join(value) if isinstance(value, tuple) else str(value)
    if _PLAIN_WORD.fullmatch(text) and mask(text) == text:
        return text
    return "#" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGEST_LENGTH]
