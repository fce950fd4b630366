"""The wizard's first screen: what this host has, in words, and what can be done with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.containers import VerticalScroll

from engine_probe.errors import InputError, nearest_word
from tui import actions
from tui.actions import Moment
from tui.running import LAB_CASE, Opening
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
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

    from tui.running import EngineView
    from tui.themes.glyphs import Glyphs

_CHOICES = (
    ("open", "Open a deployment", "a YAML file of yours: its models are loaded, what breaks is mended"),
    ("log", "Begin from a log", "what vLLM printed: the cause and what mends it, without loading anything"),
    ("lab", "Try it on a tiny broken model (demo)", f"case {LAB_CASE}: loaded for real, mended and proved"),
    ("fault", "Break it another way", "any fault of the lab, by its name: vllm-console lab list"),
    ("cases", "Look at a past case", "step by step, as it was; a case that was cut off can go on"),
)


_TALL_FROM, _LOW_FROM = 36, 22
_LOG_HINT = "A file of any size, or docker:NAME, unit:NAME, pod:NAME, ssh:HOST:FILE. Nothing is loaded."


def draw_start(
    view: HostView,
    engine: EngineView | None,
    width: int,
    glyphs: Glyphs,
    *,
    is_brief: bool = False,
    is_briefest: bool = False,
) -> Content:
    """What this host has; `is_brief` where what to do would not fit below, `is_briefest` where that needs all rows."""
    if is_briefest:
        return lines([row.truncate(width, ellipsis=True) for row in _engine_rows(engine, 10_000)])
    rows = [
        *wrapped("Finds out why vLLM does not load a model, mends it, and proves the mend with a real load.", width),
        part(""),
        part("This host", "bold") + part(f"   {view.host}", "$quiet"),
        *_engine_rows(engine, width),
    ]
    hidden = ("model", "container", "/dev/shm") if is_brief else ("model",)  # noqa: S108 -- shown, not opened
    host_rows = draw_host(view, width - 2, glyphs).split("\n")
    rows += [part("  ") + row for row in host_rows if not row.plain.startswith(hidden)]
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
        self._cut_off: str | None = None
        """The name of the newest case, where it was cut off."""

    _engine: EngineView | None

    def compose(self) -> ComposeResult:
        yield TopBar(self.console.glyphs, self.console.backend.clock)
        yield TabLine(self.console.glyphs, id="tabs")
        with VerticalScroll(id="page"):
            yield Words(self.console.glyphs, id="text")
            yield ChoiceList(self.console.glyphs, on_marked=lambda _choice: self._draw(), id="choices")
            yield Words(self.console.glyphs, id="said")
        yield KeyBar(self.console.glyphs)

    def on_mount(self) -> None:
        self.query_one("#page").can_focus = False
        self.query_one(ChoiceList).focus()
        self.run_worker(self._look_for_cut_off(), name="cut off", exclusive=True)

    async def _look_for_cut_off(self) -> None:
        """What a lost connection left is offered first."""
        from playbooks.resuming import unfinished  # noqa: PLC0415 -- in a thread: it reads cases

        found = await asyncio.to_thread(unfinished, self.console.backend.state)
        if found is not None:
            self._cut_off = found.case.name
            self.query_one(ChoiceList).marked = "resume"
            self._draw()

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
        said = self.query_one("#said", Words)
        said.show(lines(wrapped(text, width, style=style)) if text else part(""))
        if text:
            self.call_after_refresh(said.scroll_visible, animate=False)

    @when_whole
    def _draw(self) -> None:
        width = max(min(self.size.width - 5, 120), 30)
        self.query_one(TopBar).set_about(self._view.host, "", "")
        self.query_one(TabLine).show(draw_tabs("tab_wizard", (), max(self.size.width - 2, 1)))
        is_low, is_lowest = self.size.height < _TALL_FROM, self.size.height < _LOW_FROM
        self.query_one("#text", Words).show(
            draw_start(self._view, self._engine, width, self.console.glyphs, is_brief=is_low, is_briefest=is_lowest)
        )
        picker = self.query_one(ChoiceList)
        marked = picker.marked or "open"
        choices = [Choice(None, (part("What to do", "bold"),))]
        resume = ("resume", f"Go on with case {self._cut_off}", "it was cut off; what it had found is not done again")
        for choice, title, about in (*([resume] if self._cut_off is not None else []), *_CHOICES):
            is_whole = self.size.height >= _TALL_FROM or choice == marked
            folded = wrapped(about, width - 5, 0, "$quiet") if is_whole else []
            choices.append(Choice(choice, (part(title, "bold"), *folded)))
        picker.set_choices(tuple(choices), marked)
        self.refresh_keys()

    async def on_tab_line_chosen(self, message: TabLine.Chosen) -> None:
        await self.action_do(message.action_id)

    def do_tab_monitor(self) -> None:
        self.app.pop_screen()

    def on_choice_list_taken(self) -> None:
        self.do_choose()

    def do_choose(self) -> None:
        choice = self.query_one(ChoiceList).marked
        if choice == "cases":
            self.console.do_tab_cases()
        elif choice == "lab":
            self._open_case(Opening(), "the lab case")
        elif choice == "resume":
            self._open_case(Opening(resume=self._cut_off), f"case {self._cut_off}")
        elif choice == "log":
            self._ask("Which log?", _LOG_HINT, _trouble_with_log, self._ask_for_its_deployment)
        elif choice == "fault":
            hint = "Its name, such as weights-cut; the lab makes the model and breaks it."
            self._ask("Which fault?", hint, _trouble_with_fault, self._open_fault)
        else:
            self._ask(
                "Which deployment file?",
                "A YAML file; paths in it are relative to its folder.",
                _trouble_with_deployment,
                lambda text: self._open_case(Opening(deployment=Path(text).expanduser()), text),
            )

    def _ask(
        self, question: str, hint: str, trouble: Callable[[str], str | None], then: Callable[[str], object]
    ) -> None:
        def answered(text: str | None) -> None:
            if text is not None:
                then(text)

        self.app.push_screen(AskText(self.console.glyphs, question, hint, trouble_with=trouble), answered)

    def _ask_for_its_deployment(self, log: str) -> None:
        """Without one the case shows what mends it; with one it can be applied and verified."""

        def opened(text: str) -> None:
            path = Path(text).expanduser() if text else None
            self._open_case(Opening(deployment=path, logs=(log,)), log)

        hint = "Then fixes can be applied and verified. Nothing: the log alone is looked at."
        self._ask("Which deployment file does it belong to?", hint, _trouble_unless_empty, opened)

    def _open_fault(self, name: str) -> None:
        self._open_case(Opening(fault=name), f"fault {name}")

    def _open_case(self, opening: Opening, what: str) -> None:
        self.say(f"Opening {what}", "$quiet")
        self.console.open_case(opening)

    def moment(self) -> Moment:
        return Moment(place="start")


def _trouble_with_deployment(text: str) -> str | None:
    return trouble_with_path(text) if text else "Write the path of a file, such as deployment.yaml."


def _trouble_unless_empty(text: str) -> str | None:
    return trouble_with_path(text) if text else None


def _trouble_with_log(text: str) -> str | None:
    from engine_probe.logs.sources import parse_source  # noqa: PLC0415 -- the first screen needs nothing of logs

    if not text:
        return "Write the path of a log, or docker:NAME, unit:NAME, pod:NAME, ssh:HOST:FILE."
    try:
        source = parse_source(text)
    except InputError as trouble:
        return str(trouble)
    return trouble_with_path(text) if source.kind == "file" else None


def _trouble_with_fault(text: str) -> str | None:
    from playbooks.lab.faults import fault_files  # noqa: PLC0415 -- seldom wanted

    names = [path.stem for path in fault_files()]
    if text in names:
        return None
    nearest = nearest_word(text, names)
    return f"The lab has no fault {text!r}" + (f"; did you mean {nearest}?" if nearest else "; `lab list` names all.")
