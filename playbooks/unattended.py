"""Decides without a person: begin, let experiments decide between fixes, apply these until one holds, finish."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from playbooks.decisions import ApplyFix, Begin, Decision, Finish, RunExperiment
from playbooks.diagnose import allowed
from playbooks.fixing import with_value
from playbooks.next_experiment import next_experiment
from playbooks.proposal import RISKS, Proposal, propose

if TYPE_CHECKING:
    from collections.abc import Callable

    from playbooks.session import FixOption, Session


@dataclass
class Unattended:
    """Begin, apply the fixes by priority until one holds, finish; before each fix, the experiments that decide it.

    `fix` names the only one to try, `playbook` the only cause to mend; `dry_run` stops before applying, and loads
    nothing more; `confirm` is asked before each fix. `thorough`: all that can be tested of a cause is. `value` is that
    of `fix`, None: the playbook's own. `most_risk`: that of a fix that nobody has named.
    """

    fix: str | None = None
    value: str | None = None
    most_risk: str = RISKS[-1]
    playbook: str | None = None
    dry_run: bool = False
    confirm: Callable[[FixOption], bool] = field(default=lambda _fix: True)
    thorough: bool = False

    def decide(self, session: Session) -> Decision | None:
        if session.progress.phase == "not begun":
            return Begin()
        if session.progress.phase != "deciding":
            return None
        if session.verdict is not None:
            return Finish()
        experiment = self.next_experiment(session)
        if experiment is not None:
            return experiment
        if self.dry_run:
            return Finish()
        fix = self.next_fix(session)
        return ApplyFix(fix.id, self.value) if fix is not None and self.confirm(fix) else Finish()

    def next_experiment(self, session: Session) -> RunExperiment | None:
        """What is tried before the next fix; nothing where only one fix is meant."""
        if self.fix is not None and not self.thorough:
            return None
        found = next_experiment(session, self.playbook, thorough=self.thorough, loads=not self.dry_run)
        return found if found is not None and allowed(session, found) else None

    def next_fix(self, session: Session) -> FixOption | None:
        """The fix that would be applied now."""
        fix = self.proposal(session).fix
        return fix if fix is not None and allowed(session, ApplyFix(fix.id)) else None

    def proposal(self, session: Session) -> Proposal:
        """The fix that comes next, or why there is none."""
        found = propose(session, self.playbook, self.fix, self.most_risk)
        if found.fix is None or self.value is None:
            return found
        option = with_value(found.fix, session, self.value)
        if option.unavailable is None:
            return Proposal(option)
        return Proposal(None, (f"{option.id} with {self.value} cannot be applied here: {option.unavailable}",))
