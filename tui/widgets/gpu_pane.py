"""The GPUs: each one's memory by model and purpose, with its number, its peak, what runs there, and how busy it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from playbooks.alerts_gpus import is_sick
from playbooks.gpu_holders import holders_of
from tui.stage_words import SHORT_NAMES
from tui.widgets.clean_text import clean
from tui.widgets.gpu_pane_bar import draw_bar, glyph_of, shares_of, shares_of_slice
from tui.widgets.monitor_words import number, of, right, size, sparkline, whole, word
from tui.widgets.row_pane import MARK_CELLS, PaneContent, Piece, Row, RowPane, cells_of, fit
from tui.widgets.words import cell, gib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.hardware.gpus import Gpu, GpuProcess, MigSlice
    from engine_probe.hardware.reading import ProcessReading, Reading, Server
    from playbooks.gpu_holders import Holder
    from tui.commands.monitor_bar import Share
    from tui.screens.monitor_history import History
    from tui.themes.glyphs import Glyphs

_INDEX, _NUMBERS, _UTIL, _LEAST_WHAT, _LEAST_BAR = 5, 18, 6, 18, 20
_GOOD_WHAT, _MOST_BAR, _MOST_WHAT = 24, 72, 48
_NAMES: dict[str, str] = {
    "weights": "weights",
    "kv_pool": "KV pool",
    "rest": "graphs and rest",
    "not_known": "split not known",
    "others": "others",
}
_SHORT_NAMES: dict[str, str] = {**_NAMES, "kv_pool": "KV", "rest": "rest"}
_RANK = re.compile(r"_((?:[A-Z]{2}\d+_?)+)$")


@dataclass(frozen=True)
class GpuColumns:
    """Cells of each column; 0 where there is no room for it."""

    bar: int
    what: int
    peak: int = 0
    temperature: int = 0
    power: int = 0
    history: int = 0
    memory_history: int = 0


def columns_for(width: int, longest: int = 0) -> GpuColumns:
    """The narrower, the fewer: history goes first, then power, temperature, peaks.

    `longest`: cells of the longest words of what runs there; rather than cut them, a wide terminal leaves out history.
    """
    columns = _columns(width, ())
    for left_out in (("memory",), ("memory", "history")):
        if columns.what > longest or not columns.history:
            break
        columns = _columns(width, left_out)
    return columns


def _columns(width: int, left_out: Sequence[str]) -> GpuColumns:
    left = width - _INDEX - _NUMBERS - _UTIL - _LEAST_WHAT
    wanted = (("peak", 12), ("temperature", 5), ("power", 6), ("history", 9))
    chosen: dict[str, int] = {}
    for name, cells in wanted:
        if left - cells < _LEAST_BAR or name in left_out:
            break
        chosen[name] = cells
        left -= cells
    if "history" in chosen and left > 70 and not left_out:
        chosen["history"] += 12
        chosen["memory_history"] = 20
        left -= 32
    room = max(left - _LEAST_BAR, 0)
    first = min(room, _GOOD_WHAT - _LEAST_WHAT)
    more_what = min(first + (room - first) // 2, _MOST_WHAT - _LEAST_WHAT)
    bar = max(min(left - more_what, _MOST_BAR), 1)
    return GpuColumns(bar=bar, what=width - _INDEX - _NUMBERS - _UTIL - bar - sum(chosen.values()), **chosen)


def draw_gpus(
    reading: Reading, history: History, colours: Mapping[int, str], width: int, glyphs: Glyphs
) -> PaneContent:
    """`width` without the mark. A GPU that the driver no longer names keeps a row that says so."""
    gpus = reading.gpus
    if gpus.unavailable is not None or not gpus.gpus:
        return _no_gpu(gpus.unavailable or "the driver reports none on this host", width)
    held = [_what(gpu, reading, colours, glyphs) for gpu in gpus.gpus]
    columns = columns_for(width, max(map(cells_of, held)))
    signs: set[str] = set()
    rows: list[tuple[str, Row]] = []
    for gpu, what in zip(gpus.gpus, held, strict=True):
        shares = [] if gpu.slices else shares_of(gpu, reading)
        signs |= {share.sign for share in shares}
        bar = draw_bar(shares, number(gpu.total_gib) or 0.0, columns.bar, colours, glyphs)
        rows.append((f"{gpu.index}", _gpu_row(gpu, bar, what, columns, history, glyphs)))
        for part in gpu.slices:
            shares = shares_of_slice(gpu, part, reading)
            signs |= {share.sign for share in shares}
            rows.append((f"{gpu.index}.{part.index}", _slice_row(gpu, part, shares, reading, colours, columns, glyphs)))
    for index, since in history.gone:
        words = f"not reported by the driver since {since}: lost, or taken away"
        rows.append((f"{index}", ((cell(f"{index}", _INDEX), "$error bold"), (words, "$error"))))
    rows.sort(key=lambda one: [int(number) for number in one[0].split(".")])
    heading = _heading(signs, columns, width, glyphs)
    return PaneContent(heading, tuple(fit(row, width) for _, row in rows), tuple(key for key, _ in rows))


def _no_gpu(why: str, width: int) -> PaneContent:
    words = ((f"none, because {clean(why)}", ""),)
    ways: Row = (("3 loads a tiny broken model or your deployment   2 opens a log file", "$quiet"),)
    return PaneContent((("GPUs  ", "bold"), *words), (fit(ways, width),), ("none",))


def _heading(signs: set[str], columns: GpuColumns, width: int, glyphs: Glyphs) -> Row:
    labels = [("°C", columns.temperature), ("W", columns.power)]
    tail = right("util", _UTIL) + "".join(right(name, cells) for name, cells in labels if cells)
    left: Row = ()
    for title, names, gap in (("GPU memory   ", _NAMES, "   "), ("GPUs  ", _SHORT_NAMES, "  ")):
        legend = [f"{glyph_of(sign, glyphs)} {name}" for sign, name in names.items() if sign in signs]
        left = ((title, "bold"), (gap.join([*legend, f"{glyphs.free} free"]), "$quiet"))
        room = width + MARK_CELLS - cells_of(left) - len(tail)
        if room > 1:
            return (*left, (" " * room + tail, "$quiet"))
    return left


def _numbers(used_total: str, style: str = "") -> Piece:
    return right(used_total, _NUMBERS - 2) + "  ", style


def _gpu_row(gpu: Gpu, bar: Row, what: Row, columns: GpuColumns, history: History, glyphs: Glyphs) -> Row:
    key = str(gpu.index)
    if gpu.slices:
        first: Row = ((cell(f"in {len(gpu.slices)} slices (MIG): {gpu.name}", columns.bar), "$quiet"),)
    elif number(gpu.used_gib) is None:
        why = gpu.used_gib.reason if isinstance(gpu.used_gib, Unknown) else ""
        first = ((cell(f"? {why}", columns.bar), "$warning"),)
    else:
        first = bar
    peak = history.peak_gib(key)
    tail: list[Piece] = []
    if columns.memory_history:
        drawn = sparkline(history.memory(key), number(gpu.total_gib) or 0.0, columns.memory_history - 2, glyphs)
        tail.append((f"{drawn}  ", "$quiet"))
    if columns.history:
        tail.append((sparkline(history.utilisation(key), 100.0, columns.history - 1, glyphs) + " ", "$accent"))
    tail.append((right("n/a" if gpu.slices else whole(gpu.utilization_percent, " %"), _UTIL), ""))
    if columns.temperature:
        tail.append((right(whole(gpu.temperature_celsius), columns.temperature), ""))
    if columns.power:
        tail.append((right(whole(gpu.power_watts), columns.power), ""))
    return (
        (cell(f"{key} !", _INDEX), "$error bold") if is_sick(gpu) else (cell(key, _INDEX), "bold"),
        *first,
        _numbers(of(gpu.used_gib, gpu.total_gib)),
        *(((cell(f"peak {'?' if peak is None else gib(peak)}", columns.peak), "$quiet"),) if columns.peak else ()),
        *padded(what, columns.what),
        *tail,
    )


def _slice_row(
    gpu: Gpu,
    part: MigSlice,
    shares: Sequence[Share],
    reading: Reading,
    colours: Mapping[int, str],
    columns: GpuColumns,
    glyphs: Glyphs,
) -> Row:
    bar = draw_bar(shares, number(part.total_gib) or 0.0, columns.bar, colours, glyphs)
    if number(part.used_gib) is None:
        why = part.used_gib.reason if isinstance(part.used_gib, Unknown) else ""
        bar = ((cell(f"? {why}", columns.bar), "$warning"),)
    what: Row = (
        (f"{part.name.rpartition('MIG ')[2]} ", "$quiet"),
        *_what_of_processes(part.processes, reading, colours),
    )
    empty = columns.memory_history + columns.history
    return (
        (cell(f" {gpu.index}.{part.index}", _INDEX), "bold"),
        *bar,
        _numbers(of(part.used_gib, part.total_gib)),
        (" " * columns.peak, ""),
        *padded(what, columns.what),
        (" " * empty + right("n/a", _UTIL), "$quiet"),
    )


def padded(row: Row, width: int) -> Row:
    """In exactly `width` cells, the last of them empty."""
    cropped = fit(row, max(width - 1, 1))
    return (*cropped, (" " * max(width - cells_of(cropped), 0), ""))


# What runs there, in words


def _what(gpu: Gpu, reading: Reading, colours: Mapping[int, str], glyphs: Glyphs) -> Row:
    parts = [_holder_words(one, gpu.index, reading.processes, colours, glyphs) for one in holders_of(gpu, reading)]
    if not parts and gpu.slices:
        return ()
    if not parts:
        return ((f"? {gpu.processes_unavailable}", "$warning"),) if gpu.processes_unavailable else (("–", "$quiet"),)
    return _joined(parts)


def _joined(parts: Sequence[Row]) -> Row:
    joined = list(parts[0])
    for row in parts[1:]:
        joined += [(" + ", "$quiet"), *row]
    return tuple(joined)


def _what_of_processes(processes: Sequence[GpuProcess], reading: Reading, colours: Mapping[int, str]) -> Row:
    owners = {pid: server for server in reading.servers for pid in (server.pid, *server.pids)}
    parts: list[Row] = []
    for process in processes:
        server = owners.get(process.pid)
        if server is None:
            parts.append(_other_words(process))
        else:
            parts.append(((clean(server.name), f"{colours.get(server.pid, '')} bold".strip()),))
    return _joined(parts) if parts else (("–", "$quiet"),)


def _other_words(process: GpuProcess) -> Row:
    if process.is_ending:
        return ((f"pid {process.pid} ending", "$quiet"),)
    if not process.is_visible:
        return ((f"pid {process.pid} not visible", "$warning"),)
    return ((f"{clean(process.name)} pid {process.pid}", "$quiet"),)


def _holder_words(
    holder: Holder, gpu: int, processes: Sequence[ProcessReading], colours: Mapping[int, str], glyphs: Glyphs
) -> Row:
    if holder.process is not None:
        return _other_words(holder.process)
    assert holder.server is not None
    if holder.is_claimed:
        return ((f"{clean(holder.server.name)} ?", "$quiet"),)
    return _server_words(holder.server, gpu, processes, colours, glyphs)


def _server_words(
    server: Server, gpu: int, processes: Sequence[ProcessReading], colours: Mapping[int, str], glyphs: Glyphs
) -> Row:
    if server.state == "orphan":
        return ((f"orphan pid {server.pid} !", "$error bold"),)
    name: Row = ((clean(server.name), f"{colours.get(server.pid, '')} bold".strip()),)
    rank = rank_of(server, gpu, processes) if len(server.gpus) > 1 else ""
    if rank:
        name += ((f" {rank}", "$quiet"),)
    if server.state == "loading":
        stage = SHORT_NAMES.get(word(server.stage), word(server.stage))
        name += ((f" {glyphs.running} {stage}", "$accent"),)
    elif server.state == "failed":
        name += ((" failed", "$error bold"),)
    elif server.state == "ending":
        name += ((" ending", "$warning"),)
    if any(split.gpu == gpu and _is_unsplit(split.weights_gib, split.kv_pool_gib) for split in server.memory):
        name += ((", split not known", "$quiet"),)
    return name


def _is_unsplit(weights: object, pool: object) -> bool:
    return isinstance(weights, Unknown) and isinstance(pool, Unknown)


def rank_of(server: Server, gpu: int, processes: Sequence[ProcessReading]) -> str:
    """As the process's title says it, such as tp0 or pp1 tp0; else its number."""
    for process in processes:
        if process.server == server.pid and any(index == gpu for index, _ in process.gpu_gib):
            found = _RANK.search(process.title)
            if found:
                return found[1].strip("_").replace("_", " ").lower()
            if process.rank is not None:
                return f"rank {process.rank}"
    return ""


def fold_gpus(content: PaneContent, reading: Reading) -> PaneContent:
    """All in one line."""
    gpus = reading.gpus.gpus
    if not gpus:
        return PaneContent(content.heading)
    words = "   ".join(f"{gpu.index}: {size(gpu.used_gib)} / {size(gpu.total_gib)}" for gpu in gpus)
    return PaneContent((("GPUs  ", "bold"), (f"{words} GiB", "")))


class GpuPane(RowPane):
    """Rows are keyed by the GPU's index, of a slice by both, such as "0.1"."""


def index_of(key: str) -> tuple[int, int | None]:
    """(GPU, slice) of a row's key."""
    gpu, _, part = key.partition(".")
    return int(gpu), int(part) if part else None
