"""The models on this host: name, state, load stage or use of the KV cache, pool, requests, GPUs, since when."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from tui.stage_words import SHORT_NAMES
from tui.widgets.clean_text import clean
from tui.widgets.monitor_words import cell_of_name, lasting, number, right, short_bar, size, whole, word
from tui.widgets.row_pane import PaneContent, Piece, Row, RowPane, fit
from tui.widgets.words import cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.hardware.reading import Reading, Server
    from tui.themes.glyphs import Glyphs

_STATES = {
    "orphan": "$error bold",
    "failed": "$error bold",
    "loading": "$accent",
    "serving": "$success",
    "ending": "$warning",
}
_GOOD_STAGE = 44
_PROGRESS = re.compile(r"(\d+) of (\d+)")


@dataclass(frozen=True)
class _Columns:
    name: int
    stage: int
    port: int = 0
    version: int = 0
    preemptions: int = 0
    state: int = 9
    pool: int = 10
    requests: int = 12
    gpus: int = 8
    since: int = 8


def _columns_for(width: int, longest: int) -> _Columns:
    """`longest`: of the names; a wide terminal has room for all of it."""
    base = _Columns(0, 0)
    left = width - base.state - base.pool - base.requests - base.gpus - base.since
    extra: dict[str, int] = {}
    for column, cells in (("port", 7), ("version", 10), ("preemptions", 9)):
        if left - cells < 44:
            break
        extra[column] = cells
        left -= cells
    name = max(min(left * 2 // 5, 32), min(longest + 1, left - _GOOD_STAGE), 8)
    return _Columns(name=name, stage=max(min(left - name, 44), 1), **extra)


def draw_models(reading: Reading, colours: Mapping[int, str], width: int, glyphs: Glyphs) -> PaneContent:
    """`width` without the mark. Rows are keyed by the server's pid."""
    columns = _columns_for(width, max((cell_len(clean(one.name)) for one in reading.servers), default=0))
    if not reading.servers:
        return PaneContent((("Models  ", "bold"), ("no vLLM engine runs on this host", "$quiet")))
    labels = (
        ("Models", columns.name + 2, False),
        ("state", columns.state, False),
        ("stage or KV use", columns.stage, False),
        ("pool", columns.pool - 2, True),
        ("run / wait", columns.requests, True),
        ("  GPUs", columns.gpus, False),
        ("port", columns.port, False),
        ("vLLM", columns.version, False),
        ("preempt", columns.preemptions, False),
        ("since", columns.since - 1, True),
    )
    heading = tuple(
        ((right if is_right else cell)(text, cells), "bold" if text == "Models" else "$quiet")
        for text, cells, is_right in labels
        if cells
    )
    rows = tuple(
        fit(_row(server, reading.time, colours.get(server.pid, ""), columns, glyphs), width)
        for server in reading.servers
    )
    return PaneContent(heading, rows, tuple(str(server.pid) for server in reading.servers))


def _row(server: Server, now: float, colour: str, columns: _Columns, glyphs: Glyphs) -> Row:
    requests = f"{whole(server.running)} / {whole(server.waiting)}"
    pool = size(server.kv_pool_gib)
    since = None if server.started is None else now - server.started
    cells: tuple[Piece, ...] = (
        (cell_of_name(clean(server.name), columns.name - 1) + " ", f"{colour} bold".strip()),
        (_apart(server.state, columns.state), _STATES.get(server.state, "$quiet")),
        *_stage(server, now, columns.stage, glyphs),
        (right(pool if pool == "?" else f"{pool} GiB", columns.pool - 2), ""),
        (right(requests if server.state == "serving" else "–", columns.requests), ""),
        ("  " + cell(gpu_range(server.gpus) or "–", columns.gpus - 3) + " ", ""),
        (_apart(whole(server.port).replace(",", ""), columns.port), ""),
        (_apart(word(server.version), columns.version), ""),
        (_apart(whole(server.preemptions), columns.preemptions), ""),
        (right(lasting(since), columns.since - 1), ""),
    )
    return tuple((text, style) for text, style in cells if text.strip() or len(text) > 1)


def _apart(text: str, width: int) -> str:
    """With a gap behind it, however long it is; nothing where the column is left out."""
    return cell(text, width - 1) + " " if width else ""


def _stage(server: Server, now: float, width: int, glyphs: Glyphs) -> Row:
    if server.state == "serving":
        share = number(server.kv_use_percent)
        if share is None:
            return ((cell("KV ?", width), ""),)
        return _bar("KV", share / 100, f"{share:.0f} %", width, "$warning" if share >= 95 else "", glyphs)
    name = word(server.stage)
    name = SHORT_NAMES.get(name, name)
    if server.state == "failed":
        return ((cell(f"{name}  {clean(server.stage_detail)}", width - 1) + " ", "$error"),)
    progress = _PROGRESS.search(server.stage_detail)
    if progress and int(progress[2]):
        words = clean(server.stage_detail)
        words = words if len(name) + len(words) + 7 <= width else progress[0]
        return _bar(name, int(progress[1]) / int(progress[2]), words, width, "", glyphs)
    least = "at least " if server.stage_seen_late else ""
    lasts = f"  {least}{lasting(now - server.stage_since)}" if server.stage_since is not None else ""
    detail = f"  {clean(server.stage_detail)}" if server.stage_detail else lasts
    return ((cell(name + detail, width - 1) + " ", ""),)


def _bar(label: str, share: float, words: str, width: int, style: str, glyphs: Glyphs) -> Row:
    """The words stay whole, the bar takes what is left."""
    room = min(width - len(label) - len(words) - 3, 12)
    if room < 3:
        return ((cell(f"{label} {words}", width - 1) + " ", style),)
    drawn = short_bar(share, room, glyphs.pool, glyphs.free)
    used = drawn.rstrip(glyphs.free)
    rest = width - len(label) - 1 - room
    return (
        (f"{label} ", ""),
        (used, style or "$accent"),
        (drawn[len(used) :], "$rule"),
        (cell(f" {words}", rest), style),
    )


def gpu_range(gpus: Sequence[int]) -> str:
    """Such as 0–3,6."""
    parts: list[list[int]] = []
    for gpu in sorted(gpus):
        if parts and gpu == parts[-1][-1] + 1:
            parts[-1].append(gpu)
        else:
            parts.append([gpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in parts)


def fold_models(reading: Reading, width: int) -> PaneContent:
    """In one line: each model with its state."""
    row: Row = (("Models  ", "bold"),)
    words = [f"{clean(server.name)} {server.state}" for server in reading.servers] or ["no vLLM engine runs here"]
    return PaneContent(fit((*row, ("   ".join(words), "")), width + 2))


class ModelTable(RowPane):
    """Rows are keyed by the server's pid."""
