"""The causes of a load that has ended: those of `vllm-console diagnose load-N.log --deployment FILE`.

The state machine holds no log. It asks for a diagnosis by an effect, with the facts that it has measured; the
driver has the load's own log, reads it here in a thread, and feeds the result back. So live sessions and the command
have one matching, one ranking and one way to compute facts; what a session measured beside can only be more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.engine_packages import read_packages
from engine_probe.logs.telling import telling_records
from engine_probe.outside.keys import PACKAGES
from engine_probe.outside.model_folder import cached_snapshot
from playbooks.diagnosis import Given, diagnose
from playbooks.effects import Diagnosed
from playbooks.evidence import Evidence
from playbooks.progress import load_log

if TYPE_CHECKING:
    from engine_probe.engine import Engine
    from engine_probe.logs.records import Record
    from playbooks.context import Context
    from playbooks.diagnosis import Diagnosis, FoundCause
    from playbooks.effects import Diagnose

_MOST_LIKELY = 3


def diagnose_load(effect: Diagnose, file: int, context: Context, engine: Engine | None = None) -> Diagnosed:
    """`file`: a descriptor of the load's log, which is closed. Raises OSError.

    The packages of `engine` are read only where a likely cause is about them: that takes a moment.
    """
    is_here = engine is not None and engine.is_local
    path = effect.deployment.path
    base = path.parent if path is not None else Path()
    evidence = Evidence(
        effect.launch,
        effect.deployment,
        model_dir=cached_snapshot(effect.launch, os.environ, base) if is_here else None,
        measured=effect.facts,
        file_sources=effect.file_sources,
    )
    records = telling_records(file)
    found = _diagnosed(records, effect, evidence, context)
    if engine is not None and any(map(_is_about_packages, found.causes[:_MOST_LIKELY])):
        with suppress(OSError, ValueError):  # an engine that cannot be asked has told of it by its load already
            found = _diagnosed(records, effect, replace(evidence, packages=read_packages(engine)), context)
    return Diagnosed(effect.launch.name, found)


def _diagnosed(records: list[Record], effect: Diagnose, evidence: Evidence, context: Context) -> Diagnosis:
    return diagnose(records, context.library, context.wrappers, Given(load_log(effect.load_number), evidence))


def _is_about_packages(found: FoundCause) -> bool:
    """Its hypotheses ask for them, or one of its fixes changes one."""
    if found.playbook is None:
        return False
    spec = found.playbook.spec
    asked = [name for one in spec.hypotheses for name in one.experiment.ask]
    changed = [key for fix in spec.fixes if not fix.by_hand for key in fix.set]
    return any(name.startswith("packages") for name in asked) or any(key.startswith(PACKAGES) for key in changed)
