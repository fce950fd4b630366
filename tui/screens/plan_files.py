"""What the plan's screen reads, proposes and writes: all of it in threads, so that keys go on working."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from textual import work
from textual.message import Message

from engine_probe.changes import diff
from engine_probe.deployment import deployment_yaml
from engine_probe.errors import InputError
from playbooks.way_back import will_change
from tui.new_file import write_new
from tui.plan_state import PlanState
from tui.screens.dialogs import AskText, Confirm
from tui.screens.leaving import short_path
from tui.screens.plan_panes import PlanPanes, verdict_words
from tui.widgets.clean_text import clean
from tui.widgets.row_pane import plain_of
from tui.widgets.words import lines, part

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.content import Content
    from textual.timer import Timer

    from engine_probe.launch import Deployment
    from engine_probe.revisions import Revision
    from playbooks.placement import Plan
    from tui.widgets.plan_advice import Proposed

_PROPOSE_AFTER_SECONDS = 0.3
_STYLES = {"+": "$success", "-": "$error"}


class PlanFiles(PlanPanes):
    """A newer reading, and a newer plan, make an older answer void."""

    class Read(Message):
        """The file and its models were read, or cannot be."""

        def __init__(self, turn: int, state: PlanState | None, trouble: str) -> None:
            super().__init__()
            self.turn, self.state, self.trouble = turn, state, trouble

    class Found(Message):
        """Something that fits was looked for."""

        def __init__(self, plan: Plan, proposed: Proposed) -> None:
            super().__init__()
            self.plan, self.proposed = plan, proposed

    def __init__(self, path: Path | None = None, gpus: str | None = None, version: str | None = None) -> None:
        """`path` None: none is chosen yet."""
        super().__init__()
        self.path, self.gpus, self.version = path, gpus, version
        self.of_running = False
        """The servers of this host are planned, and no file."""
        self._turn = 0
        self._soon: Timer | None = None

    @property
    def shown_path(self) -> str:
        return short_path(str(self.path)) if self.path is not None else ""

    @property
    def source(self) -> str:
        return self.path.name if self.path is not None else "what runs here" if self.of_running else "no file"

    # Reading

    def on_mount(self) -> None:
        self.read()

    def read(self) -> None:
        """All of it, from disk and driver. What is tried is gone then; what was saved can still be taken back."""
        self._turn += 1
        saved = self.state.saved if self.state is not None else ()
        self.state = self.proposed = None
        if self.path is None and not self.of_running:
            self.said = ("No deployment is chosen yet.", "")
        else:
            self.said = (f"Reading {self.shown_path or 'what runs here'}, its models and the GPUs", "$quiet")
            self._read(self._turn, tuple(one for one in saved if one.path == self.path))
        self.draw()

    @work(thread=True, group="read")
    def _read(self, turn: int, saved: tuple[Revision, ...]) -> None:
        from tui.plan_inputs import read_inputs, running_inputs  # noqa: PLC0415 -- in the thread that reads

        path, gpus, version = self.path, self.gpus, self.version
        try:
            inputs = read_inputs(path, gpus, version) if path is not None else running_inputs(version)
            state, trouble = PlanState.of(inputs, saved), ""
        except InputError as error:
            state, trouble = None, str(error)
        self.post_message(self.Read(turn, state, trouble))

    def on_plan_files_read(self, message: Read) -> None:
        if message.turn != self._turn:
            return
        if message.state is None:
            self.said = (message.trouble, "$error")
            self.draw()
        else:
            failing = next((model.launch.name for model in message.state.plan.models if not model.fits), None)
            self.show_state(message.state)
            self.panes["models"].mark(failing or self.chosen)
            self.set_focus(self.panes["models"])

    def show_state(self, state: PlanState) -> None:
        """Drawn at once; what is proposed for it comes when it was found."""
        if self.state is None or state.plan != self.state.plan:
            self.proposed = None
            self._ask_soon(state.plan)
        self.state = state
        self.draw()

    # Proposals

    def _ask_soon(self, plan: Plan) -> None:
        """Not for each of many keys in a row."""
        if self._soon is not None:
            self._soon.stop()
        self._soon = None if plan.fits else self.set_timer(_PROPOSE_AFTER_SECONDS, lambda: self._look_for(plan))

    @work(thread=True, group="propose")
    def _look_for(self, plan: Plan) -> None:
        from tui.plan_proposed import proposed_for  # noqa: PLC0415 -- in the thread that looks for it

        self.post_message(self.Found(plan, proposed_for(plan)))

    def on_plan_files_found(self, message: Found) -> None:
        if self.state is not None and message.plan is self.state.plan:
            self.proposed = message.proposed
            self.draw()

    # Saving

    def do_save_plan(self) -> None:
        """What is tried; where nothing is, what is proposed."""
        state = self.state
        if state is None:
            return
        why: tuple[tuple[str, str], ...] = ()
        if not state.changes and self.proposed is not None and self.proposed.deployment is not None:
            why = self.proposed.changes
            state = state.with_tried(self.proposed.deployment)
        if state.inputs.deployment.path is None:
            self._ask_for_new(state)
            return
        ask = Confirm(self.console.glyphs, "Save this to the file?", _about(state, why), "save", "not now")
        wanted = state

        def answered(yes: bool | None) -> None:
            if yes:
                self._write(wanted.save, "Saved: ")

        self.app.push_screen(ask, answered)

    def _ask_for_new(self, state: PlanState) -> None:
        """A compose file, a script and what runs are never changed."""
        hint = "A deployment file is made of what is shown; what it came from stays as it is."
        ask = AskText(self.console.glyphs, "Save as which new file?", hint, "deployment.yaml", trouble_with_new)

        def take(text: str | None) -> None:
            if text:
                self._write_new(state.deployment, Path(text).expanduser())

        self.app.push_screen(ask, take)

    @work(exclusive=True, group="write")
    async def _write_new(self, deployment: Deployment, path: Path) -> None:
        try:
            await asyncio.to_thread(write_new, path, deployment_yaml(deployment))
        except InputError as trouble:
            self.tell(str(trouble), style="$error bold")
            return
        self.path, self.of_running = path, False
        self.read()
        self.tell("Written: ", self.shown_path)

    def do_undo_saved(self) -> None:
        assert self.state is not None
        self._write(self.state.undo_saved, "As it was before: ")

    @work(exclusive=True, group="write")
    async def _write(self, write: Callable[[], PlanState], words: str) -> None:
        try:
            state = await asyncio.to_thread(write)
        except InputError as trouble:
            self.tell(str(trouble), style="$error bold")
            return
        self.show_state(state)
        self.tell(words, self.shown_path)


def trouble_with_new(text: str) -> str | None:
    if not text:
        return "Write the path of a new file, such as deployment.yaml."
    return "It is there already; a new file is wanted." if Path(text).expanduser().exists() else None


def _about(state: PlanState, why: tuple[tuple[str, str], ...]) -> Content:
    """The difference, then what it leads to, then which file changes and what stays of it."""
    before = state.inputs.deployment
    rows = [part(clean(line), _STYLES.get(line[:1], "")) for line in diff(before, state.deployment)]
    reasons = [part(f"{clean(what)}: {clean(reason)}", "$quiet") for what, reason in why]
    after = part(f"With this: {plain_of(verdict_words(state.plan))}.")
    file = [part(clean(line), "$quiet") for line in will_change(before)]
    return lines([*rows, *([part(""), *reasons] if reasons else []), part(""), after, *file])
