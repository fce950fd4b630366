"""Decides without a person: begin, apply the fixes by priority until one holds, finish."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from playbooks.decisions import ApplyFix, Begin, Decision, Finish
from playbooks.diagnose import allowed
from playbooks.proposal import Proposal, propose

if TYPE_CHECKING:
    from collections.abc import Callable

    from playbooks.session import FixOption, Session


@dataclass
class Unattended:
    """Begin, apply the fixes by priority until one holds, finish.

    `fix` names the only one to try, `playbook` the only cause to mend; `dry_run` stops before applying; `confirm`
    is asked before each.
    """

    fix: str | None = None
    playbook: str | None = None
    dry_run: bool = False
    confirm: Callable[[FixOption], bool] = field(default=lambda _fix: True)

    def decide(self, session: Session) -> Decision | None:
        if session.progress.phase == "not begun":
            return Begin()
        if session.progress.phase != "deciding":
            return None
        if session.verdict is not None or self.dry_run:
            return Finish()
        fix = self.next_fix(session)
        return ApplyFix(fix.id) if fix is not None and self.confirm(fix) else Finish()

    def next_fix(self, session: Session) -> FixOption | None:
        """The fix that would be applied now."""
        fix = self.proposal(session).fix
        return fix if fix is not None and allowed(session, ApplyFix(fix.id)) else None

    def proposal(self, session: Session) -> Proposal:
        """The fix that comes next, or why there is none."""
        return propose(session, self.playbook, self.fix)
