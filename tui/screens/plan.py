"""The memory plan: do these models fit together. Keys try other values, and the bars move at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine_probe.errors import InputError
from tui import actions
from tui.plan_values import FIELDS
from tui.plan_whatif import CannotStepError, gpus_in, moved, stepped, with_gpus
from tui.screens.dialogs import AskText
from tui.screens.opens_logs import trouble_with_path
from tui.screens.plan_files import PlanFiles
from tui.terminal_mouse import take_mouse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.content import Content

    from engine_probe.launch import Deployment
    from tui.plan_values import Field
    from tui.widgets.one_line import TabLine
    from tui.widgets.plan_models import PlanModels
    from tui.widgets.row_pane import RowPane


class PlanScreen(PlanFiles):
    """Keys, and what opens over it."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("plan")]

    # What if

    def do_more(self) -> None:
        self._step(1)

    def do_less(self) -> None:
        self._step(-1)

    def _step(self, by: int) -> None:
        assert self.state is not None
        try:
            self.try_out(stepped(self.state.plan, self.chosen, self.focus_on, by))
        except CannotStepError as end:
            self.tell(str(end), style="$warning bold")

    def do_later(self) -> None:
        self._move(1)

    def do_earlier(self) -> None:
        self._move(-1)

    def _move(self, by: int) -> None:
        assert self.state is not None
        try:
            self.try_out(moved(self.state.deployment, self.chosen, by))
        except CannotStepError as end:
            self.tell(str(end), style="$warning bold")

    def try_out(self, deployment: Deployment) -> None:
        assert self.state is not None
        try:
            self.show_state(self.state.with_tried(deployment))
        except InputError as trouble:
            self.tell(str(trouble), style="$error bold")

    def do_try_proposal(self) -> None:
        if self.proposed is not None and self.proposed.deployment is not None:
            self.try_out(self.proposed.deployment)

    def do_step_back(self) -> None:
        assert self.state is not None
        self.show_state(self.state.step_back())

    def do_reset_plan(self) -> None:
        assert self.state is not None
        self.try_out(self.state.inputs.deployment)

    # Which value

    def do_choose_utilization(self) -> None:
        self._focus("utilization")

    def do_choose_length(self) -> None:
        self._focus("length")

    def do_choose_tp(self) -> None:
        self._focus("tp")

    def do_choose_sequences(self) -> None:
        self._focus("sequences")

    def do_value_left(self) -> None:
        self._focus(self._beside(-1))

    def do_value_right(self) -> None:
        self._focus(self._beside(1))

    def _beside(self, by: int) -> Field:
        return FIELDS[(FIELDS.index(self.focus_on) + by) % len(FIELDS)]

    def _focus(self, value: Field) -> None:
        self.focus_on = value
        self.draw()

    def do_plan_gpus(self) -> None:
        assert self.state is not None
        name, deployment = self.chosen, self.state.deployment
        there = [card.index for card in self.state.plan.cards]
        launch = deployment.launch(name)
        assert launch is not None
        self._focus("gpus")

        def trouble_with(text: str) -> str | None:
            return trouble_with_gpus(text, there)

        def take(text: str | None) -> None:
            if text is not None:
                self.try_out(with_gpus(deployment, name, gpus_in(text, there) if text else None))

        hint = f"Of {min(there)} to {max(there)}, such as 0-3 or 0,2. Nothing: whichever vLLM takes, from the first on."
        now = ", ".join(map(str, launch.gpus or ()))
        self.app.push_screen(AskText(self.console.glyphs, f"Which GPUs for {name}?", hint, now, trouble_with), take)

    # The mouse

    def on_plan_models_value_chosen(self, message: PlanModels.ValueChosen) -> None:
        self._focus(message.field)

    async def on_row_pane_taken(self, message: RowPane.Taken) -> None:
        if message.pane is self.panes["models"]:
            await self.action_do("plan_details")

    async def on_tab_line_chosen(self, message: TabLine.Chosen) -> None:
        await self.action_do(message.action_id)

    # What opens over it, and ways out

    def do_plan_details(self) -> None:
        from tui.screens.facts_dialog import FactsDialog  # noqa: PLC0415 -- seldom wanted
        from tui.widgets.plan_detail import details, title  # noqa: PLC0415 -- as above

        state, name = self.state, self.chosen
        assert state is not None

        def draw(width: int) -> Content:
            return details(state.plan, state.file_plan, name, width)

        self.app.push_screen(FactsDialog(self.console.glyphs, title(state.plan, name), draw))

    def do_other_file(self) -> None:
        def take(text: str | None) -> None:
            if text is not None:
                self.path, self.of_running = (Path(text).expanduser(), False) if text else (None, True)
                self.read()

        hint = "A deployment, docker compose or shell file with vllm serve. Nothing: the servers that run on this host."
        ask = AskText(self.console.glyphs, "Which models?", hint, self.shown_path, trouble_with_source)
        self.app.push_screen(ask, take)

    def do_read_again(self) -> None:
        self.read()

    def do_hardware(self) -> None:
        def take(text: str | None) -> None:
            if text is not None:
                self.gpus = text or None
                self.read()

        hint = "Such as 8xA100-80GB or 2xH100-80GB,1xL4-24GB. Nothing: the GPUs of this host."
        self.app.push_screen(AskText(self.console.glyphs, "Which GPUs are planned for?", hint, self.gpus or ""), take)

    def do_release(self) -> None:
        def take(text: str | None) -> None:
            if text is not None:
                self.version = text or None
                self.read()

        hint = "Such as 0.19.0. Nothing: that of the engine here, if it can be told."
        self.app.push_screen(AskText(self.console.glyphs, "Which release of vLLM?", hint, self.version or ""), take)

    def do_plan_theme(self) -> None:
        self.console.do_theme()

    def do_bare_plan(self) -> None:
        is_bare = not self.has_class("-bare")
        self.set_class(is_bare, "-bare")
        take_mouse(self.app, not is_bare)
        self.draw()

    def on_screen_suspend(self) -> None:
        take_mouse(self.app, True)

    def on_screen_resume(self) -> None:
        take_mouse(self.app, not self.has_class("-bare"))
        self.draw()

    def do_back(self) -> None:
        if self.has_class("-bare"):
            self.do_bare_plan()
        else:
            super().do_back()

    def do_tab_monitor(self) -> None:
        self.console.back_to_monitor()

    def do_tab_wizard(self) -> None:
        self.console.back_to_monitor()
        self.console.open_start()


def trouble_with_source(text: str) -> str | None:
    return trouble_with_path(text) if text else None


def trouble_with_gpus(text: str, there: Sequence[int]) -> str | None:
    try:
        gpus_in(text or str(there[0]), there)
    except CannotStepError as trouble:
        return str(trouble)
    return None
