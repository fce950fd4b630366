"""A plan's chosen model in full: what stops it, what differs from the file, each number with its range and source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from engine_probe.facts import Unknown
from tui.plan_values import differing, gpus_of, placed
from tui.widgets.clean_text import clean
from tui.widgets.model_table import gpu_range
from tui.widgets.monitor_words import right
from tui.widgets.row_pane import PaneContent, Row, RowPane, cells_of, fit, plain_of
from tui.widgets.words import cell, gib, lines, part, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.estimates import Amount
    from playbooks.placement import PlacedModel, Plan

_LABEL, _VALUE, _RANGE = 14, 11, 18
_SHORT_GIB = 0.005


def draw_plan_detail(plan: Plan, file_plan: Plan, name: str, width: int) -> PaneContent:
    """`width` without the mark."""
    model, written = placed(plan, name), placed(file_plan, name)
    rows = [fit(row, width) for row in _rows(model, written, width)]
    return PaneContent(_heading(model), tuple(rows))


def fold_plan_detail(plan: Plan, name: str, width: int) -> PaneContent:
    """In one line: what stops it, else what it takes."""
    model = placed(plan, name)
    if model.why_not is not None:
        return PaneContent(fit((*_heading(model), (f"   {clean(model.why_not.text)}", "$error")), width))
    memory = model.worst
    words = "" if memory is None else f"   weights {_gib(memory.parts.weights)}, KV pool {_gib(memory.kv_pool)} GiB"
    return PaneContent(fit((*_heading(model), (words, "")), width))


def _heading(model: PlacedModel) -> Row:
    where = f"GPU {gpu_range(gpus_of(model))}" if gpus_of(model) else "the CPU"
    verdict = ("fits", "$success bold") if model.fits else ("does not fit", "$error bold")
    return (clean(model.launch.name), "bold"), (f" on {where}: ", ""), verdict


def _rows(model: PlacedModel, written: PlacedModel, width: int) -> Iterator[Row]:
    if model.why_not is not None:
        text = f"{clean(model.why_not.text)} ({model.why_not.id})"
        yield from _folded(text, width, "$error")
    differences = [f"{words} {now}, the file says {before}" for words, now, before in differing(model, written)]
    if differences:
        yield from _folded(f"* {'; '.join(differences)}", width, "$accent")
    if model.worst is not None:
        yield from _memory_rows(model, model.worst)
    for note in model.notes:
        yield from _folded(f"not in these numbers, or to know: {clean(note)}", width, "$warning")
    for doubt in model.asked.shape.doubts:
        yield from _folded(f"not known for sure: {clean(doubt)}", width, "$warning")


def _memory_rows(model: PlacedModel, memory: RankMemory) -> Iterator[Row]:
    parts = memory.parts
    amounts: tuple[tuple[str, Amount], ...] = (
        ("weights", parts.weights),
        ("activation", parts.activation),
        ("CUDA graphs", parts.graphs),
        ("non-torch", parts.non_torch),
        ("CUDA context", parts.context),
        ("budget", memory.budget),
        ("KV pool", memory.kv_pool),
    )
    for label, amount in amounts:
        yield _amount_row(label, amount)
    room = memory.room
    if isinstance(room, Unknown):
        yield _row("KV cache", "?", "", room.reason)
    else:
        per_token = "?" if room.bytes_per_token is None else f"{room.bytes_per_token:,}"
        blocks = f"{room.blocks:,} blocks" if model.room is not None else "blocks"
        yield _row("per token", per_token, "bytes", f"{blocks} of {room.block_size} tokens")
    if model.room is not None:
        room = model.room
        longest = f", the longest that fits: {room.longest:,}" if room.longest else ""
        serves = f"{room.concurrency:.2f} requests of {memory.max_len:,} tokens at once{longest}"
        yield _row("KV tokens", f"{room.tokens:,}", "", serves)
    batch = memory.batch
    yield _row("a step", f"{batch.seqs:,}", "requests", f"and {batch.tokens:,} tokens: {batch.source}")
    yield _row("counted as", "", "", memory.rules)


def _amount_row(label: str, amount: Amount) -> Row:
    if isinstance(amount, Unknown):
        return _row(label, "?", "", f"not known: {amount.reason}")
    if amount.value <= -_SHORT_GIB:
        return _row(label, "none", f"{-amount.value:.2f} GiB short", amount.source)
    spread = "" if round(amount.low, 2) == round(amount.high, 2) else f"{amount.low:.2f} to {amount.high:.2f}"
    return _row(label, f"{amount.value:.2f} GiB", spread, amount.source)


def _row(label: str, value: str, spread: str, source: str) -> Row:
    return (
        (cell(label, _LABEL), "$quiet"),
        (right(value, _VALUE) + "  ", ""),
        (cell(spread, _RANGE), "$quiet"),
        (clean(source), "$quiet"),
    )


def _folded(text: str, width: int, style: str) -> Iterator[Row]:
    for line in wrapped(text, width):
        yield ((line.plain, style),)


def _gib(amount: Amount) -> str:
    return "?" if isinstance(amount, Unknown) else gib(amount.value)


def details(plan: Plan, file_plan: Plan, name: str, width: int) -> Content:
    """All of it but its title, for a dialog, where nothing is cut."""
    model, written = placed(plan, name), placed(file_plan, name)
    texts: list[Content] = []
    for row in _rows(model, written, width):
        if cells_of(row) <= width:
            texts.append(_content(row))
        else:
            *first, (source, style) = row
            texts += [_content(tuple(first)), *wrapped(source, width, 4, style)]
    return lines(texts)


def title(plan: Plan, name: str) -> str:
    return plain_of(_heading(placed(plan, name)))


def _content(row: Row) -> Content:
    return Content("").join([part(text, style) for text, style in row])


class PlanText(RowPane):
    """Rows of text without a mark: up and down scroll."""

    def action_move(self, by: int) -> None:
        self._scroll(by)
