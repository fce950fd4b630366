"""All keys from the registry, and what letters, glyphs and words mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from playbooks.report import in_words
from tui import actions
from tui.actions import Moment
from tui.screens.text_page import Page
from tui.themes.palette import LAYER_LETTERS, layer_style
from tui.widgets.words import cell, lines, part, wrapped

if TYPE_CHECKING:
    from textual.binding import BindingType
    from textual.content import Content

    from tui.actions import Action, Place
    from tui.themes.glyphs import Glyphs

_PLACES: tuple[tuple[Place, str], ...] = (
    ("wizard", "In the wizard, and in a report where it applies"),
    ("monitor", "On the monitor"),
    ("plan", "On the memory plan"),
    ("start", "Where a case is chosen"),
    ("logs", "In a log"),
    ("diagnosis", "In the diagnosis of a log"),
    ("playbooks", "In the list of playbooks"),
    ("cases", "In the list of cases"),
    ("recorded", "In a past case"),
)
_GROUPS = {"": "", "filter": "In a log, behind f", "move": "Moving in a log"}
_LOG_MOVES = (
    ("home end", "the first line; the end, which is followed"),
    ("wheel", "three rows; a drag of the bar goes anywhere"),
    ("click", "marks a line; on the marked one, opens or closes its traceback"),
)
_MOVES = (
    ("↑ ↓", "mark another row; in a text, scroll a line"),
    ("pgup pgdn, wheel", "scroll a page; this help too"),
    ("tab", "between the step and the log"),
    ("ctrl+c", "ask to leave, or leave a log; in a question, no"),
)
_MONITOR_MOVES = (
    ("↑ ↓ home end", "mark another row of the pane that has the keys"),
    ("pgup pgdn, wheel", "scroll a page, or three rows"),
    ("tab shift+tab", "to the next open pane, or to the one before"),
    ("click", "marks a row, two open it; on a folded pane one opens it"),
)
_STEPS = (
    ("1 Symptom", "what is wrong, for which model, at which stage, printed by which layer"),
    ("2 Hypotheses", "the likeliest causes, each with an experiment that could refute it"),
    ("3 Fix", "one change at a time, shown as a difference before it is made"),
    ("4 Verify", "a real load and real requests, beside what the fix promised"),
)
_LAYERS = {
    "frontend": "API server, command line, configuration",
    "engine": "engine core, scheduler, KV-cache manager",
    "worker": "one per GPU: device, distributed environment, execution",
    "model_runner": "weights, forward pass, graph capture",
    "outside": "torch, NCCL, transformers, hub, driver, kernel",
}


def draw_help(width: int, glyphs: Glyphs, first: Place = "wizard") -> Content:
    """`first`: the place it was asked in, whose keys come first."""
    rows = [part("The four steps", "bold")] if first == "wizard" else []
    rows += [row for name, text in _STEPS if first == "wizard" for row in _pair(name, text, width)]
    rows += _all_keys(width, first)[0 if rows else 1 :]
    rows += [part(""), part("Marking and scrolling", "bold")]
    moves = {"logs": _LOG_MOVES, "monitor": _MONITOR_MOVES}.get(first, _MOVES)
    rows += [row for keys, text in moves for row in _pair(keys, text, width)]
    rows += [part(""), part("Layers, as the log's first column names them", "bold")]
    for layer, letter in LAYER_LETTERS.items():
        rows += _pair(f"{letter}  {in_words(layer)}", _LAYERS[layer], width, layer_style(layer))
    rows += [part(""), part("Glyphs", "bold")]
    glyph_words = (
        (glyphs.done, "done, confirmed, passed", "$success"),
        (glyphs.failed, "failed, refuted", "$error"),
        (glyphs.running, "running, or marked", "$accent"),
        (glyphs.rest, "not reached, not tested", "$quiet"),
        (glyphs.unknown, "could not be decided, and the reason is beside it", "$warning"),
    )
    rows += [part(f"  {glyph}  ", style) + part(words) for glyph, words, style in glyph_words]
    if first == "monitor":
        rows += _memory_rows(glyphs)
    return lines(rows)


def _memory_rows(glyphs: Glyphs) -> list[Content]:
    memory = (
        (glyphs.used, "weights of a model, in the model's colour"),
        (glyphs.pool, "its KV cache pool"),
        (glyphs.other, "its CUDA graphs, activations and the rest"),
        (glyphs.unsplit, "a model's, but neither its log nor a plan says what for"),
        (glyphs.others, "other processes', or of an engine whose parent is gone"),
        (glyphs.free, "free"),
    )
    return [part(""), part("GPU memory", "bold"), *(part(f"  {glyph}  ") + part(words) for glyph, words in memory)]


def _all_keys(width: int, first: Place) -> list[Content]:
    """In a log and its diagnosis there is nothing else; elsewhere, the place it was asked in first."""
    rows: list[Content] = []
    seen: set[str] = set()
    for place, title in sorted(_PLACES, key=lambda one: one[0] != first):
        if first in ("logs", "diagnosis") and first != place:
            continue
        fresh = [action for action in actions.ACTIONS if place in action.places and action.id not in seen]
        seen |= {action.id for action in fresh}
        for group, heading in _GROUPS.items():
            keys = [action for action in fresh if action.group == group]
            rows += [part(""), part(heading or title, "bold")] if keys else []
            rows += [row for action in keys for row in _key(action, width)]
    return rows


def _key(action: Action, width: int) -> list[Content]:
    where = f" (step {action.step})" if action.step else ""
    return _pair(f"{action.shown_key:<7}{action.label}{where}", action.tooltip, width, "$accent")


def _pair(name: str, text: str, width: int, style: str = "$accent") -> list[Content]:
    folded = wrapped(text, width, 36)
    return [part("  " + cell(name, 34), style) + part(folded[0].plain.strip()), *folded[1:]]


class HelpScreen(Page):
    """Closes with esc. `first`: whose keys come first."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("help")]

    def __init__(self, first: Place = "wizard") -> None:
        super().__init__()
        self._first = first

    def about(self) -> tuple[str, str]:
        return "help", ""

    def text(self, width: int) -> Content:
        return draw_help(width, self.console.glyphs, self._first)

    def moment(self) -> Moment:
        return Moment(place="help")
