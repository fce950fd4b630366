"""The GPUs of a plan: what each would hold as a bar, the numbers beside it, and by how much something does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.widgets.clean_text import clean
from tui.widgets.monitor_words import right
from tui.widgets.plan_stacks import LETTERS, colour_of, draw_stack, legend
from tui.widgets.row_pane import MARK_CELLS, PaneContent, Piece, Row, RowPane, fit
from tui.widgets.words import cell, gib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.themes.glyphs import Glyphs
    from tui.widgets.plan_stacks import Holder, Purpose, Stack

_INDEX, _NUMBERS, _WHAT, _LEAST_BAR, _MOST_BAR = 6, 18, 31, 16, 90
_WORDS: dict[Purpose, str] = {
    "weights": "weights",
    "rest": "activation, graphs, rest",
    "pool": "KV pool",
    "unsplit": "split not known",
    "others": "other processes",
}
_SHORT: dict[Purpose, str] = {**_WORDS, "rest": "rest", "pool": "KV", "others": "others"}


def draw_plan_gpus(stacks: Sequence[Stack], on_cpu: bool, width: int, glyphs: Glyphs) -> PaneContent:
    """`width` without the mark."""
    left = width - _INDEX - _NUMBERS
    bar = max(min(left - _WHAT, left * 3 // 5, _MOST_BAR), min(_LEAST_BAR, max(left, 1)))
    rows = tuple(fit(_row(stack, bar, glyphs), width) for stack in stacks)
    keys = tuple(str(stack.first) for stack in stacks)
    return PaneContent(_heading(stacks, on_cpu, width + MARK_CELLS, glyphs), rows, keys)


def _heading(stacks: Sequence[Stack], on_cpu: bool, width: int, glyphs: Glyphs) -> Row:
    title = "Host memory   " if on_cpu else "GPU memory   "
    for words in (_WORDS, _SHORT):
        signs = legend(stacks, glyphs, words)
        if len(title) + len(signs) <= width:
            break
    return (title, "bold"), (signs, "$quiet")


def _row(stack: Stack, bar: int, glyphs: Glyphs) -> Row:
    index = f"{stack.first}" if stack.first == stack.last else f"{stack.first}–{stack.last}"
    used = stack.used_gib
    numbers = f"{gib(used) if used else '0'} / {gib(stack.total_gib)} GiB"
    return (
        (cell(index, _INDEX), "bold"),
        *draw_stack(stack, bar, glyphs),
        (right(numbers, _NUMBERS - 2) + "  ", ""),
        *_what(stack),
    )


def _what(stack: Stack) -> Row:
    """Those that do not fit first: the end of a line may be cut."""
    pieces: list[Piece] = []
    for holder in sorted(stack.holders, key=lambda one: one.fits):
        if pieces:
            pieces.append(("  ", ""))
        pieces += _words(holder)
    if stack.others is not None:
        pieces.append((f"  others ? {clean(stack.others)}", "$warning"))
    return tuple(pieces) or (("free", "$quiet"),)


def _words(holder: Holder) -> list[Piece]:
    letter, name = LETTERS[holder.number % len(LETTERS)], clean(holder.name, 40)
    if holder.fits:
        size = "?" if holder.gib is None else gib(holder.gib)
        return [(f"{letter} {name}", f"{colour_of(holder.number)} bold"), (f" {size}", "")]
    by = "does not fit" if holder.lacks_gib is None else f"over by {gib(holder.lacks_gib)} GiB"
    return [(f"! {letter} {name} {by}", "$error bold")]


def fold_plan_gpus(stacks: Sequence[Stack], width: int) -> PaneContent:
    """All in one line."""
    words = "   ".join(
        f"{stack.first}: {gib(stack.used_gib)} / {gib(stack.total_gib)}{' !' if stack.is_too_full else ''}"
        for stack in stacks
    )
    return PaneContent(fit((("GPUs  ", "bold"), (words, "")), width))


class PlanGpus(RowPane):
    """Rows are keyed by the index of their first GPU."""
