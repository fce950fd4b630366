"""When the wizard's actions are offered. Imported when the wizard asks it: the first screen needs nothing of a case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.decisions import ApplyFix, Begin, Decision, Finish, RunExperiment, Stop, Undo
from playbooks.diagnose import allowed
from playbooks.fixing import takes_a_source
from playbooks.session import Step, Verdict
from tui.widgets.fixes import value_to_apply

if TYPE_CHECKING:
    from collections.abc import Callable

    from playbooks.session import FixOption
    from tui.actions import Moment

_ORDER = tuple(Step)


def allows(moment: Moment, decision: Decision) -> bool:
    """Whether the case would take `decision` now."""
    return moment.session is not None and not moment.over and allowed(moment.session, decision)


def _shown(moment: Moment) -> Step:
    return moment.shown or Step.SYMPTOM


def _can_go_back(moment: Moment) -> bool:
    return _ORDER.index(_shown(moment)) > 0


def _can_go_on(moment: Moment) -> bool:
    reached = moment.session.step if moment.session else Step.SYMPTOM
    return _ORDER.index(_shown(moment)) < _ORDER.index(reached)


def _can_test(moment: Moment) -> bool:
    chosen = moment.hypothesis
    if chosen is None or moment.shown is not Step.HYPOTHESES:
        return False
    is_open = chosen.verdict in (Verdict.UNTESTED, Verdict.INCONCLUSIVE)
    return is_open and allows(moment, RunExperiment("", chosen.id))


def _can_apply(moment: Moment) -> bool:
    return moment.shown is Step.FIX and moment.fix is not None and _may_apply(moment, moment.fix)


def _may_apply(moment: Moment, fix: FixOption) -> bool:
    """At once, or in the place of the one that is applied."""
    session = moment.session
    if session is None:
        return False
    if allows(moment, ApplyFix(fix.id, value_to_apply(session, fix))):
        return True
    if session.applied_fix in (None, fix.id) or fix.unavailable or fix.by_hand:
        return False
    return session.no_loads is None and allows(moment, Undo())


def _can_edit(moment: Moment) -> bool:
    """A fix in steps has no one value."""
    session, fix = moment.session, moment.fix
    if session is None or session.applied_fix is not None or fix is None or fix.steps:
        return False
    return _can_apply(moment) or (moment.shown is Step.FIX and takes_a_source(fix, session))


def _has_fix(moment: Moment) -> bool:
    return moment.shown is Step.FIX and moment.fix is not None


def why_not(moment: Moment, *, of_value: bool = False) -> str:
    """Why the marked fix cannot be applied, or takes no other value, in one sentence."""
    session, fix = moment.session, moment.fix
    if session is None or fix is None:
        return "No fix is marked."
    reasons = (
        (fix.unavailable, f"Not possible: {fix.unavailable}"),
        (fix.by_hand, "This is done by hand: y copies the command."),
        (session.no_loads, f"Nothing is applied here: {session.no_loads}"),
        (session.running, f"Not while something runs: {session.running}"),
        (of_value and fix.steps, "A fix in several steps has no one value."),
        (session.applied_fix, f"{session.applied_fix} is applied: u undoes it first."),
        (moment.over, "The case has ended."),
    )
    return next((words for holds, words in reasons if holds), "The case takes no fix now.")


def _can_keep(moment: Moment) -> bool:
    is_verified = moment.session is not None and moment.session.applied_fix is not None
    return moment.shown is Step.VERIFY and is_verified and allows(moment, Finish())


def _can_finish(moment: Moment) -> bool:
    has_something = moment.session is not None and moment.session.progress.phase != "not begun"
    return has_something and allows(moment, Finish()) and not _can_keep(moment)


def _can_advance(moment: Moment) -> bool:
    return _can_go_on(moment) and not _can_test(moment) and not _can_apply(moment)


def _can_skip(moment: Moment) -> bool:
    """Another one is there to go on to."""
    session = moment.session
    return moment.shown is Step.FIX and moment.fix is not None and session is not None and len(session.fixes) > 1


def was_stopped(moment: Moment) -> bool:
    """Before it was known what is wrong: the case waits for its loads to begin once more."""
    has_begun = moment.session is not None and moment.session.progress.phase != "not begun"
    return has_begun and allows(moment, Begin())


CONDITIONS: dict[str, Callable[[Moment], bool]] = {
    "test": _can_test,
    "apply": _can_apply,
    "edit": _can_edit,
    "no edit": lambda moment: _has_fix(moment) and not _can_edit(moment),
    "no apply": lambda moment: _has_fix(moment) and not _can_apply(moment) and not _can_go_on(moment),
    "skip": lambda moment: _can_skip(moment) and not moment.wizard.is_skipped,
    "unskip": lambda moment: _can_skip(moment) and moment.wizard.is_skipped,
    "keep": _can_keep,
    "finish": _can_finish,
    "advance": _can_advance,
    "undo": lambda moment: allows(moment, Undo()),
    "load again": lambda moment: moment.shown is Step.SYMPTOM and was_stopped(moment),
    "stop": lambda moment: allows(moment, Stop()),
    "go back": _can_go_back,
    "go on": _can_go_on,
}
