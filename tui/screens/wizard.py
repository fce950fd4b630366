"""The four steps on one case: routes what the driver tells to the panes, and what a person decides to the driver."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container
from textual.message import Message

from engine_probe import events as ev
from engine_probe.facts import Known
from playbooks.session import Session, Step
from tui import actions
from tui.actions import Moment, WizardMoment
from tui.screens.base import when_whole
from tui.screens.wizard_actions import WizardActions
from tui.screens.wizard_evidence import is_log_given, line_shown
from tui.screens.wizard_text import Look, body_of, first_choices, next_to_show, now_line, with_sample, with_values
from tui.widgets.fixes import folded_fixes
from tui.widgets.hypotheses import find_hypothesis, has_folded
from tui.widgets.key_bar import KeyBar
from tui.widgets.live_log import REFRESH_SECONDS, LiveLog
from tui.widgets.memory_pane import HostView, MemoryPane
from tui.widgets.stage_strip import StageStrip
from tui.widgets.step_header import StepHeader
from tui.widgets.step_pane import StepPane
from tui.widgets.top_bar import TopBar
from tui.widgets.words import GIB, Words, part

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

    from engine_probe.events import Event
    from tui.running import CaseRun, EngineView

SMALLEST = (60, 16)
_MOST_SAMPLES = 12
_TICKING = (("experimenting", Step.HYPOTHESES), ("verifying", Step.VERIFY))
_WIDE_FROM, _TALL_FROM, _LOW_UNDER = 110, 28, 21


class WizardScreen(WizardActions):
    """Draws what the driver tells, at most ten times a second."""

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
        super().__init__(run)
        self._error: str | None = None
        self._host = HostView()
        self._engine = ""
        self._take_is_due = False
        self._running_since = 0.0
        self._memory_gib: deque[float] = deque(maxlen=_MOST_SAMPLES)

    def compose(self) -> ComposeResult:
        glyphs, clock = self.console.glyphs, self.console.backend.clock
        yield TopBar(glyphs, clock)
        yield StepHeader(glyphs, id="steps")
        yield Words(glyphs, id="now")
        yield StageStrip(glyphs, clock, id="stages")
        yield StepPane(glyphs, self.mark, id="step")
        with Container(id="lower"):
            yield LiveLog(lambda: self.driver.run.log.path, glyphs, id="log")
            yield MemoryPane(glyphs, id="memory")
        yield MemoryPane(glyphs, id="folded", classes="folded")
        yield Words(glyphs, id="enlarge")
        yield KeyBar(glyphs)

    def on_mount(self) -> None:
        self._running_since = self.console.backend.clock()
        self._mark_first()
        self.draw()
        self.set_interval(1.0, self._tick)
        self.begin()

    def on_unmount(self) -> None:
        self.driver.run.log.close()

    def told(self) -> None:
        self.post_message(self.Told())

    async def drive(self) -> None:
        session, error = await self.driver.drive(lambda: self.session)
        self.post_message(self.Over(session, error))

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
        self.is_over.set()

    def _take(self) -> None:
        self._take_is_due = False
        taken = self.driver.inbox.take()
        self._note_events(taken.last_events)
        if taken.session is not None:
            self._set_session(taken.session)

    def _note_events(self, newest: dict[str, Event]) -> None:
        sample = newest.get("memory_sample")
        if isinstance(sample, ev.MemorySample):
            self._host = with_sample(self._host, sample)
            if sample.rss_bytes is not None:
                self._memory_gib.append(sample.rss_bytes / GIB)
        if "ended" in newest or "failed" in newest:
            self._host = with_sample(self._host, None)
            self._memory_gib.clear()

    def _set_session(self, session: Session) -> None:
        before = self.shown
        follows = self.shown is self.session.step
        if session.running != self.session.running:
            self._running_since = self.console.backend.clock()
        self.session = self.console.last_session = session
        if follows:
            self.shown = next_to_show(self.shown, session.step)
        version = session.facts.get("engine.vllm_version")
        if isinstance(version, Known):
            self._engine = f"vLLM {version.value}"
        self._mark_first()
        self.driver.go_on_leaving(session)
        self.go_on_with(session)
        self.draw()
        if self.shown is not before:
            self.show_top()

    def _mark_first(self) -> None:
        """Something is marked on the first picture too: a key that is pressed at once has something to work on."""
        self.marked.update(first_choices(self.session, self.marked, self.skipped))

    def set_host(self, view: HostView) -> None:
        self._host = with_sample(view, None) if self.over else view.with_model(self._host.model_gib)
        self._draw_host()

    def set_engine(self, engine: EngineView) -> None:
        if not self._engine and engine.version is not None:
            self._engine = f"vLLM {engine.version}"
        self._draw_host()

    @when_whole
    def on_resize(self) -> None:
        width, height = self.size
        self.set_class(width < SMALLEST[0] or height < SMALLEST[1], "-tiny")
        self.set_class(width >= _WIDE_FROM and height >= _TALL_FROM, "-wide")
        self.set_class(height >= _TALL_FROM, "-tall")
        self.set_class(height < _LOW_UNDER, "-low")
        words = f"This terminal is {width}×{height}: enlarge it to at least {SMALLEST[0]}×{SMALLEST[1]}."
        self.query_one("#enlarge", Words).show(part(words))
        self.call_after_refresh(self.draw)

    @when_whole
    def draw(self) -> None:
        with self.app.batch_update():
            pane = self.query_one(StepPane)
            session = with_values(self.session, self.values)
            pane.set_body(body_of(session, self._view, pane.text_width, self.console.glyphs))
            self.query_one(StepHeader).set_steps(self.session.step, self.shown, self.session.case)
            several = len(self.session.deployment.models) > 1
            self.query_one(StageStrip).set_stages(self.session.stages, self.session.model if several else "")
            self.set_class(is_log_given(self.session), "-no-log")
            self._draw_now()
            self._draw_host()
            self.refresh_keys()

    @property
    def _view(self) -> Look:
        return Look(
            self.shown,
            self.marked,
            self.skipped,
            self.shows_all,
            self._running_seconds,
            memory_gib=tuple(self._memory_gib) if self.session.progress.phase == "verifying" else (),
        )

    @property
    def _running_seconds(self) -> float:
        return self.console.backend.clock() - self._running_since

    def _now(self) -> Content:
        if self.driver.is_leaving and not self.over:
            return part("Ending the case: its processes and memory are cleaned up", "$accent bold")
        width = self.size.width - 2
        return now_line(
            self.session, self.shown, self.over, self._error, width, self.console.glyphs, self._running_seconds
        )

    def _tick(self) -> None:
        """Time stands beside a claim that is tested, memory beside requests; else one line says how long it takes."""
        if (self.session.progress.phase, self.shown) in _TICKING:
            self.draw()
        else:
            self._draw_now()

    @when_whole
    def _draw_now(self) -> None:
        self.query_one("#now", Words).show(self._now())

    @when_whole
    def _draw_host(self) -> None:
        count = len(self._host.gpus)
        devices = "no GPU" if self._host.no_gpu else "1 GPU" if count == 1 else f"{count} GPUs"
        self.query_one(TopBar).set_about(self._host.host, self._engine, devices)
        for pane in self.query(MemoryPane):
            pane.set_view(self._host)

    def plain_text(self) -> str:
        now = self.query_one("#now", Words).shown.plain
        return f"case {self.session.case}\n{now}\n\n{self.query_one(StepPane).body.plain}"

    def moment(self) -> Moment:
        found = find_hypothesis(self.session, self.marked.get(Step.HYPOTHESES))
        log = self.query(LiveLog)
        return Moment(
            place="wizard",
            session=self.session,
            shown=self.shown,
            hypothesis=found[1] if found else None,
            fix=self.marked_fix(),
            over=self.over,
            log_paused=bool(log) and not log.first().following,
            memory_folded=not self.has_class("-wide") or is_log_given(self.session),
            wizard=self._wizard_moment(),
        )

    def _wizard_moment(self) -> WizardMoment:
        session, marked = self.session, self.marked.get(Step.HYPOTHESES)
        is_idle = session.running is None and session.symptom is not None
        return WizardMoment(
            has_more_causes=self.shown is Step.HYPOTHESES and has_folded(session, marked),
            has_more_fixes=self.shown is Step.FIX and bool(folded_fixes(session, None)),
            shows_all=self.shows_all,
            has_line=line_shown(session, self.shown, self.marked) is not None,
            has_log=not is_log_given(session),
            is_skipped=self.marked.get(Step.FIX) in self.skipped,
            can_draft=is_idle and (self.shown is Step.VERIFY or self.over),
            can_write_deployment=bool(session.log_sources) and session.deployment.path is None and is_idle,
        )

    # What widgets say

    def mark(self, choice: str) -> None:
        self.marked[self.shown] = choice
        self.draw()

    async def on_choice_list_taken(self) -> None:
        for action_id in ("run_experiment", "apply_fix"):
            await self.action_do(action_id)

    def on_step_header_clicked(self, message: StepHeader.Clicked) -> None:
        self.action_look_at(message.step)

    def on_log_view_moved(self) -> None:
        self.refresh_keys()
