"""LoRA adapters that a launch loads at its start: whether its limits take them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.memory.limits import WhyNot

if TYPE_CHECKING:
    from engine_probe.launch import Launch
    from engine_probe.memory.accounting import Asked


class Adapters(NamedTuple):
    """`notes`: of those that could not be looked at."""

    why_not: WhyNot | None = None
    notes: tuple[str, ...] = ()


def adapters_of(launch: Launch, asked: Asked) -> Adapters:
    """An adapter of a higher rank than max-lora-rank is refused when it is loaded (lora/peft_helper.py)."""
    if not launch.lora:
        return Adapters()
    from engine_probe.model_files.adapters import read_adapter  # noqa: PLC0415 -- few deployments have adapters

    limit = asked.values.lora.rank if asked.values.lora else 16
    notes: list[str] = []
    for name, path in launch.lora.items():
        try:
            rank = read_adapter(Path(path).expanduser()).rank
        except ValueError as error:  # a hub id, or a folder of another host
            notes.append(f"adapter {name} is not held against max-lora-rank {limit}: {error}")
            continue
        if rank is None:
            notes.append(f"adapter {name} is not held against max-lora-rank {limit}: it names no rank")
        elif rank > limit:
            why_not = WhyNot("lora-rank-exceeds-max", f"adapter {name} has rank {rank} and max-lora-rank is {limit}")
            return Adapters(why_not, tuple(notes))
    return Adapters(None, tuple(notes))
