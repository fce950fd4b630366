"""The columns of a plan's models: what each says of one, how wide it is, and which go where there is no room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from tui.plan_values import gpus_of, length_of, sequences_of, utilization_of
from tui.widgets.model_table import gpu_range
from tui.widgets.words import gib

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.memory.estimates import Amount
    from playbooks.placement import PlacedModel
    from tui.plan_values import Field

LEAST_NAME, LEAST_VERDICT = 10, 16
_LETTER = 2


@dataclass(frozen=True)
class Column:
    """`worth`: the narrower the terminal, the higher it has to be. A field's column can be changed by keys."""

    label: str
    cells: int
    worth: int
    text: Callable[[PlacedModel], str]
    field: Field | None = None


def _parallel(model: PlacedModel) -> str:
    return str(model.asked.values.parallel.tp)


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}" if round(value, 2) == value else f"{value:g}"


def _whole(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _size(amount: Amount) -> str:
    return "?" if isinstance(amount, Unknown) else gib(amount.value) if abs(amount.value) >= 0.005 else "0"


def _part(model: PlacedModel, name: str) -> str:
    return _size(getattr(model.worst.parts, name)) if model.worst is not None else "–"


def _range(model: PlacedModel) -> str:
    pool = model.worst.kv_pool if model.worst is not None else None
    if pool is None or isinstance(pool, Unknown):
        return "–"
    return f"{pool.low:.1f}–{pool.high:.1f}"


def _serves(model: PlacedModel) -> str:
    """Requests of full length at once, such as 56 × 8,192; nothing is promised where it does not start."""
    room = model.worst.room if model.worst is not None else None
    if room is None or isinstance(room, Unknown) or not model.fits:
        return "–"
    count = f"{room.concurrency:.1f}" if room.concurrency < 10 else f"{room.concurrency:,.0f}"
    return f"{count} × {length_of(model):,}"


COLUMNS: tuple[Column, ...] = (
    Column("tp", 4, 9, _parallel, "tp"),
    Column("util", 7, 9, lambda m: _number(utilization_of(m)), "utilization"),
    Column("length", 11, 9, lambda m: f"{length_of(m):,}", "length"),
    Column("seqs", 7, 7, lambda m: _whole(sequences_of(m)), "sequences"),
    Column("GPUs", 8, 9, lambda m: gpu_range(gpus_of(m)) or "–", "gpus"),
    Column("weights", 9, 6, lambda m: _part(m, "weights")),
    Column("activ.", 8, 3, lambda m: _part(m, "activation")),
    Column("graphs", 8, 2, lambda m: _part(m, "graphs")),
    Column("non-torch", 11, 1, lambda m: _part(m, "non_torch")),
    Column("KV pool", 9, 8, lambda m: _size(m.worst.kv_pool) if m.worst else "–"),
    Column("range", 13, 4, _range),
    Column("serves", 17, 5, _serves),
)


def columns_for(width: int) -> tuple[Column, ...]:
    """As many as have room beside name and verdict, the worthiest first."""
    left = width - _LETTER - LEAST_NAME - LEAST_VERDICT
    chosen: set[str] = set()
    for column in sorted(COLUMNS, key=lambda one: -one.worth):
        if column.cells <= left:
            chosen.add(column.label)
            left -= column.cells
    return tuple(column for column in COLUMNS if column.label in chosen)


def field_at(x: int, first: int, width: int) -> Field | None:
    """The value whose cell is `x` cells from the left edge, where the columns begin at `first`."""
    at = first
    for column in columns_for(width):
        if at <= x < at + column.cells:
            return column.field
        at += column.cells
    return None
