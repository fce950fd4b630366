"""`1 Symptom ━━ 2 Hypotheses ━━ 3 Fix ── 4 Verify and review`: how far the method has come, and what is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.message import Message
from textual.style import Style

from playbooks.session import Step
from tui.widgets.words import Words, apart, part

if TYPE_CHECKING:
    from textual.events import Click

    from tui.themes.glyphs import Glyphs

STEPS = (Step.SYMPTOM, Step.HYPOTHESES, Step.FIX, Step.VERIFY)
NAMES = {Step.SYMPTOM: "Symptom", Step.HYPOTHESES: "Hypotheses", Step.FIX: "Fix", Step.VERIFY: "Verify and review"}


_SHORT = {**NAMES, Step.VERIFY: "Verify"}
_FULL_NAMES_FROM = 100


def draw_steps(reached: Step, shown: Step, case: str, width: int, glyphs: Glyphs) -> Content:
    reached_number = STEPS.index(reached)
    named = NAMES if width >= _FULL_NAMES_FROM else _SHORT
    names = sum(len(named[step]) + 2 for step in STEPS)
    line_cells = max(2, min(10, (width - names - len(case) - 17) // 3 - 2))
    row = Content("")
    for number, step in enumerate(STEPS):
        if number:
            done = number <= reached_number
            line = (glyphs.line_done if done else glyphs.line_open) * line_cells
            row += part(f" {line} ", "$accent" if done else "$rule")
        row += _name(f"{number + 1} {named[step]}", step, shown, number <= reached_number)
    return apart(row, part(f"   case {case}" if case else "", "$quiet"), width)


def _name(text: str, step: Step, shown: Step, reached: bool) -> Content:
    if step == shown:
        return part(text, "$accent bold underline")
    link = Style.from_meta({"step": step.value})
    return part(text, "" if reached else "$quiet").stylize(link)


class StepHeader(Words):
    """One line; a click on a step looks at it."""

    DEFAULT_CSS = "StepHeader { height: 1; padding: 0 1; }"

    @dataclass
    class Clicked(Message):
        """A step was clicked."""

        step: str

    _state: tuple[Step, Step, str] = (Step.SYMPTOM, Step.SYMPTOM, "")

    def set_steps(self, reached: Step, shown: Step, case: str) -> None:
        self._state = (reached, shown, case)
        self.draw()

    def on_click(self, event: Click) -> None:
        step = event.style.meta.get("step")
        if step:
            self.post_message(self.Clicked(step))

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        self.show(draw_steps(*self._state, self.size.width, self.glyphs))
