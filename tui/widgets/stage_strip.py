"""The load stages in order, each with a glyph and its seconds; the running one's seconds tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tui.stage_words import SHORT_NAMES
from tui.widgets.words import Words, cut, part, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from playbooks.session import StageTime
    from tui.themes.glyphs import Glyphs

_STYLES = {"done": "$success", "failed": "$error bold", "running": "$accent bold", "not reached": "$quiet"}


_SHORTER_NAMES = {
    **SHORT_NAMES,
    "config": "conf",
    "worker_start": "worker",
    "weight_load": "weight",
    "memory_planning": "mem",
    "warmup": "warm",
    "serving": "serve",
}
_FORMS = (
    ("all", "   ", " ", SHORT_NAMES),
    ("all", "  ", " ", SHORT_NAMES),
    ("all", "  ", " ", _SHORTER_NAMES),
    ("all", " ", " ", _SHORTER_NAMES),
    ("all", " ", "", SHORT_NAMES),
    ("all", " ", "", _SHORTER_NAMES),
    ("notable", "  ", " ", SHORT_NAMES),
    ("notable", " ", "", SHORT_NAMES),
    ("notable", " ", "", _SHORTER_NAMES),
    ("none", " ", "", SHORT_NAMES),
)


def draw_stages(
    stages: Sequence[StageTime], width: int, glyphs: Glyphs, running_since: float = 0.0, whose: str = ""
) -> Content:
    """The widest form that fits `width`. `running_since`: seconds since the running stage's value was told.

    `whose`: the model that the stages are of, where there are several.
    """
    if whose:
        label = part(f"{cut(whose, max(width // 6, 4))}: ", "bold")
        return label + draw_stages(stages, width - label.cell_length, glyphs, running_since)
    row = Content("")
    for form, gap, inner, names in _FORMS:
        row = Content(gap).join([_one(stage, form, inner, names, glyphs, running_since) for stage in stages])
        if row.cell_length <= width:
            return row
    return row.truncate(max(width, 1), ellipsis=True)


def _one(
    stage: StageTime, form: str, inner: str, names: Mapping[str, str], glyphs: Glyphs, running_since: float
) -> Content:
    glyph = {"done": glyphs.done, "failed": glyphs.failed, "running": glyphs.running}.get(stage.state, glyphs.rest)
    name = names.get(stage.stage, stage.stage)
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
        self._whose = ""

    def on_mount(self) -> None:
        self.set_interval(0.2, self.draw)

    def on_resize(self) -> None:
        self.draw()

    def set_stages(self, stages: tuple[StageTime, ...], whose: str = "") -> None:
        self._whose = whose
        if stages != self._stages:
            self._stages, self._told_at = stages, self._clock()
        self.draw()

    def draw(self) -> None:
        since = max(0.0, self._clock() - self._told_at)
        self.show(draw_stages(self._stages, self.size.width, self.glyphs, since, self._whose))
