"""What if: one value of one model a step up or down, other GPUs, another order. Deployments in, deployments out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.memory.cards import CPU
from engine_probe.quoting import quoted
from tui.plan_values import gpus_of, length_of, placed, sequences_of, utilization_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine_probe.changes import Change
    from engine_probe.launch import Deployment, Launch
    from playbooks.placement import PlacedModel, Plan
    from tui.plan_values import Field

_SHORTEST, _LONGEST, _MOST_CPU_RANKS = 128, 1 << 24, 8


class CannotStepError(Exception):
    """A value is at its end already; the text says at which."""


class Changed(NamedTuple):
    """One difference, by the key that revisions use. `launch` None: of the whole deployment."""

    launch: str | None
    key: str
    value: Change


def stepped(plan: Plan, name: str, field: Field, by: int) -> Deployment:
    """`plan`'s deployment with one value of one model a step up (1) or down (-1). Raises CannotStepError."""
    model = placed(plan, name)
    launch = model.launch
    if field == "utilization":
        launch = launch.with_arg("gpu-memory-utilization", _utilization(model, by))
    elif field == "length":
        launch = launch.with_arg("max-model-len", _next(_lengths(model), length_of(model), by, "tokens"))
    elif field == "sequences":
        stops = [1 << power for power in range(13)]
        launch = launch.with_arg("max-num-seqs", _next(stops, sequences_of(model) or 256, by, "requests"))
    elif field == "tp":
        launch = _with_tp(plan, model, by)
    else:
        launch = launch.with_gpus(_shifted(plan, model, by))
    return _with_launch(plan.deployment, launch)


def _with_launch(deployment: Deployment, launch: Launch) -> Deployment:
    return replace(deployment, models=tuple(launch if one.name == launch.name else one for one in deployment.models))


# Steps


def _utilization(model: PlacedModel, by: int) -> float:
    now = round((utilization_of(model) or 0.9) * 100, 6)
    hundredths = int(now) + 1 if by > 0 else -int(-now // 1) - 1
    if not 1 <= hundredths <= 100:
        raise CannotStepError(f"utilisation is {now / 100:g}: between 0.01 and 1 is possible")
    return hundredths / 100


def _lengths(model: PlacedModel) -> list[int]:
    """Powers of two and those between, what the model was made for, and the longest that fits."""
    limit = model.asked.shape.max_position or _LONGEST
    most = _LONGEST if model.asked.values.allows_long else limit
    powers = [_SHORTEST << power for power in range(18)]
    room = getattr(model.worst, "room", None)
    own = (limit, getattr(room, "longest", None) or limit)
    return sorted({stop for stop in (*powers, *(power * 3 // 2 for power in powers), *own) if stop <= most})


def _next(stops: Sequence[int], now: int, by: int, unit: str) -> int:
    left = [stop for stop in stops if (stop > now if by > 0 else stop < now)]
    if not left:
        raise CannotStepError(f"{now:,} {unit} is the {'most' if by > 0 else 'least'} that is tried here")
    return min(left) if by > 0 else max(left)


def _with_tp(plan: Plan, model: PlacedModel, by: int) -> Launch:
    """Doubled or halved; GPUs that are named come and go with it."""
    parallel = model.asked.values.parallel
    on_cpu = any(card.family == CPU for card in plan.cards)
    most = _MOST_CPU_RANKS if on_cpu else len(plan.cards)
    size = parallel.tp * 2 if by > 0 else parallel.tp // 2
    world = size * parallel.pp * parallel.dp
    if not size or world > most:
        there = f"{most} ranks are tried at most" if on_cpu else f"there are {most} GPUs"
        raise CannotStepError(f"tensor-parallel-size is {parallel.tp}, and {there}" if size else "it is 1 already")
    launch = model.launch.with_arg("tensor-parallel-size", size)
    if launch.gpus is None:
        return launch
    return launch.with_gpus(_as_many(launch.gpus, world, [card.index for card in plan.cards]))


def _as_many(gpus: Sequence[int], count: int, there: Sequence[int]) -> tuple[int, ...]:
    """The first of them, or with those that follow the last one, then those before."""
    last = max(gpus)
    others = sorted((gpu for gpu in there if gpu not in gpus), key=lambda gpu: (gpu < last, gpu))
    return tuple(sorted([*gpus, *others][:count])) if count > len(gpus) else tuple(gpus[:count])


def _shifted(plan: Plan, model: PlacedModel, by: int) -> tuple[int, ...]:
    """All of them one GPU on or back."""
    there = [card.index for card in plan.cards]
    now = gpus_of(model)
    if not now:
        raise CannotStepError("it has no GPUs that could be moved")
    moved = tuple(gpu + by for gpu in now)
    if not set(moved) <= set(there):
        raise CannotStepError(f"there is no GPU {'behind' if by > 0 else 'before'} those that it has")
    return moved


def with_gpus(deployment: Deployment, name: str, gpus: Iterable[int] | None) -> Deployment:
    launch = deployment.launch(name)
    assert launch is not None
    return _with_launch(deployment, launch.with_gpus(gpus))


def moved(deployment: Deployment, name: str, by: int) -> Deployment:
    """The model starts one place later (1) or earlier (-1). Raises CannotStepError."""
    models = list(deployment.models)
    at = next(place for place, model in enumerate(models) if model.name == name)
    if not 0 <= at + by < len(models):
        raise CannotStepError(f"{name} starts {'last' if by > 0 else 'first'} already")
    models.insert(at + by, models.pop(at))
    return replace(deployment, models=tuple(models))


# Differences


def changes_between(before: Deployment, after: Deployment) -> tuple[Changed, ...]:
    """What turns one into the other, model by model, the order last. Both have the same launches and engines."""
    changes: list[Changed] = []
    for old in before.models:
        new = after.launch(old.name)
        if new is not None:
            changes += _changes_of(old, new)
    if before.start != after.start:
        changes.append(Changed(None, "deployment.start", after.start))
    names = tuple(model.name for model in after.models)
    if names != tuple(model.name for model in before.models):
        changes.append(Changed(None, "deployment.order", names))
    return tuple(changes)


def _changes_of(old: Launch, new: Launch) -> list[Changed]:
    changes = [Changed(new.name, "gpus", new.gpus)] if new.gpus != old.gpus else []
    for kind in ("args", "env", "lora"):
        was, now = getattr(old, kind), getattr(new, kind)
        names = [*now, *(name for name in was if name not in now)]
        changes += [
            Changed(new.name, f"{kind}.{name}", now.get(name)) for name in names if was.get(name) != now.get(name)
        ]
    return changes


def gpus_in(text: str, there: Sequence[int]) -> tuple[int, ...]:
    """GPUs of words like `0-3, 6`. Raises CannotStepError that says what is wanted."""
    found: list[int] = []
    for word in text.replace(",", " ").replace("–", "-").split():
        first, dash, last = word.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(word) > 12:
            raise CannotStepError(f"{quoted(word, 20)} is no GPU: write numbers such as 0-3 or 0,2")
        found += range(int(first), min(int(last or first), int(first) + 4096) + 1)
    missing = [gpu for gpu in found if gpu not in there]
    if missing:
        raise CannotStepError(f"there is no GPU {missing[0]}: they are {min(there)} to {max(there)}")
    if not found or len(set(found)) != len(found):
        raise CannotStepError("each GPU once, and at least one" if found else "write at least one GPU, such as 0-3")
    return tuple(found)
