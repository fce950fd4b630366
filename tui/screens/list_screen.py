"""A screen of the tab line that is one list: filtered by words, one of it opened."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from tui.actions import ListMoment, Moment
from tui.screens.base import when_whole
from tui.screens.dialogs import AskText
from tui.screens.opens_logs import OpensLogs
from tui.widgets.choice_list import ChoiceList
from tui.widgets.key_bar import KeyBar
from tui.widgets.one_line import TabLine, draw_tabs
from tui.widgets.step_pane import Body, StepPane
from tui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from tui.action import Place
    from tui.widgets.memory_pane import HostView


class ListScreen(OpensLogs):
    """`tab` is the action that leads here, `place` its name for actions."""

    tab: str
    place: Place
    filter_question: str

    def __init__(self) -> None:
        super().__init__()
        self.filter_words = ""
        self.marked: str | None = None
        self._host = ""

    def compose(self) -> ComposeResult:
        glyphs = self.console.glyphs
        yield TopBar(glyphs, self.console.backend.clock)
        yield TabLine(glyphs, id="tabs")
        yield StepPane(glyphs, self._mark, id="list")
        yield KeyBar(glyphs)

    def on_mount(self) -> None:
        self.begin()
        self.draw()

    @abstractmethod
    def begin(self) -> None:
        """Starts to read what is listed."""

    @abstractmethod
    def body(self, width: int) -> Body:
        """The list, for one width."""

    @abstractmethod
    def shown_ids(self) -> list[str]:
        """What can be marked, in the order of the list."""

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    @when_whole
    def draw(self) -> None:
        ids = self.shown_ids()
        if self.marked not in ids:
            self.marked = ids[0] if ids else None
        self.query_one(TopBar).set_about(self._host, "", "")
        self.query_one(TabLine).show(draw_tabs(self.tab, (), max(self.size.width - 2, 1)))
        pane = self.query_one(StepPane)
        pane.set_body(self.body(pane.text_width))
        (self.query_one(ChoiceList) if ids else pane).focus()
        self.refresh_keys()

    def set_host(self, view: HostView) -> None:
        if view.host != self._host:
            self._host = view.host
            self.draw()

    def _mark(self, choice: str) -> None:
        self.marked = choice
        self.draw()

    def has_words(self, *texts: str) -> bool:
        """Whether the filter's words are all in `texts`."""
        text = " ".join(texts).lower()
        return all(word in text for word in self.filter_words.lower().split())

    def do_filter_list(self) -> None:
        hint = "Words that all have to be there. Nothing: all of them."
        self.app.push_screen(AskText(self.console.glyphs, self.filter_question, hint, self.filter_words), self._filter)

    def _filter(self, text: str | None) -> None:
        if text is not None:
            self.filter_words = text
            self.draw()

    def do_unfilter_list(self) -> None:
        self._filter("")

    async def on_tab_line_chosen(self, message: TabLine.Chosen) -> None:
        await self.action_do(message.action_id)

    async def on_choice_list_taken(self) -> None:
        await self.action_do("open_marked")

    def plain_text(self) -> str:
        return self.query_one(StepPane).body.plain

    def moment(self) -> Moment:
        return Moment(place=self.place, list=self.list_moment())

    def list_moment(self) -> ListMoment:
        return ListMoment(has_marked=self.marked is not None, is_filtered=bool(self.filter_words))
