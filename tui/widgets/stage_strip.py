"""The load stages in order, each with a glyph and its seconds; the running one's seconds tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.widgets.words import Words, part, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from playbooks.session import StageTime
    from tui.themes.glyphs import Glyphs

SHORT_NAMES = {
    "config": "config",
    "distributed_init": "dist",
    "engine_build": "engine",
    "worker_start": "workers",
    "weight_load": "weights",
    "memory_planning": "memory",
    "warmup": "warmup",
    "serving": "serving",
}
_STYLES = {"done": "$success", "failed": "$error bold", "running": "$accent bold", "not reached": "$quiet"}


_FORMS = (
    ("all", "   ", " "),
    ("all", "  ", " "),
    ("notable", "  ", " "),
    ("notable", " ", " "),
    ("notable", " ", ""),
    ("none", " ", ""),
)


def draw_stages(stages: Sequence[StageTime], width: int, glyphs: Glyphs, running_since: float = 0.0) -> Content:
    """The widest form that fits `width`. `running_since`: seconds since the running stage's value was told."""
    row = Content("")
    for form, gap, inner in _FORMS:
        shown = stages
        if form != "all" and stages and stages[-1].stage == "serving" and stages[-1].state == "not reached":
            shown = stages[:-1]
        row = Content(gap).join([_one(stage, form, inner, glyphs, running_since) for stage in shown])
        if row.cell_length <= width:
            return row
    return row.truncate(max(width, 1), ellipsis=True)


def _one(stage: StageTime, form: str, inner: str, glyphs: Glyphs, running_since: float) -> Content:
    glyph = {"done": glyphs.done, "failed": glyphs.failed, "running": glyphs.running}.get(stage.state, glyphs.rest)
    name = SHORT_NAMES.get(stage.stage, stage.stage)
    time = ""
    if stage.state == "running":
        time = _time((stage.seconds or 0.0) + running_since, form, stage.state)
    elif stage.seconds is not None and stage.state != "not reached":
        time = _time(stage.seconds, form, stage.state)
    style = _STYLES[stage.state]
    name_style = "" if stage.state == "done" else style
    return (
        part(name + inner, name_style) + part(glyph, style) + part(time, "$quiet" if stage.state == "done" else style)
    )


def _time(count: float, form: str, state: str) -> str:
    """`notable`: only of stages that took a second or more, and of the one that runs or failed."""
    if form == "none" or (form == "notable" and count < 1 and state == "done"):
        return ""
    if form == "all" or count < 0.95 or count >= 9.95:
        return seconds(count)
    return f"{count:.0f}s"


class StageStrip(Words):
    """One line."""

    DEFAULT_CSS = "StageStrip { height: 1; padding: 0 1; }"

    def __init__(self, glyphs: Glyphs, clock: Callable[[], float], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(glyphs, id=id)
        self._clock = clock
        self._stages: tuple[StageTime, ...] = ()
        self._told_at = 0.0

    def on_mount(self) -> None:
        self.set_interval(0.2, self.draw)

    def on_resize(self) -> None:
        self.draw()

    def set_stages(self, stages: tuple[StageTime, ...]) -> None:
        if stages != self._stages:
            self._stages, self._told_at = stages, self._clock()
        self.draw()

    def draw(self) -> None:
        since = max(0.0, self._clock() - self._told_at)
        self.show(draw_stages(self._stages, self.size.width, self.glyphs, since))
