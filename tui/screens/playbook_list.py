"""All playbooks by family, one of them opened: what the console knows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from engine_probe.errors import InputError
from playbooks.library import read_library
from playbooks.report import in_words
from tui import actions
from tui.screens.list_screen import ListScreen
from tui.screens.text_page import TextPage
from tui.widgets.choice_list import Choice
from tui.widgets.clean_text import clean
from tui.widgets.playbook import playbook_rows
from tui.widgets.step_pane import Body
from tui.widgets.words import cell, cut, lines, part, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.binding import BindingType
    from textual.content import Content

    from playbooks.library import Loaded

_WIDE, _WIDEST = 100, 134


class PlaybooksScreen(ListScreen):
    """Read in a thread: those of a person may be YAML."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("playbooks")]
    tab = "tab_playbooks"
    place = "playbooks"
    filter_question = "Which playbooks?"

    def __init__(self) -> None:
        super().__init__()
        self._library: tuple[Loaded, ...] | None = None
        self._left_out: tuple[str, ...] = ()
        self._trouble = ""

    def begin(self) -> None:
        self.run_worker(self._read(), name="library", exclusive=True)

    async def _read(self) -> None:
        try:
            read = await asyncio.to_thread(read_library)
            self._library = tuple(sorted(read.playbooks, key=lambda one: (one.spec.family, one.id)))
            self._left_out = read.left_out_words
        except InputError as trouble:  # no home folder
            self._trouble = str(trouble)
        self.draw()

    def _shown(self) -> list[Loaded]:
        return [
            one
            for one in self._library or ()
            if self.has_words(one.id, one.spec.title, one.spec.family, one.spec.kind, one.spec.layer, one.spec.stage)
        ]

    def shown_ids(self) -> list[str]:
        return [one.id for one in self._shown()]

    def body(self, width: int) -> Body:
        if self._trouble:
            return Body(above=lines(wrapped(self._trouble, width, style="$error")))
        if self._library is None:
            return Body(above=part("The playbooks are being read.", "$quiet"))
        shown = self._shown()
        count = f"{len(shown)} of {len(self._library)} playbooks"
        about = f"{count} with {self.filter_words!r}" if self.filter_words else f"{count}, each one root cause"
        left_out = [row for one in self._left_out for row in wrapped(clean(one), width, style="$warning")]
        if not shown:
            return Body(above=lines([*left_out, part(f"{about}: none; esc shows all", "$warning")]))
        return Body(
            above=lines([*left_out, part(about, "$quiet")]),
            choices=tuple(self._choices(shown, width)),
            marked=self.marked,
        )

    def _choices(self, shown: list[Loaded], width: int) -> Iterator[Choice]:
        family = ""
        for one in shown:
            if one.spec.family != family:
                family = one.spec.family
                yield Choice(None, (part(f"{family}", "bold"),))
            yield Choice(one.id, (_row(one, width - 2),))

    def do_open_marked(self) -> None:
        one = next((one for one in self._shown() if one.id == self.marked), None)
        if one is not None:
            self.app.push_screen(TextPage(one.id, one.spec.title, lambda width: playbook_rows(one, width)))


def _row(one: Loaded, width: int) -> Content:
    """The title first: an id is for commands."""
    if width < _WIDE:
        return part(cut(one.spec.title, width))
    where = cell(f"{one.spec.kind} · {in_words(one.spec.stage)}", 34) if width >= _WIDEST else ""
    name = cell(one.id, 45)
    title_width = width - len(where) - len(name) - 2
    return part(cell(one.spec.title, title_width) + "  ") + part(where + name, "$quiet")
