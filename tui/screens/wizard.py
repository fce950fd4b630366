"""The four steps on one case: routes what the driver tells to the panes, and what a person decides to the driver."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.containers import Container
from textual.message import Message

from engine_probe import events as ev
from engine_probe.engine import EngineError
from engine_probe.errors import InputError
from engine_probe.facts import Known
from playbooks import decisions as decide
from playbooks.diagnose import allowed
from playbooks.session import Session, Step
from tui import actions
from tui.actions import Moment
from tui.running import CaseRun, Inbox
from tui.screens.base import ConsoleScreen
from tui.screens.dialogs import AskText, Confirm
from tui.screens.report import ReportScreen
from tui.screens.wizard_text import body_of, first_choices, next_to_show, now_line, with_sample
from tui.widgets.choice_list import ChoiceList
from tui.widgets.fixes import find_fix, fix_detail
from tui.widgets.hypotheses import find_hypothesis
from tui.widgets.key_bar import KeyBar
from tui.widgets.log_pane import REFRESH_SECONDS, LogPane
from tui.widgets.memory_pane import HostView, MemoryPane
from tui.widgets.stage_strip import StageStrip
from tui.widgets.step_header import STEPS, StepHeader
from tui.widgets.step_pane import StepPane
from tui.widgets.top_bar import TopBar
from tui.widgets.words import Words, lines, part

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

    from engine_probe.events import Event
    from playbooks.decisions import Decision
    from tui.running import EngineView

SMALLEST = (60, 16)
_WIDE_FROM, _TALL_FROM, _LOW_UNDER = 110, 28, 21


class WizardScreen(ConsoleScreen):
    """`shown` follows the case unless a person looks back."""

    CSS_PATH = "wizard.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("wizard")]

    class Told(Message):
        """The driver has put something into the inbox."""

    class Over(Message):
        """The driver has ended; `error` is its own failure in words, None when it has none."""

        def __init__(self, session: Session | None, error: str | None) -> None:
            super().__init__()
            self.session, self.error = session, error

    def __init__(self, run: CaseRun) -> None:
        super().__init__()
        self._run = run
        self._inbox = Inbox()
        self._decisions: asyncio.Queue[Decision] = asyncio.Queue()
        self._ended = asyncio.Event()
        self.session = run.session
        self.shown = run.session.step
        self.over = False
        self._error: str | None = None
        self._host = HostView()
        self._engine = ""
        self._marked: dict[Step, str | None] = {}
        self._values: dict[str, str] = {}
        self._big: Literal["log", "memory"] | None = None
        self._take_is_due = False
        self._is_leaving = self._stop_is_sent = False

    def compose(self) -> ComposeResult:
        glyphs, clock = self.console.glyphs, self.console.backend.clock
        yield TopBar(glyphs, clock)
        yield StepHeader(glyphs, id="steps")
        yield Words(glyphs, id="now")
        yield StageStrip(glyphs, clock, id="stages")
        yield StepPane(glyphs, id="step")
        with Container(id="lower"):
            yield LogPane(glyphs, id="log")
            yield MemoryPane(glyphs, id="memory")
        yield MemoryPane(glyphs, id="folded", classes="folded")
        yield Words(glyphs, id="enlarge")
        yield KeyBar(glyphs)

    def on_mount(self) -> None:
        self._draw()
        self._decisions.put_nowait(decide.Begin())
        self.run_worker(self._drive(), name="drive", exit_on_error=False)

    async def _drive(self) -> None:
        session, error = None, None
        try:
            session = await self._run.drive(self._decisions, self._put)
        except EngineError as problem:
            notes = (*self.session.notes, str(problem))
            session = replace(self.session, verdict="cannot run", running=None, notes=notes)
        except (InputError, OSError) as problem:
            error = str(problem)
        except Exception as problem:
            error = f"internal error: {type(problem).__name__}: {problem}"
        finally:
            self._ended.set()
        self.post_message(self.Over(session, error))

    def _put(self, session: Session, event: Event | None) -> None:
        if self._inbox.put(session, event):
            self.post_message(self.Told())

    def on_wizard_screen_told(self) -> None:
        """At most ten drawings a second, however fast the driver tells."""
        if not self._take_is_due:
            self._take_is_due = True
            self.set_timer(REFRESH_SECONDS, self._take)

    def on_wizard_screen_over(self, message: Over) -> None:
        self._take()
        self.over, self._error = True, message.error
        session = message.session or self.session
        if message.error is not None:
            session = replace(session, verdict="stopped", running=None, notes=(*session.notes, message.error))
        self._set_session(session)

    def _take(self) -> None:
        self._take_is_due = False
        taken = self._inbox.take()
        self.query_one(LogPane).add(taken.rows, taken.row_count)
        self._note_events(taken.last_events)
        if taken.session is not None:
            self._set_session(taken.session)

    def _note_events(self, newest: dict[str, Event]) -> None:
        sample = newest.get("memory_sample")
        if isinstance(sample, ev.MemorySample):
            self._host = with_sample(self._host, sample)
        if "ended" in newest or "failed" in newest:
            self._host = with_sample(self._host, None)

    def _set_session(self, session: Session) -> None:
        follows = self.shown is self.session.step
        self.session = self.console.last_session = session
        if follows:
            self.shown = next_to_show(self.shown, session.step)
        version = session.facts.get("engine.vllm_version")
        if isinstance(version, Known):
            self._engine = f"vLLM {version.value}"
        for step, choice in first_choices(session, self._marked).items():
            self._marked[step] = choice
        self._go_on_leaving()
        self._draw()

    def set_host(self, view: HostView) -> None:
        self._host = with_sample(view, None) if self.over else view.with_model(self._host.model_gib)
        self._draw_host()

    def set_engine(self, engine: EngineView) -> None:
        if not self._engine and engine.version is not None:
            self._engine = f"vLLM {engine.version}"
        self._draw_host()

    def on_resize(self) -> None:
        width, height = self.size
        self.set_class(width < SMALLEST[0] or height < SMALLEST[1], "-tiny")
        self.set_class(width >= _WIDE_FROM and height >= _TALL_FROM, "-wide")
        self.set_class(height >= _TALL_FROM, "-tall")
        self.set_class(height < _LOW_UNDER, "-low")
        words = f"This terminal is {width}×{height}: enlarge it to at least {SMALLEST[0]}×{SMALLEST[1]}."
        self.query_one("#enlarge", Words).show(part(words))
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        with self.app.batch_update():
            pane = self.query_one(StepPane)
            pane.set_body(
                body_of(self.session, self.shown, self._marked, self._values, pane.text_width, self.console.glyphs)
            )
            self.query_one(StepHeader).set_steps(self.session.step, self.shown, self.session.case)
            self.query_one(StageStrip).set_stages(self.session.stages)
            self.query_one("#now", Words).show(self._now())
            self._draw_host()
            self.refresh_keys()

    def _now(self) -> Content:
        if self._is_leaving and not self.over:
            return part("Ending the case: its processes and memory are cleaned up", "$accent bold")
        width = self.size.width - 2
        return now_line(self.session, self.shown, self.over, self._error, width, self.console.glyphs)

    def _draw_host(self) -> None:
        devices = "no GPU" if self._host.no_gpu else f"{len(self._host.gpus)} GPUs"
        self.query_one(TopBar).set_about(self._host.host, self._engine, devices)
        for pane in self.query(MemoryPane):
            pane.set_view(self._host)

    def plain_text(self) -> str:
        now = self.query_one("#now", Words).shown.plain
        return f"case {self.session.case}\n{now}\n\n{self.query_one(StepPane).body.plain}"

    def moment(self) -> Moment:
        found = find_hypothesis(self.session, self._marked.get(Step.HYPOTHESES))
        log = self.query(LogPane)
        return Moment(
            place="wizard",
            session=self.session,
            shown=self.shown,
            hypothesis=found[1] if found else None,
            fix=find_fix(self.session, self._marked.get(Step.FIX)),
            over=self.over,
            log_paused=bool(log) and not log.first().following,
            big=self._big,
            memory_folded=not self.has_class("-wide"),
        )

    # What a person does

    def on_choice_list_marked(self, message: ChoiceList.Marked) -> None:
        self._marked[self.shown] = message.choice
        self._draw()

    async def on_choice_list_taken(self) -> None:
        for action_id in ("run_experiment", "apply_fix"):
            await self.action_do(action_id)

    def on_step_header_clicked(self, message: StepHeader.Clicked) -> None:
        self.action_look_at(message.step)

    def on_log_pane_follow_changed(self) -> None:
        self.refresh_keys()

    def action_look_at(self, step: str) -> None:
        """Only as far as the case has come."""
        if STEPS.index(Step(step)) <= STEPS.index(self.session.step):
            self.shown = Step(step)
            self.query_one(StepPane).scroll_home(animate=False)
            self._draw()
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

    def do_run_experiment(self) -> None:
        found = find_hypothesis(self.session, self._marked.get(Step.HYPOTHESES))
        if found:
            self._decisions.put_nowait(decide.RunExperiment(found[0].id, found[1].id))

    def do_apply_fix(self) -> None:
        fix = find_fix(self.session, self._marked.get(Step.FIX))
        if fix is None:
            return
        value = self._values.get(fix.id)
        width = max(min(90, self.size.width * 94 // 100 - 6), 24)
        about = lines([part(fix.title, "$accent"), part(""), *fix_detail(fix, value, width)])

        def answered(yes: bool | None) -> None:
            if yes:
                self._decisions.put_nowait(decide.ApplyFix(fix.id, value))

        self.app.push_screen(
            Confirm(self.console.glyphs, "Apply this change and verify it?", about, "apply and verify"), answered
        )

    def do_edit_value(self) -> None:
        fix = find_fix(self.session, self._marked.get(Step.FIX))
        if fix is None:
            return

        def answered(text: str | None) -> None:
            if text is not None:
                self._values[fix.id] = text
                self._draw()

        old = "not set" if fix.old_value is None else fix.old_value
        hint = f"now {old}, proposed {fix.new_value}"
        question = f"{fix.key} of {fix.launch or 'the deployment'}"
        ask = AskText(self.console.glyphs, question, hint, self._values.get(fix.id, fix.new_value), _needs_text)
        self.app.push_screen(ask, answered)

    def do_undo(self) -> None:
        self._decisions.put_nowait(decide.Undo())

    def do_keep(self) -> None:
        self._decisions.put_nowait(decide.Finish())

    do_finish = do_keep

    def do_stop(self) -> None:
        self._decisions.put_nowait(decide.Stop())

    def do_report(self) -> None:
        if self.session.report_path:
            self.app.push_screen(ReportScreen(self.session.case, Path(self.session.report_path)))

    def do_pause_log(self) -> None:
        self.query_one(LogPane).follow(False)

    def do_follow_log(self) -> None:
        self.query_one(LogPane).follow(True)

    def do_log_big(self) -> None:
        self._set_big(None if self._big == "log" else "log")

    def do_memory_big(self) -> None:
        self._set_big(None if self._big == "memory" else "memory")

    def _set_big(self, big: Literal["log", "memory"] | None) -> None:
        self._big = big
        self.set_class(big == "log", "-log-big")
        self.set_class(big == "memory", "-memory-big")
        self.query_one("#folded").set_class(big != "memory", "folded")
        if big == "log":
            self.query_one(LogPane).focus()
        else:
            self._focus_step()
        self.call_after_refresh(self._draw)

    def do_back(self) -> None:
        if self._big:
            self._set_big(None)
        elif self.shown is not self.session.step:
            self.action_look_at(self.session.step.value)
        else:
            self.leave(self.app.pop_screen)

    def leave(self, then: Callable[[], object]) -> None:
        """Ends the case, then does `then`; asks first while something runs."""
        if self.over or (self.session.running is None and not self.session.progress.open):
            self.run_worker(self._end(then), name="end", exclusive=True, group="end")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._end(then), name="end", exclusive=True, group="end")

        what = self.session.running or "a model is up"
        about = part(f"Now: {what}. Its processes and memory are cleaned up before the console leaves.")
        self.app.push_screen(Confirm(self.console.glyphs, "End what runs now?", about, "end it", "go on"), answered)

    async def _end(self, then: Callable[[], object]) -> None:
        self._is_leaving = True
        self._draw()
        self._go_on_leaving()
        await self._ended.wait()
        then()

    def _go_on_leaving(self) -> None:
        """Stop what runs, then finish: each as soon as the case allows it."""
        if not self._is_leaving or self.over:
            return
        if allowed(self.session, decide.Finish()):
            self._decisions.put_nowait(decide.Finish())
        elif allowed(self.session, decide.Stop()) and not self._stop_is_sent:
            self._stop_is_sent = True
            self._decisions.put_nowait(decide.Stop())


def _needs_text(text: str) -> str | None:
    return None if text else "A value is needed; esc leaves it as it was."
