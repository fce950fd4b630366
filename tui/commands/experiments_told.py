"""Tells what experiments came to while a session goes on: a line and its reasons, or one JSON object."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from playbooks.claims import Verdict

if TYPE_CHECKING:
    from playbooks.claims import Cause, Hypothesis
    from playbooks.session import Session
    from tui.output import Output

_STYLES = {Verdict.CONFIRMED: "green", Verdict.REFUTED: "red", Verdict.INCONCLUSIVE: "yellow"}


@dataclass
class ExperimentsTold:
    """`see` gets every session; a verdict that was not there when the hypothesis was first seen is told once."""

    output: Output
    _verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)

    def see(self, session: Session) -> None:
        for cause in session.causes:
            for one in cause.hypotheses:
                before = self._verdicts.setdefault((cause.id, one.id), one.verdict)
                if one.verdict in (before, Verdict.RUNNING):
                    continue
                self._verdicts[cause.id, one.id] = one.verdict
                if one.verdict is not Verdict.UNTESTED:
                    self._tell(session, cause, one)

    def _tell(self, session: Session, cause: Cause, one: Hypothesis) -> None:
        self.output.result(
            {
                "event": "experiment",
                "time": time.time(),
                "model": session.model,
                "cause": cause.id,
                "hypothesis": one.id,
                "experiment": one.run,
                "change": one.change or None,
                "verdict": one.verdict.value,
                "because": list(one.because),
            }
        )
        self.output.text(f"   {one.verdict.value}: {one.claim}", _STYLES[one.verdict])
        for reason in one.because:
            self.output.folded(reason, indent="     ")
