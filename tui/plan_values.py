"""The values of a plan's models that keys can change, as they count now, and which of them differ from the file's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from engine_probe.yaml_edit import rendered
from tui.widgets.model_table import gpu_range

if TYPE_CHECKING:
    from engine_probe.launch import ArgValue
    from playbooks.placement import PlacedModel, Plan

Field = Literal["utilization", "length", "tp", "sequences", "gpus"]
FIELDS: tuple[Field, ...] = ("utilization", "length", "tp", "sequences", "gpus")
WORDS: dict[Field, str] = {
    "utilization": "utilisation",
    "length": "length",
    "tp": "tensor parallel size",
    "sequences": "requests at once",
    "gpus": "GPUs",
}

_ARGS: dict[Field, str] = {
    "utilization": "gpu-memory-utilization",
    "length": "max-model-len",
    "tp": "tensor-parallel-size",
    "sequences": "max-num-seqs",
}


def placed(plan: Plan, name: str) -> PlacedModel:
    return next(model for model in plan.models if model.launch.name == name)


def utilization_of(model: PlacedModel) -> float | None:
    """As asked for, else as the release fills it in; so are the others."""
    return model.worst.utilization if model.worst is not None else model.asked.values.utilization


def length_of(model: PlacedModel) -> int:
    return model.worst.max_len if model.worst is not None else model.asked.max_len


def sequences_of(model: PlacedModel) -> int | None:
    return model.worst.batch.seqs if model.worst is not None else model.asked.values.seqs


def gpus_of(model: PlacedModel) -> tuple[int, ...]:
    return model.gpus or model.launch.gpus or ()


def differing(model: PlacedModel, written: PlacedModel) -> list[tuple[str, str, str]]:
    """(what, now, as the file says) of each value that differs from the file's."""
    found = [(WORDS[field], shown(model, field), shown(written, field)) for field in changed_fields(model, written)]
    now, before = model.launch.args, written.launch.args
    others = sorted({name for name in (*now, *before) if now.get(name) != before.get(name)} - set(_ARGS.values()))
    return found + [(name, _said(now.get(name)), _said(before.get(name))) for name in others]


def _said(value: ArgValue | None) -> str:
    return "nothing" if value is None else rendered(value)


def changed_fields(model: PlacedModel, written: PlacedModel) -> tuple[Field, ...]:
    """Which of the values that keys can change are asked for differently."""
    now, before = model.launch, written.launch
    fields: list[Field] = [field for field, name in _ARGS.items() if now.args.get(name) != before.args.get(name)]
    return (*fields, "gpus") if now.gpus != before.gpus else tuple(fields)


def shown(model: PlacedModel, field: Field) -> str:
    """A value as it counts, in words."""
    if field == "gpus":
        return gpu_range(gpus_of(model)) or "none"
    if field == "tp":
        return str(model.asked.values.parallel.tp)
    if field == "length":
        return f"{length_of(model):,}"
    value = utilization_of(model) if field == "utilization" else sequences_of(model)
    return "?" if value is None else f"{value:,}" if field == "sequences" else f"{value:.2f}"
