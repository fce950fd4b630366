"""One change of a deployment, by the key that playbooks use, and what differs between two deployments."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

from engine_probe.errors import InputError, nearest_word
from engine_probe.redact import mask, names_a_secret
from engine_probe.yaml_edit import rendered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.launch import Deployment, EngineSpec, Launch

KEYS = ("args.NAME", "env.NAME", "gpus", "lora.NAME", "model", "deployment.order", "deployment.start")
STARTS = ("sequential", "parallel")
UNSET = "unset"
"""The word that takes an argument, a variable, an adapter or GPUs away, where only text can be written."""
Change = bool | int | float | str | tuple[str, ...] | tuple[int, ...] | None


@dataclass(frozen=True)
class Target:
    """What a key speaks of: `kind` is args, env, lora, gpus, model, order or start; `name` what follows the dot."""

    kind: str
    name: str = ""
    launch: str | None = None


def target_of(deployment: Deployment, launch: str | None, key: str) -> Target:
    """Reads a key such as `args.max-model-len` or `deployment.launches.NAME.env.X`. Errors: InputError."""
    prefix = "deployment.launches."
    if key.startswith(prefix):
        name = next((m.name for m in deployment.models if key.startswith(f"{prefix}{m.name}.")), None)
        if name is not None:
            launch, key = name, key[len(prefix) + len(name) + 1 :]
    if key == "deployment.order":
        return Target("order")
    if key == "deployment.start":
        return Target("start")
    kind, dot, name = key.partition(".")
    if (kind not in ("args", "env", "lora") or not name) and (kind not in ("gpus", "model") or dot):
        raise InputError(f'"{key}" cannot be changed in a deployment', allowed=KEYS, nearest=nearest_word(key, KEYS))
    names = tuple(model.name for model in deployment.models)
    if launch is None and len(names) == 1:
        launch = names[0]
    if launch not in names:
        nearest = nearest_word(launch or "", names)
        raise InputError(f'the deployment has no launch "{launch or ""}"', allowed=names, nearest=nearest)
    return Target(kind, name, launch)


def change(deployment: Deployment, launch_name: str | None, key: str, value: Change) -> Deployment:
    """The deployment with one thing changed; None, or `unset`, takes it away. Errors: InputError."""
    target = target_of(deployment, launch_name, key)
    if target.kind == "start":
        return replace(deployment, start=new_start(value))
    if target.kind == "order":
        by_name = {model.name: model for model in deployment.models}
        return replace(deployment, models=tuple(by_name[name] for name in new_order(deployment, value)))
    value = without_word(value)
    models = tuple(_changed(m, target, value) if m.name == target.launch else m for m in deployment.models)
    return replace(deployment, models=models)


def _changed(launch: Launch, target: Target, value: Change) -> Launch:
    if target.kind == "gpus":
        return launch.with_gpus(gpus_of(value))
    if target.kind == "model":
        return replace(launch, model=model_of(value))
    if target.kind == "args":
        return launch.without_arg(target.name) if value is None else launch.with_arg(target.name, value)  # type: ignore[arg-type]
    text = None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return launch.with_env(target.name, text) if target.kind == "env" else launch.with_lora(target.name, text)


def without_word(value: Change) -> Change:
    """None for the word `unset`."""
    return None if value == UNSET else value


def new_start(value: Change) -> Literal["sequential", "parallel"]:
    """Errors: InputError."""
    if value == "sequential":
        return "sequential"
    if value == "parallel":
        return "parallel"
    raise InputError(
        f"models start one of two ways, not {rendered(value)}", allowed=STARTS, nearest=nearest_word(str(value), STARTS)
    )


def gpus_of(value: Change) -> tuple[int, ...] | None:
    """GPU indices of `4`, `"0,1"`, `"[0, 1]"` or a list. Errors: InputError."""
    if value is None:
        return None
    words = [str(item) for item in value] if isinstance(value, (tuple, list)) else re.split(r"[,\s]+", _bare(value))
    gpus = tuple(int(word) for word in words if re.fullmatch(r"\d{1,4}", word))
    if len(gpus) != len(words) or len(set(gpus)) != len(gpus):
        raise InputError(f"gpus are different whole numbers such as [0, 1], not {rendered(value)}")
    return gpus


def model_of(value: Change) -> str:
    """A folder or a hub id. Errors: InputError."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"a model is a folder or a hub id, not {rendered(value)}")
    return value


def new_order(deployment: Deployment, value: Change) -> tuple[str, ...]:
    """The launches' names in their new order, from a list or `a, b`. Errors: InputError."""
    names = tuple(model.name for model in deployment.models)
    words = [str(v) for v in value] if isinstance(value, (tuple, list)) else re.split(r"\s*,\s*", _bare(value))
    if sorted(words) != sorted(names):
        raise InputError(f"an order names every launch once, not {rendered(words)}", allowed=names)
    return tuple(words)


def _bare(value: Change) -> str:
    return str(value).strip().removeprefix("[").removesuffix("]").strip()


def diff(a: Deployment, b: Deployment) -> tuple[str, ...]:
    """Lines that differ, `-` before `+`, under the launch's name where there are several. Secrets are masked."""
    lines = list(_differences(_head(a, b), _head(b, a)))
    before, after = {m.name: m for m in a.models}, {m.name: m for m in b.models}
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after or name not in before:
            lines.append(f"{'-' if name in before else '+'}  launch: {rendered(name)}")
            continue
        found = diff_launch(before[name], after[name])
        if found and len(before) + len(after) > 2:
            lines.append(f"   {name}:")
        lines += found
    return tuple(lines)


def diff_launch(a: Launch, b: Launch) -> tuple[str, ...]:
    """As `diff`, for one launch: keys are those of `change`."""
    return tuple(_differences(_shown(a), _shown(b)))


def _differences(a: Mapping[str, str], b: Mapping[str, str]) -> Iterable[str]:
    for key in [*a, *(key for key in b if key not in a)]:
        if a.get(key) != b.get(key):
            if key in a:
                yield f"-  {key}: {_masked(key, a[key])}"
            if key in b:
                yield f"+  {key}: {_masked(key, b[key])}"


def _head(deployment: Deployment, other: Deployment) -> dict[str, str]:
    head = {"engine": engine_line(deployment.engine)} if deployment.engine else {}
    names, others = ([model.name for model in one.models] for one in (deployment, other))
    common = [name for name in names if name in others]
    return {**head, "start": deployment.start, "deployment.order": rendered(common)}


def engine_line(engine: EngineSpec) -> str:
    """The engine as a mapping on one line, defaults left out."""
    said = {f.name: getattr(engine, f.name) for f in fields(engine)}
    shown = [f"{k}: {rendered(v)}" for k, v in said.items() if v is not None and (k, v) != ("run", "docker")]
    return "{" + ", ".join(shown) + "}"


def _shown(launch: Launch) -> dict[str, str]:
    lines = {"model": rendered(launch.model)}
    if launch.engine is not None:
        lines["engine"] = engine_line(launch.engine)
    if launch.gpus is not None:
        lines["gpus"] = rendered(launch.gpus)
    for kind, values in (("args", launch.args), ("env", launch.env), ("lora", launch.lora)):
        lines.update({f"{kind}.{name}": rendered(value) for name, value in values.items()})
    return lines


def _masked(key: str, shown: str) -> str:
    name = key.partition(".")[2]
    return "***" if name in ("api-key", "hf-token") or names_a_secret(name) else mask(shown)
