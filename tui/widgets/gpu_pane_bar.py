"""The bar of a GPU or of a slice on the screen: the shares that are printed too, in the colours of the models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tui.commands.monitor_bar import Share, cells_of, shares_of
from tui.widgets.monitor_words import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.hardware.gpus import Gpu, MigSlice
    from engine_probe.hardware.reading import Reading
    from tui.themes.glyphs import Glyphs
    from tui.widgets.row_pane import Row

__all__ = ["draw_bar", "glyph_of", "shares_of", "shares_of_slice"]


def glyph_of(sign: str, glyphs: Glyphs) -> str:
    return {
        "weights": glyphs.used,
        "kv_pool": glyphs.pool,
        "rest": glyphs.other,
        "not_known": glyphs.unsplit,
        "others": glyphs.others,
    }[sign]


def shares_of_slice(gpu: Gpu, part: MigSlice, reading: Reading) -> list[Share]:
    """Logs do not name slices: of a model's processes there only how much they hold is known."""
    used = number(part.used_gib)
    if used is None:
        return []
    owners = {pid: server.pid for server in reading.servers for pid in (server.pid, *server.pids)}
    owned = [process for process in part.processes if process.pid in owners]
    sizes = [(owners[process.pid], number(process.used_gib)) for process in owned]
    shares = [Share("not_known", size, owner) for owner, size in sizes if size is not None]
    rest = used - sum(share.size_gib for share in shares)
    if rest <= 0:
        told = sum(share.size_gib for share in shares)
        return [replace(share, size_gib=share.size_gib * (used / told)) for share in shares if told > 0]
    is_told = gpu.processes_unavailable is None and all(size is not None for _, size in sizes)
    return [*shares, Share("others" if is_told else "not_known", rest)]


def draw_bar(shares: Sequence[Share], total: float, width: int, colours: Mapping[int, str], glyphs: Glyphs) -> Row:
    """Exactly `width` cells: the shares, then what is free."""
    cells = cells_of(shares, total, width)
    drawn = [
        (glyph_of(share.sign, glyphs) * count, colours.get(share.owner or 0, "$quiet"))
        for share, count in zip(shares, cells, strict=True)
        if count
    ]
    return (*drawn, (glyphs.free * (width - sum(cells)), "$rule"))
