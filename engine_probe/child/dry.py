"""vLLM's own opinion of a launch without loading weights, and the options its parser knows."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import Any

from engine_probe.child import log_tap

_FACTS = {
    "max_model_len": ("model_config", "max_model_len"),
    "dtype": ("model_config", "dtype"),
    "quantization": ("model_config", "quantization"),
    "architectures": ("model_config", "architectures"),
    "tensor_parallel_size": ("parallel_config", "tensor_parallel_size"),
    "pipeline_parallel_size": ("parallel_config", "pipeline_parallel_size"),
    "gpu_memory_utilization": ("cache_config", "gpu_memory_utilization"),
    "kv_cache_memory_bytes": ("cache_config", "kv_cache_memory_bytes"),
    "kv_cache_dtype": ("cache_config", "cache_dtype"),
    "block_size": ("cache_config", "block_size"),
    "max_num_seqs": ("scheduler_config", "max_num_seqs"),
    "max_num_batched_tokens": ("scheduler_config", "max_num_batched_tokens"),
    "load_format": ("load_config", "load_format"),
}
"""Fact → where VllmConfig holds it. A version that lacks one gives null."""


def make_parser() -> Any:
    """vLLM's `vllm serve` parser; where it lives has moved (0.5: openai/cli_args, 0.32: launchers/cli_args)."""
    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
    except ImportError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    return make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))


def flags() -> list[str]:
    """Long option names of this engine's own parser, without dashes; empty when it cannot be asked."""
    try:
        parser = make_parser()
    except Exception:
        return []  # a layout that we do not know: the table of flags by version serves instead
    names = {name for action in parser._actions for name in action.option_strings if name.startswith("--")}
    return sorted(name[2:] for name in names)


def build_config(argv: list[str]) -> None:
    """Parse and check the launch; sends {"config_built": …} to the keeper. vLLM's own errors pass through."""
    began = time.time()
    words = argv[2:] if os.path.basename(argv[0]) == "vllm" else argv[3:]
    sys.argv = ["vllm", "serve", *words]
    args = make_parser().parse_args(words)
    if getattr(args, "model_tag", None) is not None:
        args.model = args.model_tag
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext

    config = AsyncEngineArgs.from_cli_args(args).create_engine_config(UsageContext.OPENAI_API_SERVER)
    report = {"config_built": {"seconds": round(time.time() - began, 3), "facts": _facts(config)}}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect(os.environ[log_tap.CHANNEL_VARIABLE])
        channel.send(json.dumps(report).encode("utf-8"))


def _facts(config: Any) -> dict[str, Any]:
    found = {}
    for name, (part, key) in _FACTS.items():
        value = getattr(getattr(config, part, None), key, None)
        found[name] = value if isinstance(value, (bool, int, float, type(None))) else str(value)
    return found
