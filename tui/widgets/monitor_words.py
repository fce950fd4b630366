"""How the monitor writes facts, durations and bars: what is not known is a "?", a bar has its number beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from engine_probe.facts import Fact, Known, Unknown
from tui.widgets.words import cell, gib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.themes.glyphs import Glyphs

_TOO_MUCH = 1e15
"""NaN, infinity and what no driver means: not shown as if they were sizes."""


def number(fact: Fact | None) -> float | None:
    """None for what is not known, and for what is no number that could be drawn."""
    if not isinstance(fact, Known) or isinstance(fact.value, (bool, str)):
        return None
    return float(fact.value) if abs(fact.value) < _TOO_MUCH else None


def size(fact: Fact | None) -> str:
    """GiB without the unit, or "?"."""
    count = number(fact)
    return "?" if count is None else gib(count) if count else "0"


def whole(fact: Fact | None, unit: str = "") -> str:
    count = number(fact)
    return "?" if count is None else f"{count:,.0f}{unit}"


def word(fact: Fact) -> str:
    return str(fact.value) if isinstance(fact, Known) else "?"


def reason(fact: Fact | None) -> str:
    return fact.reason if isinstance(fact, Unknown) else ""


def of(used: Fact | None, total: Fact | None) -> str:
    """Such as "71.8 / 79.3 GiB"."""
    return f"{size(used)} / {size(total)} GiB"


def right(text: str, width: int) -> str:
    """At the right end of exactly `width` cells."""
    return " " * (width - cell_len(text)) + text if cell_len(text) <= width else cell(text, width)


def cell_of_name(name: str, width: int) -> str:
    """In exactly `width` cells. Of a path the end tells more than the beginning."""
    if cell_len(name) <= width or not name.startswith("/"):
        return cell(name, width)
    kept = name
    while kept and cell_len(kept) > width - 1:
        kept = kept[1:]
    return cell(f"…{kept}", width)


def lasting(seconds: float | None) -> str:
    """How long, such as 31s, 4m05s, 12m, 2h11m or 3d04h; "?" where it is not known.

    What lasts long changes seldom, and then nothing has to be drawn again.
    """
    if seconds is None:
        return "?"
    minutes, rest = divmod(max(int(seconds), 0), 60)
    if minutes < 1:
        return f"{rest}s"
    if minutes < 10:
        return f"{minutes}m{rest:02d}s"
    hours, days = minutes // 60, minutes // (24 * 60)
    if days:
        return f"{days}d{hours % 24:02d}h"
    return f"{hours}h{minutes % 60:02d}m" if hours else f"{minutes}m"


def short_bar(share: float, cells: int, glyph: str, free: str) -> str:
    """`share` from 0 to 1. What is there at all is seen."""
    filled = round(max(0.0, min(share, 1.0)) * cells)
    filled = max(filled, 1) if share > 0 else filled
    return glyph * filled + free * (cells - filled)


def sparkline(values: Sequence[float | None], top: float, cells: int, glyphs: Glyphs) -> str:
    """The newest values at the right; what was not known is left empty."""
    seen = values[-cells:] if cells > 0 else ()
    last = len(glyphs.levels) - 1
    drawn = "".join(
        " " if value is None or top <= 0 else glyphs.levels[round(max(0.0, min(value / top, 1.0)) * last)]
        for value in seen
    )
    return " " * (cells - len(drawn)) + drawn
