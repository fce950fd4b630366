"""Plans to propose something for: models by hand, described hardware, no file of weights anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.launch import Deployment, Launch
from engine_probe.memory.cards import parse_gpus
from engine_probe.memory.read_model import read_model
from playbooks.placement import plan_of
from tests.memory_configs import LLAMA_8B, LLAMA_70B, QWEN_05B, llama, sized
from tests.memory_folders import write_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from playbooks.placement import Plan

QWEN_72B = sized(
    "qwen2", "Qwen2ForCausalLM", (8192, 29568, 80, 64, 8, 152064),
    tie_word_embeddings=False, max_position_embeddings=32768,
)  # fmt: skip
LLAMA_13B = llama(5120, 13824, 40, 40, 40, 32000, max_position_embeddings=4096)
QWEN_72B_AWQ = {**QWEN_72B, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
CONFIGS = {
    "llama-70b": LLAMA_70B,
    "llama-8b": {**LLAMA_8B, "max_position_embeddings": 8192},
    "llama-8b-long": LLAMA_8B,
    "llama-13b": LLAMA_13B,
    "qwen-72b": QWEN_72B,
    "qwen-72b-awq": QWEN_72B_AWQ,
    "small": {**QWEN_05B, "max_position_embeddings": 32768},
}
TP8: Mapping[str, Any] = {"tensor-parallel-size": 8}
EIGHT, ONE = "8xA100-80GB", "1xA100-80GB"


def write_models(folder: Path) -> None:
    for name, config in CONFIGS.items():
        write_config(folder / name, config)


def launch(name: str, model: Path, gpus: tuple[int, ...] | None = None, **args: Any) -> Launch:
    """`args` with `_` for `-`."""
    return Launch(name, str(model), {key.replace("_", "-"): value for key, value in args.items()}, gpus=gpus)


def planned(*launches: Launch, gpus: str = EIGHT, version: str | None = "0.19.0", start: Any = "sequential") -> Plan:
    from pathlib import Path

    shapes = {one.name: read_model(Path(one.model)) for one in launches}
    return plan_of(Deployment(launches, start=start), shapes, parse_gpus(gpus), version)


def replanned(plan: Plan, deployment: Deployment) -> Plan:
    """Without anything that was remembered."""
    shapes = {one.launch.name: one.asked.shape for one in plan.models}
    return plan_of(deployment, shapes, plan.cards, plan.version)
