"""Sends a script to an engine's Python and reads its one answer. It ends with its time, or when it is stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from engine_probe.engine_ask import ask
from engine_probe.examine.scripts.side import MARK
from engine_probe.facts import Known, Unknown
from engine_probe.quoting import quoted
from engine_probe.redact import mask

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from engine_probe.engine import Engine
    from engine_probe.facts import Fact
    from engine_probe.launch import Launch

_SIDE = "engine_probe.examine.scripts.side"
_LONGEST_TEXT = 600
STOPPED = "it was stopped"


@dataclass(frozen=True)
class Examination:
    """What was found. `why_not`: it could not be done, or not to its end, and this is the reason."""

    facts: Mapping[str, Fact] = field(default_factory=dict)
    why_not: str | None = None


def run_script(
    engine: Engine, name: str, given: Mapping[str, Any], limit_s: float, stop: threading.Event | None = None
) -> Examination:
    """Run `scripts/NAME.py` on the engine's side. Nothing that goes wrong there is raised: it is the reason."""
    content = json.dumps({**given, "limit_s": limit_s}).encode()
    try:
        answer = ask(engine, _program(name), limit_s, content, stop)
    except OSError as error:
        return Examination(why_not=f"{engine.label} cannot be started: {error.strerror or error}")
    said = next((line for line in reversed(answer.out.splitlines()) if line.startswith(MARK)), None)
    if said is not None:
        return _examination(said.removeprefix(MARK), name)
    if stop is not None and stop.is_set():
        return Examination(why_not=STOPPED)
    if answer.timed_out:
        return Examination(why_not=f"it was not over after {limit_s:.0f} s")
    last = next((line.strip() for line in reversed(answer.err.splitlines()) if line.strip()), "it printed nothing")
    return Examination(why_not=f"{engine.label} did not answer: {quoted(mask(last), 300)}")


def launch_given(launch: Launch, model: str) -> dict[str, Any]:
    """What scripts want of a launch; `model` is its folder as the engine's side names it."""
    ranks = _count(launch, "tensor-parallel-size") * _count(launch, "pipeline-parallel-size")
    return {
        "model": model,
        "env": dict(launch.env),
        "gpus": list(launch.gpus) if launch.gpus is not None else None,
        "ranks": ranks,
        "nodes": _count(launch, "nnodes"),
        "host": launch.arg("host") or "",
        "port": _count(launch, "port", 8000),
        "overrides": _overrides(launch.arg("hf-overrides")),
    }


def _count(launch: Launch, name: str, unset: int = 1) -> int:
    value = str(launch.arg(name) or "")
    return int(value) if value.isdecimal() else unset


def _overrides(value: object) -> dict[str, Any]:
    """What --hf-overrides sets; nothing where it is no JSON object."""
    try:
        content = json.loads(str(value)) if value is not None else {}
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _program(name: str) -> str:
    """The script, and before it the module that it imports: there is nothing of ours on the engine's side."""
    scripts = files("engine_probe.examine.scripts")
    side, script = (scripts.joinpath(f"{one}.py").read_text(encoding="utf-8") for one in ("side", name))
    return (
        f"import sys, types\nside = types.ModuleType({_SIDE!r})\nexec({side!r}, side.__dict__)\n"
        f"sys.modules[{_SIDE!r}] = side\nexec(compile({script!r}, '{name}.py', 'exec'))\n"
    )


def _examination(text: str, name: str) -> Examination:
    """Whatever runs on the other side, only plain values are taken from it."""
    try:
        content = json.loads(text)
        origin = _plain(content["origin"]) or f"the test {name}"
        facts: dict[str, Fact] = {
            str(key): Known(_plain(value) if isinstance(value, str) else value, "measured", origin)
            for key, value in content["facts"].items()
            if isinstance(value, (bool, int, float, str))
        }
        facts |= {str(key): Unknown(_plain(reason)) for key, reason in content["unknown"].items()}
        why_not = content["why_not"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return Examination(why_not=f"the test {name} gave an answer that is none")
    return Examination(facts, None if why_not is None else _plain(why_not))


def _plain(text: object) -> str:
    return mask(" ".join(str(text).split()))[:_LONGEST_TEXT]
