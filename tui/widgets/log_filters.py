"""What is shown of a log: layers with their counts, level, stage, and what is searched for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.stage_words import SHORT_NAMES
from tui.themes.palette import LAYER_LETTERS, layer_style
from tui.widgets.clean_text import clean
from tui.widgets.words import Words, apart, cut, part

if TYPE_CHECKING:
    from textual.content import Content

    from engine_probe.logs.index_wanted import Wanted
    from tui.log_found import Found
    from tui.opened_log import OpenedLog

LETTERS = {**LAYER_LETTERS, "unknown": "?"}
LAYERS = frozenset(LETTERS)
_MODEL_CELLS = 24
FROM_LEVEL = (None, "WARNING", "ERROR")
_ABOVE = {"WARNING": frozenset({"WARNING", "ERROR", "CRITICAL"}), "ERROR": frozenset({"ERROR", "CRITICAL"})}


def toggled(layers: frozenset[str] | None, layer: str) -> frozenset[str] | None:
    """The first letter shows that layer alone, the next ones add or take away; None is all."""
    if layers is None:
        return frozenset({layer})
    rest = layers ^ {layer}
    return rest if rest and rest != LAYERS else None


def next_level(levels: frozenset[str] | None) -> frozenset[str] | None:
    at = FROM_LEVEL.index(level_of(levels))
    following = FROM_LEVEL[(at + 1) % len(FROM_LEVEL)]
    return None if following is None else _ABOVE[following]


def level_of(levels: frozenset[str] | None) -> str | None:
    """From which level on lines are shown."""
    return next((level for level, above in _ABOVE.items() if above == levels), None)


def next_stage(stages: frozenset[str] | None, known: list[str]) -> frozenset[str] | None:
    """The stage behind this one among those that the log has; behind the last, all."""
    at = known.index(next(iter(stages))) + 1 if stages and next(iter(stages)) in known else 0
    return frozenset({known[at]}) if at < len(known) else None


def next_model(model: str | None, known: list[str]) -> str | None:
    """The model behind this one among those that the log tells of; behind the last, all."""
    at = known.index(model) + 1 if model in known else 0
    return known[at] if at < len(known) else None


def draw_filters(log: OpenedLog, found: Found | None, width: int, *, filtering: bool) -> Content:
    """One line; the search at its end, or instead of what does not fit."""
    right = _draw_search(found, width // 2, "only" if log.narrows else "find")
    row = part("")
    for wide in (True, False):
        row = _draw_wanted(log, filtering=filtering, wide=wide)
        if row.cell_length + right.cell_length < width:
            break
    return apart(row.truncate(max(width - right.cell_length - 1, 1), ellipsis=True), right, width)


def _draw_wanted(log: OpenedLog, *, filtering: bool, wide: bool) -> Content:
    wanted: Wanted = log.wanted
    gap = "   " if wide else " "
    row = part("layers" if wide else "", "$accent bold" if filtering else "$quiet")
    for layer, letter in LETTERS.items():
        is_shown = wanted.layers is None or layer in wanted.layers
        count = f" {log.counts[layer]:,}" if layer in log.counts else " –"
        style = layer_style(layer) + " bold" if is_shown else "$quiet strike"
        row += part(gap) + part(letter, style) + part(count, "" if is_shown else "$quiet")
    level = level_of(wanted.levels)
    stage = next(iter(wanted.stages)) if wanted.stages else None
    row += _pair("level", f"≥ {level.lower()}" if level else "all", level is not None, gap)
    if len(log.models) > 1 or wanted.model is not None:
        name = clean((wanted.model or "all").rstrip("/").rpartition("/")[2])
        row += _pair("model", cut(name, _MODEL_CELLS), wanted.model is not None, gap)
    return row + _pair("stage", SHORT_NAMES.get(stage, stage) if stage else "all", stage is not None, gap)


def _pair(name: str, value: str, is_set: bool, gap: str) -> Content:
    return part(gap + name + " ", "$quiet") + part(value, "$accent bold" if is_set else "$quiet")


def _draw_search(found: Found | None, width: int, word: str) -> Content:
    if found is None:
        return part("")
    count = f"{found.count:,}" + ("" if found.is_complete else " so far")
    count = f"{found.at:,} of {count}" if found.at else f"{count} lines" if found.count != 1 else f"{count} line"
    count = "no line" if found.is_complete and not found.count else count
    return part(f"{word} ", "$quiet") + part(cut(clean(found.text), max(width - len(count) - 8, 6)), "bold") + part(
        f"  {count}", "$warning" if not found.count else "")  # fmt: skip


class LogFilters(Words):
    """One line."""

    DEFAULT_CSS = "LogFilters { height: 1; padding: 0 1; }"

    def draw(self, log: OpenedLog, found: Found | None, *, filtering: bool) -> None:
        self.show(draw_filters(log, found, self.size.width - 2, filtering=filtering))
