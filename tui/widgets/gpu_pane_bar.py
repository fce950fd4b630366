"""Whose memory a GPU's is: the shares of its bar, by model and by purpose, as far as anybody says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tui.widgets.monitor_words import cells_of_shares, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.hardware.gpus import Gpu, MigSlice
    from engine_probe.hardware.reading import MemorySplit, Server
    from tui.themes.glyphs import Glyphs
    from tui.widgets.row_pane import Row

Purpose = Literal["weights", "pool", "rest", "unsplit", "others"]
_LEAST_GIB = 0.05
"""Less is what rounding leaves."""


@dataclass(frozen=True)
class Share:
    """`style` is the model's, quiet for what is nobody's."""

    purpose: Purpose
    gib: float
    style: str


def glyph_of(purpose: Purpose, glyphs: Glyphs) -> str:
    return {
        "weights": glyphs.used,
        "pool": glyphs.pool,
        "rest": glyphs.other,
        "unsplit": glyphs.unsplit,
        "others": glyphs.others,
    }[purpose]


def shares_of_gpu(gpu: Gpu, servers: Iterable[Server], colours: Mapping[int, str]) -> tuple[Share, ...]:
    """Empty where the used memory is not known. What no engine holds is other processes'."""
    used = number(gpu.used_gib)
    if used is None:
        return ()
    shares: list[Share] = []
    has_unknown = gpu.processes_unavailable is not None
    for server in servers:
        for split in server.memory:
            if split.gpu == gpu.index:
                found = _shares_of(split, colours.get(server.pid, ""))
                has_unknown |= not found
                shares += found
    rest = used - sum(share.gib for share in shares)
    if rest > _LEAST_GIB:
        shares.append(Share("unsplit" if has_unknown else "others", rest, "$quiet"))
    return _no_more_than(used, shares)


def _shares_of(split: MemorySplit, style: str) -> list[Share]:
    used, weights, pool = number(split.used_gib), number(split.weights_gib), number(split.kv_pool_gib)
    rest = number(split.rest_gib)
    parts: list[tuple[Purpose, float]] = []
    if weights is None or pool is None:
        parts = [("weights", weights or 0.0), ("pool", pool or 0.0)]
        left = (used or 0.0) - (weights or 0.0) - (pool or 0.0)
        parts.append(("unsplit", left))
    else:
        if rest is None:
            rest = used - weights - pool if used is not None else 0.0
        parts = [("weights", weights), ("pool", pool), ("rest", rest)]
    return [Share(purpose, gib, style) for purpose, gib in parts if gib > 0]


def _no_more_than(used: float, shares: list[Share]) -> tuple[Share, ...]:
    """A log says what was planned, the driver what is held now: the bar is as long as the latter."""
    told = sum(share.gib for share in shares)
    if told <= used or told <= 0:
        return tuple(shares)
    return tuple(Share(share.purpose, share.gib * used / told, share.style) for share in shares)


def shares_of_slice(part: MigSlice, servers: Iterable[Server], colours: Mapping[int, str]) -> tuple[Share, ...]:
    """Logs do not name slices: of a model's processes there only how much they hold is known."""
    used = number(part.used_gib)
    if used is None:
        return ()
    owners = {pid: server.pid for server in servers for pid in server.pids}
    shares = [
        Share("unsplit", held, colours.get(owners[process.pid], ""))
        for process in part.processes
        if process.pid in owners and (held := number(process.used_gib)) is not None
    ]
    rest = used - sum(share.gib for share in shares)
    if rest > _LEAST_GIB:
        unknown = any(process.pid in owners and number(process.used_gib) is None for process in part.processes)
        shares.append(Share("unsplit" if unknown else "others", rest, "$quiet"))
    return _no_more_than(used, shares)


def draw_bar(shares: tuple[Share, ...], total: float, width: int, glyphs: Glyphs) -> Row:
    """Exactly `width` cells: the shares, then what is free."""
    cells = cells_of_shares([share.gib for share in shares], total, width)
    drawn = [
        (glyph_of(share.purpose, glyphs) * count, share.style)
        for share, count in zip(shares, cells, strict=True)
        if count
    ]
    return (*drawn, (glyphs.free * (width - sum(cells)), "$rule"))
