"""A past case in the wizard's panes, read-only: stepped through moment by moment, without an engine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from engine_probe.errors import InputError
from playbooks.recorded import PastCase, past_case
from playbooks.resuming import still_runs
from tui import actions
from tui.actions import ListMoment, Moment
from tui.screens.base import when_whole
from tui.screens.report import ReportScreen
from tui.screens.wizard_keeps import KeepsSessions
from tui.screens.wizard_text import Look, body_of, first_choices
from tui.widgets.clean_text import clean
from tui.widgets.key_bar import KeyBar
from tui.widgets.stage_strip import StageStrip
from tui.widgets.step_header import StepHeader
from tui.widgets.step_pane import Body, StepPane
from tui.widgets.top_bar import TopBar
from tui.widgets.words import Words, cut, lines, part, wrapped

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from playbooks.recorded import Moment as PastMoment
    from playbooks.session import Step


class RecordedScreen(KeepsSessions):
    """`folder` is the case's; it is read in a thread."""

    CSS_PATH = "wizard.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("recorded")]

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._past: PastCase | None = None
        self._trouble = ""
        self._runs = False
        self._at = 0
        self._marked: dict[Step, str | None] = {}

    def compose(self) -> ComposeResult:
        glyphs, clock = self.console.glyphs, self.console.backend.clock
        yield TopBar(glyphs, clock)
        yield StepHeader(glyphs, id="steps")
        yield Words(glyphs, id="now")
        yield StageStrip(glyphs, lambda: 0.0, id="stages")
        yield StepPane(glyphs, self._mark, id="step")
        yield KeyBar(glyphs)

    def on_mount(self) -> None:
        self.query_one(TopBar).set_about(f"case {self._folder.name}", "read-only", "")
        self.run_worker(self._read(), name="recorded", exclusive=True)
        self.draw()

    async def _read(self) -> None:
        try:
            self._past = await asyncio.to_thread(past_case, self._folder)
            self._runs = await asyncio.to_thread(still_runs, self._folder)
        except InputError as trouble:  # a playbook of a person's own
            self._trouble = str(trouble)
        self.draw()
        self.query_one(StepPane).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    @property
    def _moments(self) -> tuple[PastMoment, ...]:
        return self._past.moments if self._past is not None else ()

    @when_whole
    def draw(self) -> None:
        pane = self.query_one(StepPane)
        if not self._moments:
            words = self._trouble or "The case is being read."
            if self._past is not None:
                words = f"Nothing can be shown: {self._past.trouble or 'the case had not begun'}."
            pane.set_body(Body(above=lines(wrapped(words, pane.text_width, style="$quiet"))))
            self.refresh_keys()
            return
        now = self._moments[self._at]
        self.session = now.session
        self._marked |= first_choices(now.session, self._marked)
        self.query_one(StepHeader).set_steps(now.session.step, now.step, now.session.case)
        self.query_one(StageStrip).set_stages(now.session.stages)
        self.query_one("#now", Words).show(part(cut(self._about(now), self.size.width - 2), "bold"))
        pane.set_body(
            body_of(now.session, Look(now.step, self._marked, folds=False), pane.text_width, self.console.glyphs)
        )
        self.refresh_keys()

    def _about(self, now: PastMoment) -> str:
        is_last = self._at + 1 == len(self._moments)
        if is_last and self._runs:
            return f"{self._at + 1} of {len(self._moments)}: its console still runs"
        about = f"{self._at + 1} of {len(self._moments)}: {clean(now.title)}"
        if is_last and self._past is not None and self._past.trouble:
            return f"{about}; {self._past.trouble}"
        return about

    def _mark(self, choice: str) -> None:
        self._marked[self._moments[self._at].step] = choice
        self.draw()

    def _go(self, by: int) -> None:
        at = max(0, min(len(self._moments) - 1, self._at + by))
        if at != self._at:
            self._at = at
            self.draw()
            self.query_one(StepPane).scroll_home(animate=False)

    def do_moment_before(self) -> None:
        self._go(-1)

    def do_moment_behind(self) -> None:
        self._go(1)

    def do_recorded_report(self) -> None:
        path = self._folder / "report.md"
        if path.is_file():
            self.app.push_screen(ReportScreen(self._folder.name, path))
        else:
            why = "its console still runs" if self._runs else "it was cut off"
            self.tell(f"This case has no report: {why}", style="$warning")

    def do_recorded_draft(self) -> None:
        if self._moments:
            self._go(len(self._moments))
            self.ask_for_draft()

    def plain_text(self) -> str:
        now = self.query_one("#now", Words).shown.plain
        return f"case {self._folder.name}\n{now}\n\n{self.query_one(StepPane).body.plain}"

    def moment(self) -> Moment:
        return Moment(place="recorded", list=ListMoment(can_step=len(self._moments) > 1))
