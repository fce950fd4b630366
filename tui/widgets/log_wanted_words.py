"""What is wanted of a log beyond what its line of filters shows: said in the title, so that no filter is hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.stage_words import SHORT_NAMES
from tui.widgets.clean_text import clean
from tui.widgets.log_filters import level_of

if TYPE_CHECKING:
    from engine_probe.logs.index_time import Bound
    from engine_probe.logs.index_wanted import Wanted

_FROM_INFO = frozenset({"INFO", "WARNING", "ERROR", "CRITICAL"})


def words_of(wanted: Wanted) -> str:
    """Such as `only Worker_TP1, from 10:11:00`; empty where the line of filters says it all."""
    words = []
    if wanted.processes:
        words.append(clean(" or ".join(sorted(wanted.processes))))
    if wanted.rank is not None:
        words.append(f"rank {wanted.rank}")
    if wanted.stages and len(wanted.stages) > 1:
        words.append(" or ".join(name for stage, name in SHORT_NAMES.items() if stage in wanted.stages))
    if wanted.levels is not None and level_of(wanted.levels) is None:
        words.append("level ≥ info" if wanted.levels == _FROM_INFO else " or ".join(sorted(wanted.levels)).lower())
    words += _span(wanted.span.since, wanted.span.until)
    return f"only {', '.join(words)}" if words else ""


def _span(since: Bound | None, until: Bound | None) -> list[str]:
    bounds = (("from", since), ("to", until))
    return [" ".join(f"{word} {bound.stamp.decode()}" for word, bound in bounds if bound)] if since or until else []
