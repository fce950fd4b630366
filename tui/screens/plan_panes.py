"""The plan's picture: GPUs, models, the chosen one in full, what is proposed. Drawn from one state; nothing is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.memory.cards import CPU
from tui.actions import Moment, PlanMoment
from tui.plan_values import WORDS, placed, shown
from tui.screens.base import when_whole
from tui.screens.paned import PanedScreen
from tui.screens.plan_layout import PANES, Pane, heights
from tui.widgets.clean_text import clean
from tui.widgets.model_table import gpu_range
from tui.widgets.one_line import draw_tabs
from tui.widgets.plan_advice import Proposed, draw_plan_advice
from tui.widgets.plan_detail import PlanText, draw_plan_detail, fold_plan_detail
from tui.widgets.plan_gpus import PlanGpus, draw_plan_gpus, fold_plan_gpus
from tui.widgets.plan_models import Look, PlanModels, draw_plan_models
from tui.widgets.plan_stacks import stacks_of
from tui.widgets.row_pane import MARK_CELLS, PaneContent, Row, RowPane, apart, cells_of, fit, plain_of
from tui.widgets.words import gib, wrapped

if TYPE_CHECKING:
    from playbooks.placement import Plan
    from tui.plan_state import PlanState
    from tui.plan_values import Field
    from tui.widgets.plan_stacks import Stack

_CLASSES: dict[Pane, type[RowPane]] = {
    "gpus": PlanGpus,
    "models": PlanModels,
    "detail": PlanText,
    "advice": PlanText,
}

_OTHER_ROWS = 14
"""With fewer left for headings, the chosen model and what is proposed, GPUs that hold the same are one row."""


class PlanPanes(PanedScreen[Pane]):
    """`state` None: nothing is read yet, and `said` is what there is to say."""

    def __init__(self) -> None:
        super().__init__({name: _CLASSES[name] for name in PANES}, last_line="hint")
        self.state: PlanState | None = None
        self.said: tuple[str, str] = ("", "")
        """Words and their style, where there is no plan to show."""
        self.proposed: Proposed | None = None
        self.focus_on: Field = "utilization"

    @property
    def source(self) -> str:
        """Where the models come from, in a word or two."""
        return ""

    @property
    def chosen(self) -> str:
        """The marked model's name."""
        assert self.state is not None
        names = [model.name for model in self.state.deployment.models]
        marked = self.panes["models"].marked
        return marked if marked in names else names[0]

    # Drawing

    @when_whole
    def draw(self) -> None:
        width = self.size.width - 2
        if width < 1 or not self._last.is_attached:
            return
        if self.state is None:
            self._draw_nothing(width)
        else:
            self._draw_plan(self.state, width)
        self._draw_lines(width)
        self.refresh_keys()

    def _draw_nothing(self, width: int) -> None:
        words, style = self.said
        rows: tuple[Row, ...] = tuple(((line.plain, style),) for line in wrapped(clean(words), max(width - 2, 8)))
        ways = "c another file   h other GPUs   v another release   R read again"
        content = PaneContent((("Memory plan", "bold"),), (*rows, (), ((ways, "$quiet"),)))
        shown = dict.fromkeys(PANES, 0) | {"detail": max(self.room, 1)}
        self._give_heights(shown)
        self.panes["detail"].set_content(content)

    def _draw_plan(self, state: PlanState, width: int) -> None:
        plan, text = state.plan, max(width - MARK_CELLS, 1)
        glyphs, name = self.console.glyphs, self.chosen
        on_cpu = any(card.family == CPU for card in plan.cards)
        stacks = stacks_of(plan)
        look = Look(state.changed(), self.focus_on, name, state.has_other_order, glyphs)
        opened: dict[Pane, PaneContent] = {
            "gpus": draw_plan_gpus(stacks, on_cpu, text, glyphs),
            "models": draw_plan_models(plan, look, text),
            "detail": draw_plan_detail(plan, state.file_plan, name, text),
            "advice": draw_plan_advice(self.proposed, state, _host_words(plan), text),
        }
        height = self.room
        if len(stacks) + len(plan.models) + _OTHER_ROWS > height:
            stacks = stacks_of(plan, joins_alike=True)
            opened["gpus"] = draw_plan_gpus(stacks, on_cpu, text, glyphs)
        self._give_heights(heights({pane: len(content.rows) + 1 for pane, content in opened.items()}, height))
        for pane, content in opened.items():
            is_open = self._heights[pane] > 1 or not content.rows
            self.panes[pane].set_content(content if is_open else self._folded(pane, content, stacks, plan, width))

    def _folded(
        self, pane: Pane, content: PaneContent, stacks: tuple[Stack, ...], plan: Plan, width: int
    ) -> PaneContent:
        if pane == "gpus":
            return fold_plan_gpus(stacks, width)
        return fold_plan_detail(plan, self.chosen, width) if pane == "detail" else PaneContent(content.heading)

    def _give_heights(self, given: dict[Pane, int]) -> None:
        self.give(given)
        focused = self.focused
        if not isinstance(focused, RowPane) or not focused.can_focus:
            first = self.panes["models"] if self.panes["models"].can_focus else self.panes["detail"]
            self.set_focus(first if first.can_focus else None)

    def _draw_lines(self, width: int) -> None:
        state = self.state
        right: Row = ()
        if state is not None and (state.changes or state.saved):
            count = len(state.changes)
            words = f"{'one change' if count == 1 else f'{count} changes'} tried, not saved" if count else "saved"
            right = ((words, "$warning bold" if count else "$success"),)
        self._tabs.show(draw_tabs("tab_plan", right, width))
        self._top.show(self._top_row(width))
        self._last.show(fit(self._hint_row(), width))

    def _top_row(self, width: int) -> Row:
        title = ("vllm-console", "$accent bold")
        state = self.state
        if state is None:
            return fit((title, ("   memory plan", "$quiet")), width)
        plan = state.plan
        release = f"vLLM {plan.version}" if plan.version else "release not known"
        about = " · ".join((clean(self.source), release, hardware_words(plan)))
        right = verdict_words(plan)
        return apart(fit((title, (f"   {about}", "$quiet")), width - cells_of(right) - 2), right, width)

    def _hint_row(self) -> Row:
        state = self.state
        if state is None:
            return ()
        name = self.chosen
        model, written = placed(state.plan, name), placed(state.file_plan, name)
        now, before = shown(model, self.focus_on), shown(written, self.focus_on)
        words = f"+ − change the {WORDS[self.focus_on]} of {clean(name)}, now {now}"
        return ((words, ""), (f", in the file {before}" if now != before else "", "$accent"))

    # For others

    def moment(self) -> Moment:
        state = self.state
        if state is None:
            return Moment(place="plan", plan=PlanMoment(is_bare=self.has_class("-bare")))
        return Moment(
            place="plan",
            plan=PlanMoment(
                is_read=True,
                is_changed=bool(state.changes),
                can_step_back=bool(state.tried),
                can_undo=bool(state.saved),
                has_proposal=self.proposed is not None and self.proposed.deployment is not None,
                has_several=len(state.deployment.models) > 1,
                is_bare=self.has_class("-bare"),
            ),
        )

    def on_resize(self) -> None:
        self.draw()

    def on_row_pane_moved(self) -> None:
        self.draw()

    def plain_text(self) -> str:
        glyphs = self.console.glyphs
        top = glyphs.text(plain_of(self._top.content.heading))
        return "\n".join([top, *(pane.plain for pane in self.panes.values() if pane.display)]) + "\n"


def verdict_words(plan: Plan) -> Row:
    """What does not fit, and where."""
    failing = [model for model in plan.models if not model.fits]
    if not failing:
        return (("all fit" if len(plan.models) > 1 else "it fits", "$success bold"),)
    words = []
    for model in failing:
        gpus = gpu_range(model.gpus)
        words.append(f"{clean(model.launch.name, 30)}{f' on GPU {gpus}' if gpus else ''}")
    more = f" and {len(words) - 2} more" if len(words) > 2 else ""
    return ((f"does not fit: {', '.join(words[:2])}{more}", "$error bold"),)


def hardware_words(plan: Plan) -> str:
    """Such as 8×A100-80GB."""
    names = [clean(card.name).removeprefix("NVIDIA ") for card in plan.cards]
    return " + ".join(f"{names.count(name)}×{name}" for name in dict.fromkeys(names))


def _host_words(plan: Plan) -> str:
    ram, shm = plan.host.ram, plan.host.shm
    if isinstance(ram, Unknown) or not any(model.fits for model in plan.models):
        return ""
    words = f"host: processes take about {gib(ram.value)} GiB of memory"
    return words if isinstance(shm, Unknown) or not shm.value else f"{words}, up to {gib(shm.value)} GiB of /dev/shm"
