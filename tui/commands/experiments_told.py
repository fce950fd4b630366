"""Tells what experiments came to while a session goes on: the verdict and its reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from playbooks.claims import Verdict

if TYPE_CHECKING:
    from playbooks.claims import Hypothesis
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
                    self._tell(one)

    def _tell(self, one: Hypothesis) -> None:
        self.output.text(f"   {one.verdict.value}: {one.claim}", _STYLES[one.verdict])
        for reason in one.because:
            self.output.folded(reason, indent="     ")
