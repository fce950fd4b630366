"""The load stages by name, in the usual order. Shared with the child: standard library, Python 3.9."""

from typing import Literal, get_args

Stage = Literal[
    "config",
    "distributed_init",
    "engine_build",
    "worker_start",
    "weight_load",
    "memory_planning",
    "warmup",
    "serving",
]
STAGES: tuple[str, ...] = get_args(Stage)
