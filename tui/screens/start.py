"""The wizard's first screen: what this host has, in words, and what can be done with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll

from tui import actions
from tui.actions import Moment
from tui.running import LAB_CASE
from tui.screens.base import when_whole
from tui.screens.dialogs import AskText
from tui.screens.opens_logs import OpensLogs, trouble_with_path
from tui.widgets.choice_list import Choice, ChoiceList
from tui.widgets.key_bar import KeyBar
from tui.widgets.memory_pane import HostView, draw_host, number
from tui.widgets.one_line import TabLine, draw_tabs
from tui.widgets.top_bar import TopBar
from tui.widgets.words import Words, cell, gib, lines, part, wrapped

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

    from tui.running import EngineView
    from tui.themes.glyphs import Glyphs

_CHOICES = (
    ("open", "Open a deployment", "a YAML file of yours: its models are loaded, what breaks is mended"),
    ("lab", "Try it on a tiny broken model (demo)", f"case {LAB_CASE}: loaded for real, mended and proved"),
)


def draw_start(view: HostView, engine: EngineView | None, width: int, glyphs: Glyphs) -> Content:
    """What this host has."""
    rows = [
        *wrapped("Finds out why vLLM does not load a model, mends it, and proves the mend with a real load.", width),
        part(""),
        part("This host", "bold") + part(f"   {view.host}", "$quiet"),
        *_engine_rows(engine, width),
    ]
    host_rows = draw_host(view, width - 2, glyphs).split("\n")
    rows += [part("  ") + row for row in host_rows if not row.plain.startswith("model")]
    rows += _labelled("GPUs", _gpu_words(view), width)
    return lines(rows)


def _gpu_words(view: HostView) -> str:
    """How much of each is free; the monitor shows the rest."""
    if view.no_gpu is not None:
        return f"none, because {view.no_gpu}"
    free = (
        "?" if used is None or total is None else gib(max(total - used, 0.0))
        for used, total in ((number(gpu.used_gib), number(gpu.total_gib)) for gpu in view.gpus)
    )
    return f"{len(view.gpus)}, with {', '.join(free)} GiB free"


def _engine_rows(engine: EngineView | None, width: int) -> list[Content]:
    if engine is None:
        return _labelled("engine", "being looked for", width, "$quiet")
    if engine.missing is not None:
        return _labelled("engine", f"none found, because {engine.missing}", width, "$warning")
    version = f"vLLM {engine.version}   " if engine.version else ""
    return _labelled("engine", version + engine.where, width)


def _labelled(label: str, text: str, width: int, style: str = "") -> list[Content]:
    folded = wrapped(text, width, 13, style)
    return [part("  " + cell(label, 11), "$quiet") + part(folded[0].plain.strip(), style), *folded[1:]]


class StartScreen(OpensLogs):
    """Chooses a case."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("start")]

    def __init__(self) -> None:
        super().__init__()
        self._view, self._engine = HostView(), None
        self._said = ""

    _engine: EngineView | None

    def compose(self) -> ComposeResult:
        yield TopBar(self.console.glyphs, self.console.backend.clock)
        yield TabLine(self.console.glyphs, id="tabs")
        with VerticalScroll(id="page"):
            yield Words(self.console.glyphs, id="text")
            yield ChoiceList(self.console.glyphs, id="choices")
            yield Words(self.console.glyphs, id="said")
        yield KeyBar(self.console.glyphs)

    def on_mount(self) -> None:
        self.query_one("#page").can_focus = False
        self.query_one(ChoiceList).focus()

    def on_resize(self) -> None:
        self._draw()

    def set_host(self, view: HostView) -> None:
        self._view = view
        self._draw()

    def set_engine(self, engine: EngineView) -> None:
        self._engine = engine
        self._draw()

    def say(self, text: str, style: str = "$error") -> None:
        """One sentence below the choices, such as what is wrong with a file."""
        width = max(self.size.width - 6, 30)
        self._said = text
        self.query_one("#said", Words).show(lines(wrapped(text, width, style=style)) if text else part(""))

    @when_whole
    def _draw(self) -> None:
        width = max(min(self.size.width - 5, 120), 30)
        self.query_one(TopBar).set_about(self._view.host, "", "")
        self.query_one(TabLine).show(draw_tabs("tab_wizard", (), max(self.size.width - 2, 1)))
        self.query_one("#text", Words).show(draw_start(self._view, self._engine, width, self.console.glyphs))
        choices = [Choice(None, (part("What to do", "bold"),))]
        for choice, title, about in _CHOICES:
            folded = wrapped(about, width - 5, 0, "$quiet")
            choices.append(Choice(choice, (part(title, "bold"), *folded)))
        picker = self.query_one(ChoiceList)
        picker.set_choices(tuple(choices), picker.marked or "open")
        self.refresh_keys()

    async def on_tab_line_chosen(self, message: TabLine.Chosen) -> None:
        await self.action_do(message.action_id)

    def do_tab_monitor(self) -> None:
        self.app.pop_screen()

    def on_choice_list_taken(self) -> None:
        self.do_choose()

    def do_choose(self) -> None:
        if self.query_one(ChoiceList).marked == "lab":
            self.say("Opening the lab case", "$quiet")
            self.console.open_case(None)
            return
        ask = AskText(
            self.console.glyphs,
            "Which deployment file?",
            "A YAML file; paths in it are relative to its folder.",
            trouble_with=_trouble_with_deployment,
        )
        self.app.push_screen(ask, self._open)

    def _open(self, text: str | None) -> None:
        if text:
            self.say(f"Opening {text}", "$quiet")
            self.console.open_case(Path(text).expanduser())

    def moment(self) -> Moment:
        return Moment(place="start")


def _trouble_with_deployment(text: str) -> str | None:
    return trouble_with_path(text) if text else "Write the path of a file, such as deployment.yaml."
