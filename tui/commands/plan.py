"""`vllm-console plan`: whether a deployment's models fit on the GPUs together, before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from engine_probe.errors import InputError
from tui.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.hardware.host import HostState
    from engine_probe.launch import Deployment
    from engine_probe.memory.cards import Card
    from engine_probe.memory.model import ModelShape
    from playbooks.placement import Plan

FITS, DOES_NOT_FIT = 0, 1


@click.command()
@click.option(
    "--gpus", metavar="GPUS", help="Hardware that is not here: 8xA100-80GB, 2xH100-80GB,1xL4-24GB or cpu-64GB."
)
@click.option("--vllm", "version", metavar="VERSION", help="The release whose accounting counts, such as 0.19.0.")
@click.option("--json", "as_json", is_flag=True, help="One object.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII only.")
@click.argument("deployment_file", metavar="DEPLOYMENT")
def plan(gpus: str | None, version: str | None, as_json: bool, ascii_only: bool, deployment_file: str) -> int:
    """Say whether a deployment's models fit on the GPUs together, and what fails first.

    \b
    vllm-console plan deployment.yaml
    vllm-console plan deployment.yaml --gpus 8xA100-80GB --vllm 0.19.0

    Nothing is loaded: models are read from their folders, GPUs from the driver or from --gpus. Exit code: 0 all fit,
    1 one does not, 2 bad input.
    """
    from engine_probe.deployment import read_deployment

    deployment = read_deployment(Path(deployment_file))
    told = _told_version(version) if version is not None else _found_version(deployment, for_here=gpus is None)
    made = _plan(deployment, gpus, told)
    output = Output(as_json, masks=True)
    if as_json:
        from playbooks.plan_json import as_object

        output.result(as_object(made))
    else:
        from tui.commands.plan_text import print_plan

        print_plan(output, made, ascii_only=ascii_only)
    return FITS if made.fits else DOES_NOT_FIT


class _Version(NamedTuple):
    """`text` None: not known, and `note` says why. `is_cpu`: the engine plans host memory."""

    text: str | None
    is_cpu: bool = False
    note: str | None = None


def _told_version(version: str) -> _Version:
    from engine_probe.flags import parse_version

    if parse_version(version) is None:
        raise InputError(f"--vllm {version[:40]}: a release is wanted, such as 0.19.0")
    return _Version(version, is_cpu="+cpu" in version)


def _found_version(deployment: Deployment, *, for_here: bool) -> _Version:
    """That of the deployment's engine, where it can be told without starting it."""
    from engine_probe.engine import EngineError
    from engine_probe.engine_version import engine_version
    from engine_probe.engines import engine_for

    try:
        engine = engine_for(None, deployment)
    except (EngineError, InputError):
        return _Version(None, note="no vLLM was found here; its release decides the accounting: --vllm 0.19.0 names it")
    found = engine_version(engine)
    if found is None:
        return _Version(
            None, note=f"the release of {engine.label} is not known without starting it: --vllm 0.19.0 names it"
        )
    if found.is_cpu and not for_here:
        return _Version(
            None, note=f"{engine.label} is a build for CPUs; --vllm 0.19.0 names the release of the GPUs' host"
        )
    return _Version(found.version, found.is_cpu)


def _plan(deployment: Deployment, gpus: str | None, version: _Version) -> Plan:
    from dataclasses import replace

    from playbooks.placement import plan_of

    shapes = _shapes(deployment)
    cards, host = _hardware(gpus, is_cpu=version.is_cpu)
    made = plan_of(deployment, shapes, cards, version.text, host)
    return replace(made, notes=(version.note, *made.notes)) if version.note else made


def _shapes(deployment: Deployment) -> dict[str, ModelShape]:
    """A folder that several launches name is read once. Raises InputError that names the launch."""
    from engine_probe.memory.model_folder import model_folder
    from engine_probe.memory.read_model import read_model

    read: dict[Path, ModelShape] = {}
    shapes: dict[str, ModelShape] = {}
    for launch in deployment.models:
        folder = model_folder(launch)
        if folder not in read:
            read[folder] = read_model(folder)
        shapes[launch.name] = read[folder]
    return shapes


def _hardware(gpus: str | None, *, is_cpu: bool) -> tuple[Sequence[Card], HostState | None]:
    from engine_probe.memory.cards import host_card, live_cards, parse_gpus

    if gpus is not None:
        return parse_gpus(gpus), None
    from engine_probe.hardware.host import read_host

    host = read_host()
    if is_cpu:
        return (host_card(host),), host
    from engine_probe.hardware.gpus import read_gpus

    return live_cards(read_gpus()), host
