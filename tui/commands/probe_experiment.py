"""`vllm-console probe --experiment NAME`: one named experiment on a deployment, and the facts that it leaves."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine_probe.deployment import change
from engine_probe.errors import InputError, nearest_word
from engine_probe.facts import Known, Unknown
from playbooks import experiments
from playbooks.effects import Examine
from playbooks.examining import examine
from playbooks.facts import info_of, lookup_for
from playbooks.filling import fill, needed
from playbooks.patterns import to_value
from playbooks.start import facts_before
from playbooks.wording import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.engine import Engine
    from engine_probe.facts import Fact
    from engine_probe.launch import Deployment
    from playbooks.experiments import NamedExperiment
    from tui.commands.probe import Wish
    from tui.output import Output


def run_experiment(
    name: str, setting: str | None, engine: Engine, deployment: Deployment, wish: Wish, output: Output
) -> int:
    """On each model of the deployment. 0: it left its facts and, of a load, the model served; else 1."""
    if name not in experiments.names():
        names = experiments.names()
        raise InputError(
            f"--experiment {name}: there is no such experiment", allowed=names, nearest=nearest_word(name, names)
        )
    named = experiments.named(name)
    if named.kind == "load":
        return _load(named, setting, engine, deployment, wish, output)
    if setting is not None:
        raise InputError(f"--set: {name} loads nothing, so there is nothing to change")
    told = [_examine(named, engine, deployment, launch.name, output) for launch in deployment.models]
    return 0 if all(told) else 1


def _examine(named: NamedExperiment, engine: Engine, deployment: Deployment, model: str, output: Output) -> bool:
    launch = next(one for one in deployment.models if one.name == model)
    done = examine(Examine(named.name, launch, deployment, {}), engine, threading.Event())
    facts = {name: fact for name, fact in done.facts.items() if name in named.facts}
    _tell(named, model, facts, done.why_not, output)
    return done.why_not is None


def _load(
    named: NamedExperiment, setting: str | None, engine: Engine, deployment: Deployment, wish: Wish, output: Output
) -> int:
    from engine_probe.examine.gpu_growth import GpuGrowth
    from tui.commands.probe import run_probe

    changed = _changed(named, setting, engine, deployment)
    growth = GpuGrowth(deployment.models[0].gpus) if named.watches_gpus and engine.is_local else None
    if growth is not None:
        growth.start()
    code = asyncio.run(
        run_probe(engine, changed, replace(wish, grade="dry" if named.grade == "dry" else wish.grade), output)
    )
    origin = "the experiment's load"
    is_dry = named.grade == "dry"
    facts: dict[str, Fact] = {
        "engine.config_accepted" if is_dry else "load.is_serving": Known(code == 0, "measured", origin)
    }
    seen = growth.end() if growth is not None else None
    why_not = seen.why_not if seen is not None else "the engine runs elsewhere" if named.watches_gpus else None
    for launch in changed.models:
        _tell(named, launch.name, {**facts, **(seen.facts if seen is not None else {})}, why_not, output)
    return code or int(why_not is not None)


def _changed(named: NamedExperiment, setting: str | None, engine: Engine, deployment: Deployment) -> Deployment:
    """Each launch with the one change. Raises InputError where its value is not known."""
    key, _, value = (setting or named.change).partition("=")
    if not key:
        return deployment
    facts = facts_before(deployment, engine.is_local)
    for launch in deployment.models:
        lookup = lookup_for(launch, facts)
        for name in needed(value):
            if not isinstance(answer := lookup(name), Known):
                reason = answer.reason if isinstance(answer, Unknown) else "it is not set"
                raise InputError(
                    f"{info_of(name).label} is unknown, because {reason}: name a value with --set {key}=VALUE"
                )
        deployment = change(deployment, launch.name, key, to_value(fill(value, lookup)))
    return deployment


def _tell(named: NamedExperiment, model: str, facts: Mapping[str, Fact], why_not: str | None, output: Output) -> None:
    output.result(
        {
            "event": "experiment",
            "time": time.time(),
            "model": model,
            "experiment": named.name,
            "outcome": "inconclusive" if why_not is not None else "measured",
            "why_not": why_not,
            "facts": {name: _object(fact) for name, fact in facts.items()},
        }
    )
    output.text(f"{model}: {named.name}", "bold")
    output.folded(named.meaning)
    if why_not is not None:
        output.folded(f"inconclusive, because {why_not}")
    for name, fact in facts.items():
        info = info_of(name)
        value = quantity(fact.value, info.unit) if isinstance(fact, Known) else f"unknown, because {fact.reason}"
        output.folded(f"{info.label}: {value}")
    for origin in dict.fromkeys(fact.origin for fact in facts.values() if isinstance(fact, Known)):
        output.folded(f"measured: {origin}")


def _object(fact: Fact) -> dict[str, Any]:
    if isinstance(fact, Unknown):
        return {"value": None, "reason": fact.reason}
    return {"value": fact.value, "source": fact.source, "origin": fact.origin}
