"""A start-up log → what it printed about the memory of one launch, each number with its line."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError
from engine_probe.logs.attempts import attempts
from engine_probe.memory.learned import Printed, Start, card_key, is_same_release
from engine_probe.memory.learned_args import launch_args
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine_probe.facts import Value
    from engine_probe.launch import Launch
    from engine_probe.logs.attempts import Attempt
    from engine_probe.logs.records import Record
    from engine_probe.memory.learned_model import Fingerprint

_LARGEST = {
    "weights_gib": "weights.gib",
    "activation_gib": "memory.activation_gib",
    "non_torch_gib": "memory.non_torch_gib",
    "graphs_gib": "graphs.gib",
    "graphs_estimated_gib": "graphs.estimated_gib",
}
_SMALLEST = {"kv_pool_gib": "kv.available_gib", "kv_blocks": "kv.blocks"}
_LAST = {"kv_tokens": "kv.tokens", "max_concurrency": "kv.max_concurrency"}
_MOST = 1e12
_ID_LENGTH = 24
_TOLD_TO = 0.0051
"""A share is printed with two digits behind the point."""
_CONSUMED = ("for consumed memory (weights + non-torch)", "total consumed (from mem_get_info)")


class Where(NamedTuple):
    """`name`: of the log, for a person. `card`: any name of it."""

    model: Fingerprint
    card: str
    name: str
    time: float
    version: str | None = None
    """Where the log does not say it."""


def learn_from_log(
    records: Iterable[Record], launch: Launch, where: Where, predicted: Mapping[str, float] | None = None
) -> list[Start]:
    """A start for each attempt of the log to load this launch's model that printed something.

    Raises InputError where the log is of another launch: nothing is learnt from what does not belong together.
    """
    made: list[Start] = []
    for attempt in _of_launch(attempts(records), launch, where.name):
        printed = _printed(attempt, where.name)
        version = attempt.version or where.version
        if not printed or version is None:
            continue
        _check_same(attempt, launch, where.name)
        if where.version is not None and not is_same_release(version, where.version):
            raise InputError(f"the log is of vLLM {version}, not of {where.version}", file=where.name)
        start = Start(
            id=_id_of(attempt),
            time=where.time,
            model=where.model,
            version=version[:60],
            card=card_key(where.card),
            args=launch_args(launch),
            printed=printed,
            predicted=dict(predicted or {}),
        )
        made.append(start)
    return made


def _of_launch(found: Sequence[Attempt], launch: Launch, name: str) -> list[Attempt]:
    """By the model's name; one that a log does not name is taken where there is only one."""
    served = launch.arg("served-model-name")
    names = {launch.model, launch.name, *(served if isinstance(served, tuple) else (served,))}
    ends = {_last_part(launch.model)}
    mine = [one for one in found if one.model in names or (one.model is not None and _last_part(one.model) in ends)]
    if mine or not found:
        return mine
    if len(found) == 1 and found[0].model is None:
        return list(found)
    others = ", ".join(sorted({str(one.model) for one in found}))[:200]
    raise InputError(f"the log is of {others}, not of {quoted(launch.model, 200)}", file=name)


def _last_part(model: str) -> str:
    """A folder of the hub's cache is named after the commit: the model is two levels up."""
    parts = model.rstrip("/").split("/")
    snapshot = next((part for part in reversed(parts) if part.startswith("models--")), None)
    return snapshot.rpartition("--")[2] if snapshot else parts[-1]


def _printed(attempt: Attempt, name: str) -> dict[str, Printed]:
    found: dict[str, Printed] = {}
    for quantities, choose in ((_LARGEST, max), (_SMALLEST, min)):
        for quantity, fact in quantities.items():
            values = _values(attempt, fact, name)
            if values:
                found[quantity] = choose(values, key=lambda one: one.value)
    for quantity, fact in _LAST.items():
        values = _values(attempt, fact, name)
        if values:
            found[quantity] = values[-1]
    consumed = _values(attempt, "memory.consumed_gib", name, wordings=_CONSUMED)
    if "non_torch_gib" not in found and consumed and "weights_gib" in found:
        # newer summaries have weights and what is beside torch in one sum (v1/worker/gpu_worker.py, 0.29 on)
        most = max(consumed, key=lambda one: one.value)
        found["non_torch_gib"] = Printed(round(most.value - found["weights_gib"].value, 4), most.at)
    return found


def _values(attempt: Attempt, fact: str, name: str, wordings: tuple[str, ...] = ("",)) -> list[Printed]:
    return [
        Printed(float(value), f"{name}:{record.first_line}")
        for record in attempt.records
        if isinstance(value := record.facts.get(fact), (int, float))
        and not isinstance(value, bool)
        and abs(value) < _MOST
        and any(wording in record.message for wording in wordings)
    ]


def _check_same(attempt: Attempt, launch: Launch, name: str) -> None:
    """What both say must agree, or the numbers belong to other arguments."""
    for fact, argument, default in (
        ("engine.tensor_parallel_size", "tensor-parallel-size", 1),
        ("engine.max_model_len", "max-model-len", None),
        ("memory.utilization", "gpu-memory-utilization", None),
    ):
        told, wanted = attempt.facts.get(fact), launch.arg(argument)
        wanted = default if wanted is None else wanted
        if isinstance(told, (int, float)) and _is_number(wanted) and not _agrees(told, wanted):
            raise InputError(
                f"the log is of another start: {argument} {told:g} there, {wanted} in {launch.name}", file=name
            )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _agrees(told: Value, wanted: object) -> bool:
    return abs(float(told) - float(str(wanted))) < _TOLD_TO


def _id_of(attempt: Attempt) -> str:
    """By its first lines, which stay while the log grows: two starts differ in their times or process numbers."""
    first = attempt.records[0]
    loaded = next((record for record in attempt.records if "weights.gib" in record.facts), first)
    parts = [f"{one.stamp or one.time}|{one.pid}|{one.message}" for one in (first, loaded)]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:_ID_LENGTH]
