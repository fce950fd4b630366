"""What is proposed so that all models fit, each change with its reason, and what the plan could not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.widgets.clean_text import clean
from tui.widgets.row_pane import PaneContent, Row, fit
from tui.widgets.words import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine_probe.launch import Deployment
    from tui.plan_state import PlanState

_MARGIN = 2


@dataclass(frozen=True)
class Proposed:
    """`deployment` None: nothing was found, and `why_none` says why. `changes`: (what, why)."""

    deployment: Deployment | None
    changes: tuple[tuple[str, str], ...] = ()
    why_none: str = ""
    alternatives: tuple[str, ...] = ()


def draw_plan_advice(proposed: Proposed | None, state: PlanState, host: str, width: int) -> PaneContent:
    """`proposed` None: it is being looked for. `host`: what the models need of the host, in words."""
    rows = [fit(row, width) for row in _rows(proposed, host, state.plan.notes, width)]
    return PaneContent(_heading(proposed, fits=state.plan.fits, is_changed=bool(state.changes)), tuple(rows))


def _heading(proposed: Proposed | None, *, fits: bool, is_changed: bool) -> Row:
    title = ("Proposal  ", "bold")
    if fits:
        return title, ("none needed", "$quiet")
    if proposed is None:
        return title, ("what fits is being looked for", "$quiet")
    if proposed.deployment is None:
        return title, ("none was found with which all fit", "$warning")
    many = len(proposed.changes)
    return (
        title,
        (f"{'one change' if many == 1 else f'{many} changes'} and all fit   ", "$success"),
        ("p tries it" if is_changed else "p tries it, enter saves it", "$quiet"),
    )


def _rows(proposed: Proposed | None, host: str, notes: Sequence[str], width: int) -> Iterator[Row]:
    if proposed is not None:
        for line in wrapped(clean(proposed.why_none), width) if proposed.why_none else ():
            yield ((line.plain, ""),)
        for what, why in proposed.changes:
            yield ((f"{clean(what)}", "bold"),)
            for line in wrapped(clean(why), width, _MARGIN):
                yield ((line.plain, "$quiet"),)
        for text in proposed.alternatives:
            for line in wrapped(f"or: {clean(text)}", width, 0):
                yield ((line.plain, "$quiet"),)
    if host:
        yield ((host, "$quiet"),)
    for note in notes:
        for line in wrapped(f"note: {clean(note)}", width, 0):
            yield ((line.plain, "$warning"),)
