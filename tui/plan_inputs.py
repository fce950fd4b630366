"""What a memory plan is made of: the deployment, its models' shapes, the GPUs and the release. Read once, from disk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.deployment_sources import read_source
from engine_probe.errors import InputError
from engine_probe.flags import is_release
from engine_probe.memory.accounting_values import values_of
from engine_probe.memory.cards import host_card, live_cards, parse_gpus, unlisted
from engine_probe.memory.learned_lookup import Lookup, learned_or_nothing
from engine_probe.memory.model_folder import model_folder
from engine_probe.memory.read_model import read_model
from engine_probe.numbers import shortened
from engine_probe.redact import mask
from playbooks.placement import plan_of
from playbooks.plan_proposal_room import Memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from engine_probe.hardware.host import HostState
    from engine_probe.launch import Deployment, Launch
    from engine_probe.memory.cards import Card
    from engine_probe.memory.model import ModelShape
    from playbooks.placement import LearnedOf, Plan


@dataclass(frozen=True)
class PlanInputs:
    """`host` is None where the hardware was described; `note` says why the release is not known."""

    deployment: Deployment
    shapes: Mapping[str, ModelShape]
    cards: tuple[Card, ...]
    version: str | None
    host: HostState | None = None
    note: str | None = None
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)
    """Workers that were counted before: a plan with one value changed counts only what it changes."""
    learned_of: LearnedOf | None = field(default=None, compare=False, repr=False)
    """What starts like those of the plan printed; None: nothing was learnt yet."""

    def plan(self, deployment: Deployment | None = None) -> Plan:
        """Of the file's deployment, or of one whose launches have the same names. Raises InputError for bad values."""
        wanted = deployment or self.deployment
        made = plan_of(wanted, self.shapes, self.cards, self.version, self.host, self.memory, self.learned_of)
        said = (*((self.note,) if self.note else ()), *wanted.notes)
        return replace(made, notes=(*said, *made.notes)) if said else made


def read_inputs(path: Path, gpus: str | None = None, version: str | None = None) -> PlanInputs:
    """Of a deployment, docker compose or shell file. `gpus` None: this host's; `version` None: the engine's, if it can
    be told. Raises InputError.
    """
    deployment = read_source(path)
    _check_values(deployment, path)
    return inputs_of(deployment, gpus, version)


def _check_values(deployment: Deployment, source: Path) -> None:
    """What no plan can count is an error where the file says it."""
    for launch in deployment.models:
        _check_launch(launch, deployment, source)


def _check_launch(launch: Launch, deployment: Deployment, source: Path) -> None:
    try:
        values_of(launch)
        model_folder(launch)
    except InputError as error:
        from engine_probe.deployment_places import placed  # noqa: PLC0415 -- only where something is wrong

        raise placed(error, deployment, launch, source) from None


def running_inputs(version: str | None = None) -> PlanInputs:
    """Of the servers that run on this host, in the order in which they started. Raises InputError where none does."""
    from engine_probe.deployment_sources.running import cards_beside, read_running  # noqa: PLC0415 -- /proc, NVML
    from engine_probe.hardware.watch import look_once  # noqa: PLC0415 -- as above

    running = read_running(look_once())
    releases = set(running.versions.values())
    told = version or (releases.pop() if len(releases) == 1 else None)
    found = inputs_of(running.deployment, None, told)
    return replace(found, cards=cards_beside(running, found.cards))


def inputs_of(deployment: Deployment, gpus: str | None = None, version: str | None = None) -> PlanInputs:
    """As `read_inputs`."""
    release = _told_version(version) if version is not None else _found_version(deployment, for_here=gpus is None)
    shapes = _shapes(deployment)
    cards, host = _hardware(gpus, is_cpu=release.is_cpu)
    learned, trouble = learned_or_nothing()
    on_cpu = _without_gpus(deployment, release) if gpus is None and release.is_cpu else None
    note = "; ".join(one for one in (release.note, on_cpu, *unlisted(cards), trouble) if one) or None
    learned_of = Lookup(learned, release.text) if learned.starts else None
    return PlanInputs(deployment, shapes, tuple(cards), release.text, host, note, learned_of=learned_of)


class _Version(NamedTuple):
    """`text` None: not known, and `note` says why. `is_cpu`: the engine plans host memory. `engine`: whose it is."""

    text: str | None
    is_cpu: bool = False
    note: str | None = None
    engine: str = "the release that --vllm names"


def _told_version(version: str) -> _Version:
    demand_release(version)
    return _Version(version, is_cpu="+cpu" in version)


def demand_release(version: str) -> None:
    """Raises InputError where --vllm names none."""
    if not is_release(version):
        raise InputError(f"--vllm {shortened(mask(version), 40)!r}: a release is wanted, such as 0.19.0")


def _found_version(deployment: Deployment, *, for_here: bool) -> _Version:
    """That of the deployment's engine, where it can be told without starting it."""
    from engine_probe.engine import EngineError  # noqa: PLC0415 -- not needed where all is described
    from engine_probe.engine_version import engine_version  # noqa: PLC0415 -- not needed where all is described
    from engine_probe.engines import engine_for  # noqa: PLC0415 -- not needed where all is described

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
    return _Version(found.version, found.is_cpu, engine=engine.label)


def _shapes(deployment: Deployment) -> dict[str, ModelShape]:
    """A folder that several launches name is read once. Raises InputError that names the launch."""
    read: dict[Path, ModelShape] = {}
    shapes: dict[str, ModelShape] = {}
    for launch in deployment.models:
        folder = model_folder(launch)
        if folder not in read:
            read[folder] = read_model(folder)
        shapes[launch.name] = read[folder]
    return shapes


def _hardware(gpus: str | None, *, is_cpu: bool) -> tuple[Sequence[Card], HostState | None]:
    if gpus is not None:
        return parse_gpus(gpus), None
    from engine_probe.hardware.host import read_host  # noqa: PLC0415 -- not needed where all is described

    host = read_host()
    if is_cpu:
        return (host_card(host),), host
    from engine_probe.hardware.gpus import read_gpus  # noqa: PLC0415 -- not needed where all is described

    return live_cards(read_gpus()), host


def _without_gpus(deployment: Deployment, release: _Version) -> str | None:
    """What a plan of host memory leaves out, where somebody may have meant GPUs."""
    from engine_probe.hardware.gpus import read_gpus  # noqa: PLC0415 -- not needed where all is described

    unused = [f"the gpus of {one.name} ({list(one.gpus)})" for one in deployment.models if one.gpus is not None]
    visible = len(read_gpus().gpus)
    unused += [f"the {visible} GPU{'' if visible == 1 else 's'} of this host"] if visible else []
    if not unused:
        return None
    here = "--vllm 0.19.0 plans this host's GPUs, " if visible else ""
    return (
        f"planned in the host's memory, because {release.engine} is a build for CPUs; not used: {', '.join(unused)}. "
        f"{here}--gpus 8xA100-80GB --vllm 0.19.0 {'those of another host' if visible else 'plans GPUs'}"
    )
