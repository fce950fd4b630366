"""All evidence beside the log, as facts of one launch: its files, its neighbours, the GPUs and the host."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from engine_probe.outside.pip_words import plain_name
from playbooks.facts_of_evidence import ANY_VERSION, FROM_HOST_STATE, NEIGHBOURS, UNMET, WANTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine_probe.engine_packages import Packages
    from engine_probe.facts import Fact
    from engine_probe.launch import Deployment, Launch
    from playbooks.evidence_host import HostState

_IN_CACHE = re.compile(r"models--(?:[^/]*?--)?([^/]+)(?:/snapshots/|/?$)")


@dataclass(frozen=True)
class Evidence:
    """What was given with the log; None: it was not."""

    launch: Launch | None = None
    deployment: Deployment | None = None
    model_dir: Path | None = None
    host_state: HostState | None = None
    packages: Packages | None = None
    measured: Mapping[str, Fact] = field(default_factory=dict)
    """What whoever asks has found out already; it comes before what is found here, and a reason before another."""
    file_sources: tuple[str, ...] = ()
    """Where whole files of the model may be."""

    def launch_of(self, model: str | None) -> Launch | None:
        """The launch whose log tells of `model`: of what was given the only one that is not of another model."""
        launches = self._launches
        if len(launches) == 1:
            return launches[0] if model is None or _is_of(launches[0], model) else None
        fitting = [one for one in launches if model is not None and _is_of(one, model)]
        return fitting[0] if len(fitting) == 1 else None

    @property
    def _launches(self) -> tuple[Launch, ...]:
        if self.launch is not None:
            return (self.launch,)
        return self.deployment.models if self.deployment is not None else ()

    def facts(self, launch: Launch | None, version: str | None) -> dict[str, Fact]:
        """Everything that is known of `launch` beside its log; unknown facts say why."""
        base = self.deployment.path.parent if self.deployment is not None and self.deployment.path else Path()
        found = self._host_facts(launch) | self._neighbour_facts(launch, version) | package_facts(self.packages)
        if launch is not None:
            from playbooks.evidence_files import file_facts  # noqa: PLC0415 - only a launch has files to look at

            found |= file_facts(launch, base, self.model_dir, self.file_sources)
        return found | {
            name: fact
            for name, fact in self.measured.items()
            if isinstance(fact, Known) or not isinstance(found.get(name), Known)
        }

    def _host_facts(self, launch: Launch | None) -> dict[str, Fact]:
        if self.host_state is None:
            return dict.fromkeys(FROM_HOST_STATE, Unknown("no state of the host was given"))
        from playbooks.evidence_host import host_facts  # noqa: PLC0415 - a log by itself has no host

        return host_facts(self.host_state, launch)

    def _neighbour_facts(self, launch: Launch | None, version: str | None) -> dict[str, Fact]:
        if launch is None or self.deployment is None:
            reason = Unknown("no deployment was given" if self.deployment is None else "no launch was given")
            return {row[0]: reason for row in NEIGHBOURS}
        from playbooks.neighbours import neighbour_facts  # noqa: PLC0415 - nor neighbours

        gpus = self.host_state.gpu_indices if self.host_state is not None else ()
        return neighbour_facts(launch, self.deployment, version, gpus)

    def notes(self, launch: Launch | None, model: str | None, version: str | None) -> tuple[str, ...]:
        """What does not fit: flags that this vLLM lacks, another model than the log's, packages that vLLM refuses."""
        found = [one.text for one in (self.packages.unmet or ())] if self.packages is not None else []
        found += self.host_state.notes if self.host_state is not None else ()
        found += self._of_another_model(model)
        launch = launch or self.launch  # a misspelled flag is one, whoever's launch it is
        if launch is None:
            return tuple(found)
        from engine_probe.flags import check_flags  # noqa: PLC0415 - only a launch has flags

        problems = check_flags(launch, version)
        found += [f"launch {launch.name}: {one.text}" + _nearest(one.nearest) for one in problems]
        return tuple(found)

    def _of_another_model(self, model: str | None) -> Iterator[str]:
        launches = self._launches
        if launches and model is not None and not any(_is_of(one, model) for one in launches):
            given = ", ".join(dict.fromkeys(one.model for one in launches))
            what = "the launch" if len(launches) == 1 else "the deployment"
            yield f"the log tells of the model {model}, {what} of {given}: {what} is not used"


def package_facts(packages: Packages | None) -> dict[str, Fact]:
    """`packages.NAME` of each package there is, and what vLLM's own requirements say of them."""
    origin = "the engine's packages"
    names = [row[0] for row in UNMET if row[0].startswith("packages_unmet.")]
    if packages is None:
        return dict.fromkeys(names, Unknown("no engine was given"))
    facts: dict[str, Fact] = {
        f"packages.{name}": Known(version, "measured", origin) for name, version in packages.versions.items()
    }
    if packages.unmet is None:
        return {**facts, **dict.fromkeys(names, Unknown("vLLM's requirements could not be read there"))}
    facts |= dict.fromkeys(names, Unknown("all that vLLM asks for is there"))
    facts["packages_unmet.count"] = Known(len(packages.unmet), "measured", origin)
    facts["packages_unmet.first"] = Known("none", "measured", origin)
    for number, one in enumerate(packages.unmet):
        wanted = Known(one.wanted or ANY_VERSION, "declared", "vLLM's own requirements")
        facts[f"{WANTED}{plain_name(one.name)}"] = wanted
        if not number:
            facts["packages_unmet.first"] = Known(one.text, "measured", origin)
            facts["packages_unmet.name"] = Known(one.name, "declared", "vLLM's own requirements")
            facts["packages_unmet.wanted"] = wanted
    return facts


def _nearest(word: str | None) -> str:
    return f"; did you mean {word}?" if word else ""


def _is_of(launch: Launch, model: str) -> bool:
    """By a name that both go by; one of a local folder may be that of the hub."""
    served = launch.arg("served-model-name")
    names = {launch.name, launch.model, *(served if isinstance(served, tuple) else (str(served or ""),))}
    return _short(model) in {_short(name) for name in names if name}


def _short(model: str) -> str:
    """`chat-70b` of `acme/chat-70b`, of a folder, and of the hub's cache."""
    cached = _IN_CACHE.search(model)
    return (cached[1] if cached else model.rstrip("/").rpartition("/")[2]).lower()
