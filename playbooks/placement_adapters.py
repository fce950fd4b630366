"""LoRA adapters that a launch loads at its start: whether its limits take them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.memory.limits import WhyNot

if TYPE_CHECKING:
    from engine_probe.launch import Launch
    from engine_probe.memory.accounting import Asked


def adapters_refused(launch: Launch, asked: Asked) -> WhyNot | None:
    """An adapter of a higher rank than max-lora-rank is refused when it is loaded (lora/peft_helper.py)."""
    if not launch.lora:
        return None
    from engine_probe.model_files.adapters import read_adapter  # noqa: PLC0415 -- few deployments have adapters

    limit = asked.values.lora.rank if asked.values.lora else 16
    for name, path in launch.lora.items():
        try:
            adapter = read_adapter(Path(path).expanduser())
        except ValueError:
            continue  # a hub id or a folder of another host: that is no matter of memory
        if adapter.rank is not None and adapter.rank > limit:
            text = f"adapter {name} has rank {adapter.rank} and max-lora-rank is {limit}"
            return WhyNot("lora-rank-exceeds-max", text)
    return None
