"""The cases that are kept: opened read-only in the wizard's panes, gone on with where one was cut off."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from engine_probe.errors import InputError
from playbooks.kept_cases import KeptCase, kept_cases
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

    def begin(self) -> None:
        self.run_worker(self._read(), name="cases", exclusive=True)

    async def _read(self) -> None:
        self._cases = (await asyncio.to_thread(kept_cases, self.console.backend.state))[::-1]
        self.draw()

    def _shown(self) -> list[KeptCase]:
        return [one for one in self._cases or () if self.has_words(one.name, one.title, one.kind, _state(one))]

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
        head = part("  " + cell("case", _NAME + 2) + cell("what", _STATE) + "and what came of it", "$quiet")
        return Body(
            choices=(Choice(None, (head,)), *(Choice(one.name, (_row(one, width - 2),)) for one in shown)),
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
        return replace(super().list_moment(), can_resume=case is not None and not case.has_report)


def _state(case: KeptCase) -> str:
    return case.kind if case.has_report else "cut off"


def _row(case: KeptCase, width: int) -> Content:
    style = "$warning" if not case.has_report else "$quiet"
    title = case.title.removeprefix(f"Case {case.name}: ")
    left = part(cell(case.name, _NAME) + "  ") + part(cell(_state(case), _STATE), style)
    return left + part(cut(clean(title), max(width - left.cell_length, 8)))
