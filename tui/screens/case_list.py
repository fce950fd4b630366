"""The cases that are kept: opened read-only in the wizard's panes, gone on with where one was cut off."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from engine_probe.errors import InputError
from playbooks.kept_cases import KeptCase, kept_cases
from playbooks.resuming import still_runs
from tui import actions
from tui.running import Opening
from tui.screens.list_screen import ListScreen
from tui.screens.recorded import RecordedScreen
from tui.screens.report import draw_report
from tui.screens.text_page import TextPage
from tui.widgets.choice_list import Choice
from tui.widgets.clean_text import clean
from tui.widgets.step_pane import Body
from tui.widgets.words import cell, cut, lines, part, wrapped

if TYPE_CHECKING:
    from pathlib import Path

    from textual.binding import BindingType
    from textual.content import Content

    from tui.actions import ListMoment

_NAME = 17
_STATE = 11


class CasesScreen(ListScreen):
    """The newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("cases")]
    tab = "tab_cases"
    place = "cases"
    filter_question = "Which cases?"

    def __init__(self) -> None:
        super().__init__()
        self._cases: list[KeptCase] | None = None
        self._still_running: frozenset[str] = frozenset()
        """Names of those that a console works on now."""

    def begin(self) -> None:
        self.run_worker(self._read(), name="cases", exclusive=True)

    async def _read(self) -> None:
        self._cases, self._still_running = await asyncio.to_thread(_read_cases, self.console.backend.state)
        self.draw()

    def _shown(self) -> list[KeptCase]:
        return [one for one in self._cases or () if self.has_words(one.name, one.title, one.kind, self._state(one))]

    def _state(self, case: KeptCase) -> str:
        if case.has_report:
            return case.kind
        return "still runs" if case.name in self._still_running else "cut off"

    def shown_ids(self) -> list[str]:
        return [one.name for one in self._shown()]

    def body(self, width: int) -> Body:
        if self._cases is None:
            return Body(above=part("The cases are being read.", "$quiet"))
        if not self._cases:
            words = "No case is kept yet. The wizard, `vllm-console replay` and `diagnose --keep` make them."
            return Body(above=lines(wrapped(words, width, style="$quiet")))
        shown = self._shown()
        if not shown:
            return Body(above=part(f"No case has {self.filter_words!r}; esc shows all.", "$warning"))
        head = part("  " + cell("case", _NAME + 2) + cell("what", _STATE) + "cause: what came of it", "$quiet")
        return Body(
            choices=(
                Choice(None, (head,)),
                *(Choice(one.name, _rows(one, self._state(one), width - 2)) for one in shown),
            ),
            marked=self.marked,
        )

    @property
    def _marked_case(self) -> KeptCase | None:
        return next((one for one in self._shown() if one.name == self.marked), None)

    def do_open_marked(self) -> None:
        case = self._marked_case
        if case is None:
            return
        if case.diagnosis is not None:
            self.do_case_report()
        else:
            self.app.push_screen(RecordedScreen(case.folder))

    def do_case_report(self) -> None:
        case = self._marked_case
        if case is None:
            return
        try:
            text = case.report("md")
        except InputError as trouble:
            self.tell(str(trouble), style="$warning")
            return
        page = TextPage(f"report of case {case.name}", "", lambda width: draw_report(text, width).split("\n"))
        self.app.push_screen(page)

    def do_resume_case(self) -> None:
        case = self._marked_case
        if case is not None:
            self.console.back_to_monitor()
            self.console.open_start()
            self.console.open_case(Opening(resume=case.name))

    def list_moment(self) -> ListMoment:
        case = self._marked_case
        return replace(super().list_moment(), can_resume=case is not None and self._state(case) == "cut off")


def _read_cases(state: Path) -> tuple[list[KeptCase], frozenset[str]]:
    """The newest first, and which of them a console works on now."""
    cases = kept_cases(state)[::-1]
    return cases, frozenset(one.name for one in cases if not one.has_report and still_runs(one.folder))


def _rows(case: KeptCase, state: str, width: int) -> tuple[Content, ...]:
    """The cause and what came of it; below, what the case is of and when it ended."""
    one = case.summary
    left = part(cell(case.name, _NAME) + "  ") + part(cell(state, _STATE), "$quiet" if case.has_report else "$warning")
    came = " ".join(filter(None, (one.fix, one.end)))
    words = ": ".join(filter(None, (one.cause, came))) or "nothing is known of it"
    first = left + part(cut(clean(words), max(width - left.cell_length, 8)))
    about = "  ".join(filter(None, (one.when, one.model)))
    rest = max(width - _NAME - 4 - len(about), 8)
    source = one.source if len(one.source) <= rest else "…" + one.source[1 - rest :]
    second = " " * (_NAME + 2) + clean("  ".join(filter(None, (about, source))))
    return (first, part(cut(second, width), "$quiet")) if second.strip() else (first,)
