"""Which experiment comes next, when nobody chooses: what can decide between fixes, the cheapest first.

Of the likeliest cause that is not refuted. What costs seconds is done before a fix is chosen, unless a confirmed
hypothesis leads to one already. A full start is worth it only where two claims lead to different fixes, nothing else
decides, and trying the fix itself would not tell the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks import experiments
from playbooks.claims import Verdict
from playbooks.decisions import RunExperiment
from playbooks.proposal import is_usable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playbooks.claims import Cause, Hypothesis
    from playbooks.session import FixOption, Session

_CHEAP = ("none", "seconds")
_OPEN = (Verdict.UNTESTED, Verdict.INCONCLUSIVE)


def next_experiment(
    session: Session, playbook: str | None = None, *, thorough: bool = False, loads: bool = True
) -> RunExperiment | None:
    """None: nothing is left that would decide. `playbook`: only of this cause. `thorough`: whatever can be tested.

    `loads` False: only what loads nothing.
    """
    cause = _cause(session, playbook)
    if cause is None:
        return None
    left = {fix.id: fix for fix in session.fixes if is_usable(fix) and fix.outcome == "not tried"}
    untested = [one for one in cause.hypotheses if _can_be_tested(one, session, loads)]
    if thorough:
        chosen = next(iter(sorted(untested, key=lambda one: one.cost not in _CHEAP)), None)
    else:
        chosen = None if _is_decided(cause, left) else _that_decides(cause, untested, left)
    return None if chosen is None else RunExperiment(cause.id, chosen.id)


def _can_be_tested(one: Hypothesis, session: Session, loads: bool) -> bool:
    if one.run is None or one.verdict is not Verdict.UNTESTED:
        return False
    named = experiments.named(one.run)
    if named.is_alone and len(session.deployment.models) < 2:
        return False  # it was alone when it failed
    return loads or named.kind == "examine"


def _cause(session: Session, playbook: str | None) -> Cause | None:
    """The likeliest one of which some hypothesis may still hold, and whose fixes have not all been tried."""
    for cause in session.causes:
        mine = {fix for one in cause.hypotheses for fix in one.fixes}
        is_open = any(one.verdict is not Verdict.REFUTED for one in cause.hypotheses)
        is_left = any(fix.id in mine and fix.outcome == "not tried" for fix in session.fixes)
        if is_open and is_left and playbook in (None, cause.id):
            return cause
    return None


def _is_decided(cause: Cause, left: Mapping[str, FixOption]) -> bool:
    return any(one.verdict is Verdict.CONFIRMED and any(fix in left for fix in one.fixes) for one in cause.hypotheses)


def _that_decides(cause: Cause, untested: list[Hypothesis], left: Mapping[str, FixOption]) -> Hypothesis | None:
    cheap = next((one for one in untested if one.cost in _CHEAP), None)
    if cheap is not None:
        return cheap
    rivals = {
        tuple(fix for fix in one.fixes if fix in left)
        for one in cause.hypotheses
        if one.verdict in _OPEN and any(fix in left for fix in one.fixes)
    }
    if len(rivals) < 2:
        return None
    return next((one for one in untested if not _is_its_own_fix(one, left)), None)


def _is_its_own_fix(one: Hypothesis, left: Mapping[str, FixOption]) -> bool:
    """The experiment is the fix, and its verification tells more."""
    options = [left[fix] for fix in one.fixes if fix in left]
    return any(one.change == f"{option.key}={option.new_value}".replace("=True", "=true") for option in options)
