"""What a person can do in the wizard: decide about the case, look at its steps, change what is shown, leave."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from textual.worker import WorkerCancelled, WorkerFailed

from engine_probe.errors import InputError
from playbooks import decisions as decide
from playbooks.diagnose import allowed
from playbooks.fix_values import UNKNOWN, checked_value, shown_value, wanted
from playbooks.session import Step
from playbooks.way_back import will_change
from tui.opened_log import OpenedLog
from tui.screens.case_driver import CaseDriver
from tui.screens.dialogs import AskText, Confirm
from tui.screens.leaving import leave_lines
from tui.screens.log_viewer import LogViewerScreen
from tui.screens.own_log import OwnLogViewer
from tui.screens.report import ReportScreen
from tui.screens.wizard_evidence import LogAtLine, given_log, is_log_given, line_shown
from tui.screens.wizard_keeps import KeepsSessions
from tui.screens.wizard_text import with_values
from tui.widgets.choice_list import ChoiceList
from tui.widgets.fixes import copied_of, find_fix, first_fix, fix_detail, value_to_apply
from tui.widgets.hypotheses import find_hypothesis
from tui.widgets.live_log import LiveLog
from tui.widgets.log_view import LogView
from tui.widgets.step_header import STEPS
from tui.widgets.step_pane import StepPane
from tui.widgets.words import lines, part, wrapped
from tui.wizard_conditions import why_not

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.content import Content
    from textual.worker import Worker

    from playbooks.decisions import Decision
    from playbooks.session import FixOption, Session
    from tui.running import CaseRun, Opening


_WHY_ASK = "Memory that it holds or takes meanwhile is missing for the load, and may look like the load's own fault."


class WizardActions(KeepsSessions):
    """`shown` follows the case unless a person looks back. The screen itself draws."""

    def __init__(self, run: CaseRun) -> None:
        super().__init__()
        self.driver = CaseDriver(run, self.told)
        self.session: Session = run.session
        self.shown = run.session.step
        self.over = False
        self.is_over = asyncio.Event()
        self.marked: dict[Step, str | None] = {}
        self.values: dict[str, str] = {}
        self.skipped: frozenset[str] = frozenset()
        self.shows_all = False
        self._then: Decision | None = None
        """What follows as soon as the case takes it: a fix that is applied in the place of another."""
        self.is_memory_big = False
        self._driving: Worker[None] | None = None

    @abstractmethod
    def draw(self) -> None: ...

    @abstractmethod
    def told(self) -> None:
        """The driver has put something into the inbox."""

    # The case

    def begin(self) -> None:
        """Loads at once, or asks first where another process holds a GPU that the load will use."""
        holders = self.driver.run.holders
        if not holders:
            self._begin_now()
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._begin_now()
            else:
                self.leave(self.app.pop_screen)

        about = lines([*(part(words) for words in holders), part(""), part(_WHY_ASK, "$quiet")])
        self.app.push_screen(Confirm(self.console.glyphs, "Load beside it?", about, "load", "do not load"), answered)

    def _begin_now(self) -> None:
        first = self.driver.run.begins_with
        if first is not None:
            self.driver.decide(first)
        self._driving = self.run_worker(self.drive(), name="drive", exit_on_error=False)

    @abstractmethod
    async def drive(self) -> None:
        """Drives the case to its end and says how it ended."""

    def do_run_experiment(self) -> None:
        found = find_hypothesis(self.session, self.marked.get(Step.HYPOTHESES))
        if found:
            self.driver.decide(decide.RunExperiment(found[0].id, found[1].id))

    def do_apply_fix(self) -> None:
        fix = self.marked_fix()
        if fix is None:
            return
        value = value_to_apply(self.session, fix)
        width = self._dialog_width()
        files = [] if self.driver.run.temporary else will_change(self.session.deployment, fix)
        kept = [row for words in files for row in wrapped(words, width, 0, "$quiet")]
        about = lines([part(fix.title, "$accent"), part(""), *fix_detail(fix, width), part(""), *kept])

        instead = self.session.applied_fix

        def answered(yes: bool | None) -> None:
            if yes and instead is not None:
                self._then = decide.ApplyFix(fix.id, value)
                self.driver.decide(decide.Undo())
            elif yes:
                self.driver.decide(decide.ApplyFix(fix.id, value))

        question, yes = "Apply this change and verify it?", "apply and verify"
        if instead is not None:
            about = lines([part(f"{instead} is undone first.", "$warning"), part(""), about])
            question = "Undo the applied fix, then apply this change and verify it?"
        self.app.push_screen(Confirm(self.console.glyphs, question, about, yes), answered)

    def go_on_with(self, session: Session) -> None:
        """What was to follow, once the case takes it; dropped where it ends before."""
        if self._then is not None and allowed(session, self._then):
            then, self._then = self._then, None
            self.driver.decide(then)
        elif session.verdict in ("cannot run", "stopped"):
            self._then = None

    def do_edit_value(self) -> None:
        fix = self.marked_fix()
        if fix is None:
            return

        def answered(text: str | None) -> None:
            if text is not None:
                self.values[fix.id] = text
                self.draw()

        old = "not set" if fix.old_value is None else shown_value(fix, fix.old_value)
        proposed = shown_value(fix, fix.proposed or fix.new_value)
        hint = f"now {old}, proposed {proposed}\nWanted: {wanted(fix)}"
        question = f"{fix.key} of {fix.launch or 'the deployment'}"
        given = "" if fix.new_value == UNKNOWN else fix.new_value
        ask = AskText(self.console.glyphs, question, hint, given, lambda text: _trouble_with(fix, text))
        self.app.push_screen(ask, answered)

    def marked_fix(self) -> FixOption | None:
        """The fix that the mark stands on, with the value that a person chose for it."""
        return find_fix(with_values(self.session, self.values), self.marked.get(Step.FIX))

    def _dialog_width(self) -> int:
        return max(min(90, self.size.width * 94 // 100 - 6), 24)

    def do_skip_fix(self) -> None:
        """Left out, not undone: the mark stays, so that the same key takes it in again."""
        fix = self.marked_fix()
        if fix is None:
            return
        self.skipped |= {fix.id}
        self.draw()

    def do_unskip_fix(self) -> None:
        fix = self.marked_fix()
        self.skipped -= {fix.id} if fix is not None else set()
        self.draw()

    def do_all_causes(self) -> None:
        self.shows_all = True
        self.draw()

    def do_likeliest(self) -> None:
        self.shows_all = False
        self.draw()

    do_all_fixes = do_all_causes

    def do_possible_fixes(self) -> None:
        """The mark does not stay on what is folded away."""
        self.shows_all = False
        fix = self.marked_fix()
        if fix is not None and fix.unavailable is not None:
            self.marked[Step.FIX] = first_fix(self.session, self.skipped)
        self.draw()

    def do_say_why_no_edit(self) -> None:
        self.tell(why_not(self.moment(), of_value=True), style="$warning")

    def do_say_why_no_fix(self) -> None:
        self.tell(why_not(self.moment()), style="$warning")

    def do_undo(self) -> None:
        fix = next((one for one in self.session.fixes if one.id == self.session.applied_fix), None)
        if fix is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.driver.decide(decide.Undo())

        path = self.session.deployment.path
        where = "The deployment" if path is None or self.driver.run.temporary else str(path)
        words = [f"{where} goes back to what it was before this fix."]
        words += ["It was verified: the model loads with it."] if fix.outcome == "verified" else []
        words += [f"{', '.join(self.session.progress.open)} is ended."] if self.session.progress.open else []
        about = lines([part(fix.title, "$accent"), part(""), *self._folded(words)])
        self.app.push_screen(Confirm(self.console.glyphs, "Undo this fix?", about, "undo the fix", "keep it"), answered)

    def _folded(self, texts: list[str]) -> list[Content]:
        return [row for text in texts for row in wrapped(text, self._dialog_width())]

    def do_keep(self) -> None:
        self.driver.decide(decide.Finish())

    do_finish = do_keep

    def do_load_again(self) -> None:
        self.driver.decide(decide.Begin())

    def do_stop(self) -> None:
        self.driver.decide(decide.Stop())

    def do_report(self) -> None:
        if self.session.report_path:
            self.app.push_screen(ReportScreen(self.session.case, Path(self.session.report_path)))

    def do_draft_playbook(self) -> None:
        self.ask_for_draft()

    def do_write_deployment(self) -> None:
        self.ask_for_deployment_file()

    def begin_again(self, opening: Opening) -> None:
        def then() -> None:
            self.app.pop_screen()
            self.console.open_case(opening)

        self.end(then)

    def do_copy(self) -> None:
        """Where something is to be done by hand, its command; else what is shown."""
        fix = self.marked_fix() if self.shown is Step.FIX else None
        command = copied_of(self.session, fix) if fix is not None else None
        if command is None:
            self.console.do_copy()
        else:
            self.copy_text(command, "Command")

    # The view

    def action_look_at(self, step: str) -> None:
        """Only as far as the case has come."""
        if STEPS.index(Step(step)) <= STEPS.index(self.session.step):
            self.shown = Step(step)
            self.draw()
            self.show_top()
            self._focus_step()

    def show_top(self) -> None:
        """A step begins at its first line, and the keys that scroll work on it; who reads the log goes on reading."""
        self.query_one(StepPane).scroll_home(animate=False)
        if not isinstance(self.focused, LogView):
            self._focus_step()

    def _look(self, by: int) -> None:
        self.action_look_at(STEPS[STEPS.index(self.shown) + by].value)

    def _focus_step(self) -> None:
        choices = self.query_one(ChoiceList)
        (self.query_one(StepPane) if choices.has_class("empty") else choices).focus()

    def do_left(self) -> None:
        self._look(-1)

    def do_right(self) -> None:
        self._look(1)

    do_next_step = do_right

    def do_pause_log(self) -> None:
        self.query_one(LiveLog).follow(False)

    def do_follow_log(self) -> None:
        self.query_one(LiveLog).follow(True)

    def do_log_big(self) -> None:
        deployment, log = self.session.deployment, self.query_one(LiveLog).opened
        if is_log_given(self.session):
            try:
                self.app.push_screen(OwnLogViewer(given_log(self.session), is_inner=True, deployment=deployment))
            except InputError as trouble:
                self.tell(str(trouble).splitlines()[0], style="$error bold")
        elif log is None:
            self.tell("Nothing has been printed yet", style="$warning")
        else:
            self.app.push_screen(LogViewerScreen(log, is_inner=True, deployment=deployment))

    do_log_whole = do_log_big

    def do_log_here(self) -> None:
        place = line_shown(self.session, self.shown, self.marked)
        if place is None:
            return
        try:
            log = OpenedLog.of_file(place.path, place.name)
        except InputError as trouble:
            self.tell(str(trouble), style="$error bold")
            return
        self.app.push_screen(LogAtLine(log, place.line, self.session.deployment))

    def do_memory_big(self) -> None:
        self._set_memory_big(not self.is_memory_big)

    def _set_memory_big(self, is_big: bool) -> None:
        self.is_memory_big = is_big
        self.set_class(is_big, "-memory-big")
        self.query_one("#folded").set_class(not is_big, "folded")
        self._focus_step()
        self.call_after_refresh(self.draw)

    # The way out

    def do_back(self) -> None:
        if self.is_memory_big:
            self._set_memory_big(False)
        elif self.shown is not Step.SYMPTOM:
            self._look(-1)
        else:
            self.leave(self.app.pop_screen)

    def leave(self, then: Callable[[], object]) -> None:
        """Ends the case, then does `then`; asks first, unless the case is over."""
        if self.over or self.session.progress.phase == "not begun":
            self.end(then)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.end(then)

        about = lines(self._folded(leave_lines(self.session, temporary=self.driver.run.temporary)))
        ask = Confirm(self.console.glyphs, "Leave this case?", about, "leave", "stay", leaves=True)
        self.app.push_screen(ask, answered)

    def end(self, then: Callable[[], object], *, is_lost: bool = False) -> None:
        """Without a question: ends the case, then does `then`.

        `is_lost`: nobody decided it, so the case stays open, without a report, and can go on later.
        """

        async def end() -> None:
            self.console.begin_closing()
            if isinstance(self.app.screen, LogViewerScreen):
                self.app.pop_screen()  # how the case ends is said here
            self.driver.is_leaving = True
            self.draw()
            if is_lost:
                await self._let_go()
            else:
                self.driver.go_on_leaving(self.session)
                if self.driver.has_begun:
                    await self.is_over.wait()
            self.console.closing = False
            then()

        self.run_worker(end(), name="end", exclusive=True, group="end")

    async def _let_go(self) -> None:
        """What runs is ended, a change that was not proved is taken back, and the case is left as it is."""
        if self._driving is None or self.over:
            return
        self._driving.cancel()
        with suppress(WorkerCancelled, WorkerFailed):
            await self._driving.wait()


def _trouble_with(fix: FixOption, text: str) -> str | None:
    if not text:
        return "A value is needed; esc leaves it as it was."
    try:
        checked_value(fix, text)
    except InputError as error:
        return str(error)
    return None
