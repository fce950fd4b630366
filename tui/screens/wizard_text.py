"""What the wizard shows for a session, as pure functions: the step's body and the line that says what goes on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from playbooks.decisions import Begin
from playbooks.diagnose import allowed
from playbooks.fixing import takes_a_source, with_value
from playbooks.proof import BURST
from playbooks.session import Outcome, Session, Step
from tui.screens.leaving import short_path
from tui.widgets.checks import checks_body, result_words
from tui.widgets.clean_text import clean
from tui.widgets.fixes import find_fix, first_fix, fixes_body, has_undone
from tui.widgets.hypotheses import find_hypothesis, first_hypothesis, hypotheses_body
from tui.widgets.monitor_words import sparkline
from tui.widgets.symptom import symptom_body
from tui.widgets.words import GIB, cut, gib, part, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.content import Content

    from engine_probe.events import MemorySample
    from playbooks.session import FixOption
    from tui.themes.glyphs import Glyphs
    from tui.widgets.memory_pane import HostView
    from tui.widgets.step_pane import Body

_STEPS = tuple(Step)
_HISTORY_CELLS = 12
_YOUR_TURN = {
    Step.SYMPTOM: "This is what is wrong; enter goes on to the likeliest causes.",
    Step.HYPOTHESES: "These are the likeliest causes; the arrow → goes on to the fixes.",
    Step.FIX: "Your turn: choose a fix; you see the difference before anything changes.",
    Step.VERIFY: "Your turn: keep the fix, or undo it.",
}
_OF_LOGS: Mapping[str | None, str] = {
    "healthy": "Nothing is wrong in what the log tells.",
    "unexplained": "Unexplained: no playbook matches what the log tells.",
}
_YOUR_TURN_HERE = "What mends it stands below; nothing can be applied here, and why is beside it."
_YOUR_TURN_AGAIN = "The fix is undone, and why is below. Choose another, or w writes the report."
_YOUR_TURN_TO_TEST = "Your turn: choose a claim and run its experiment."


def next_to_show(shown: Step, reached: Step) -> Step:
    """Follows the case; a diagnosis that goes straight to the fixes shows its hypotheses first."""
    if shown is Step.SYMPTOM and reached is Step.FIX:
        return Step.HYPOTHESES
    return reached


@dataclass(frozen=True)
class Look:
    """What a person has chosen to see: the step, what is marked in each, what is left out or folded."""

    shown: Step
    marked: Mapping[Step, str | None]
    skipped: frozenset[str] = frozenset()
    shows_all: bool = False
    running_seconds: float = 0.0
    folds: bool = True
    memory_gib: tuple[float, ...] = ()
    """Of the load under verification, newest last."""


def body_of(session: Session, look: Look, width: int, glyphs: Glyphs) -> Body:
    """The body of the step that is shown."""
    marked = look.marked.get(look.shown)
    if look.shown is Step.SYMPTOM:
        return symptom_body(session, width, glyphs)
    if look.shown is Step.HYPOTHESES:
        return hypotheses_body(
            session, marked, width, glyphs, look.running_seconds, shows_all=look.shows_all, folds=look.folds
        )
    if look.shown is Step.FIX:
        shows_all = look.shows_all or not look.folds
        return fixes_body(session, marked, width, glyphs, look.skipped, shows_all=shows_all)
    return checks_body(_with_history(session, look, glyphs), width, glyphs)


def _with_history(session: Session, look: Look, glyphs: Glyphs) -> Session:
    """While many requests run, what the model holds of memory stands beside what is expected, with its course."""
    if not look.memory_gib:
        return session
    course = sparkline(look.memory_gib, max(look.memory_gib), _HISTORY_CELLS, glyphs)
    measured = f"{course.strip()} {gib(look.memory_gib[-1])} GiB  {seconds(look.running_seconds)}"
    checks = (
        replace(check, measured=measured) if check.id == BURST and check.outcome is Outcome.RUNNING else check
        for check in session.checks
    )
    return replace(session, checks=tuple(checks))


def with_values(session: Session, values: Mapping[str, str]) -> Session:
    """The session whose fixes have the values that a person chose: list, difference and question say the same."""
    if session.applied_fix is not None or not values:
        return session
    fixes = (_with_value(fix, session, values[fix.id]) if fix.id in values else fix for fix in session.fixes)
    return replace(session, fixes=tuple(fixes))


def _with_value(fix: FixOption, session: Session, value: str) -> FixOption:
    """What came of another value is not what comes of this one."""
    if fix.unavailable is not None and not takes_a_source(fix, session):
        return fix
    chosen = with_value(fix, session, value)
    return chosen if chosen.new_value == fix.new_value else replace(chosen, outcome="not tried")


def first_choices(
    session: Session, marked: Mapping[Step, str | None], skipped: frozenset[str] = frozenset()
) -> dict[Step, str | None]:
    """What to mark where nothing is marked, or where the marked choice is gone."""
    fresh: dict[Step, str | None] = {}
    if find_hypothesis(session, marked.get(Step.HYPOTHESES)) is None:
        fresh[Step.HYPOTHESES] = first_hypothesis(session)
    fix = find_fix(session, marked.get(Step.FIX))
    if fix is None or (fix.outcome == "did not hold" and session.applied_fix is None):
        fresh[Step.FIX] = first_fix(session, skipped)
    return fresh


def now_line(
    session: Session,
    shown: Step,
    over: bool,
    error: str | None,
    width: int,
    glyphs: Glyphs,
    running_seconds: float = 0.0,
) -> Content:
    """What goes on and for how long, or whose turn it is: the line a tired person reads first."""
    words, style = result_words(session)
    if session.log_sources and session.verdict in _OF_LOGS:
        words = _OF_LOGS[session.verdict]
    if session.verdict == "stopped" and not over and allowed(session, Begin()):
        words = "Stopped before it was seen what is wrong; enter loads again."
    if error is not None:
        words, style = f"{glyphs.failed} {error.splitlines()[0]}", "$error bold"
    elif session.running is not None and not over:
        since = f"  {running_seconds:.0f} s" if running_seconds >= 1 else ""
        words = cut(f"{glyphs.running} {clean(session.running)}", width - len(since)) + since
        style = "$accent bold"
    elif over and session.applied_fix is not None and session.report_path:
        words, style = f"{glyphs.done} Verified, kept: {short_path(session.report_path)}", "$success bold"
    elif words:
        mark = {"$success bold": glyphs.done, "$error bold": glyphs.failed}.get(style, glyphs.unknown)
        words = f"{mark} {words}"
    elif over:
        words, style = "The case has ended.", "bold"
    elif session.progress.phase == "not begun":
        words, style = "Waits for the load to begin.", "bold"
    else:
        return part(cut(_your_turn(session, shown), width), "bold")
    if shown is not session.step:
        aside = "   → goes on"
        return part(cut(words, width - len(aside)), style) + part(aside, "$quiet")
    return part(cut(words, width), style)


def _your_turn(session: Session, shown: Step) -> str:
    """What a person can do now, where nothing runs and nothing is decided yet."""
    if shown is Step.FIX and session.no_loads is not None:
        return _YOUR_TURN_HERE
    if shown is Step.FIX and has_undone(session):
        return _YOUR_TURN_AGAIN
    return _YOUR_TURN_TO_TEST if shown is session.step is Step.HYPOTHESES else _YOUR_TURN[shown]


def with_sample(view: HostView, sample: MemorySample | None) -> HostView:
    """`view` with the load's own memory, or with the reason why there is none."""
    if sample is None:
        return view.with_model(Unknown("nothing is loaded"))
    if sample.rss_bytes is None:
        return view.with_model(Unknown("unknown, because it could not be read"))
    return view.with_model(Known(sample.rss_bytes / GIB, "measured", "resident memory of all its processes"))
