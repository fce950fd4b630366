"""The causes of a load that has ended: those of `vllm-console diagnose load-N.log --deployment FILE`.

The state machine holds no log. It asks for a diagnosis by an effect, with the facts that it has measured; the
driver has the load's own log, reads it here in a thread, and feeds the result back. So live sessions and the command
have one matching, one ranking and one way to compute facts; what a session measured beside can only be more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.logs.telling import telling_records
from playbooks.diagnosis import Given, diagnose
from playbooks.effects import Diagnosed
from playbooks.evidence import Evidence
from playbooks.progress import load_log

if TYPE_CHECKING:
    from playbooks.context import Context
    from playbooks.effects import Diagnose


def diagnose_load(effect: Diagnose, file: int, context: Context) -> Diagnosed:
    """`file`: a descriptor of the load's log, which is closed. Raises OSError."""
    evidence = Evidence(effect.launch, effect.deployment, measured=effect.facts, file_sources=effect.file_sources)
    given = Given(load_log(effect.load_number), evidence)
    return Diagnosed(effect.launch.name, diagnose(telling_records(file), context.library, context.wrappers, given))
