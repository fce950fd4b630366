"""The host beside its GPUs: RAM, this container, /dev/shm, swap, disks, and what this console itself costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Fact, Known, Unknown
from tui.widgets.clean_text import clean
from tui.widgets.monitor_words import number, of, reason, short_bar, size, whole
from tui.widgets.row_pane import MARK_CELLS, PaneContent, Row, RowPane, cells_of, fit
from tui.widgets.words import cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.hardware.host import Disk, HostState
    from tui.themes.glyphs import Glyphs

_TIGHT = 0.9
"""Of what there is: from here on a sign stands beside the number."""
_LEAST_FREE_GIB = 1.0
_LABEL = 18
_LEAST_COLUMN, _LEAST_BAR, _MOST_BAR = 48, 5, 40


@dataclass(frozen=True)
class HostLine:
    """One value of the host. `share` from 0 to 1 is drawn as a bar; `brief` is what the folded pane says."""

    key: str
    label: str
    words: str
    brief: str
    share: float | None = None
    style: str = ""

    @property
    def is_tight(self) -> bool:
        return self.style != ""


def host_lines(host: HostState, own_percent: float | None) -> tuple[HostLine, ...]:
    """Most telling first."""
    found = [_ram(host)]
    if host.cgroup_limit_gib is not None:
        found.append(_container(host))
    shm_used = _less(host.shm_total_gib, host.shm_free_gib)
    found.append(_sized("shm", "/dev/shm", shm_used, host.shm_total_gib))  # noqa: S108 -- shown, not opened
    swap_used = _less(host.swap_total_gib, host.swap_free_gib)
    found.append(_swap(swap_used, host.swap_total_gib))
    found += [_disk(disk, i) for i, disk in enumerate(host.disks)]
    cpu = whole(host.cpu_percent, " %")
    found.append(HostLine("cpu", "CPU", f"{cpu} of all cores", f"CPU {cpu}"))
    found.append(_own(own_percent))
    return tuple(found)


def _ram(host: HostState) -> HostLine:
    used = _less(host.ram_total_gib, host.ram_available_gib)
    cached = number(host.ram_cached_gib)
    more = f"   cached {size(host.ram_cached_gib)}" if cached is not None else ""
    return _sized("ram", "RAM", used, host.ram_total_gib, more)


def _container(host: HostState) -> HostLine:
    used, limit = host.cgroup_used_gib, host.cgroup_limit_gib
    cached = number(host.cgroup_cached_gib)
    more = f"   cached {size(host.cgroup_cached_gib)}" if cached is not None else ""
    line = _sized("container", "this container", used, limit, more)
    used_gib, limit_gib = number(used), number(limit)
    if cached is None or used_gib is None or not limit_gib or (used_gib - cached) / limit_gib >= _TIGHT:
        return line
    return HostLine(line.key, line.label, line.words.replace(" !", ""), line.brief.replace(" !", ""), line.share)


def _sized(key: str, label: str, used: Fact | None, total: Fact | None, more: str = "") -> HostLine:
    used_gib, total_gib = number(used), number(total)
    share = used_gib / total_gib if used_gib is not None and total_gib else None
    is_tight = share is not None and share >= _TIGHT
    sign = " !" if is_tight else ""
    why = reason(used) or reason(total)
    words = f"{of(used, total)}{sign}{more}" if not why else f"{of(used, total)}   {why}"
    return HostLine(key, label, words, f"{label} {of(used, total)}{sign}", share, "$warning" if is_tight else "")


def _swap(used: Fact, total: Fact) -> HostLine:
    if number(total) == 0:
        return HostLine("swap", "swap", "none", "swap none")
    line = _sized("swap", "swap", used, total)
    return HostLine("swap", "swap", line.words.replace(" !", ""), f"swap {size(used)}", line.share)


def _disk(disk: Disk, place: int) -> HostLine:
    rate = number(disk.read_mib_per_second)
    read = "?" if rate is None else f"{rate / 1024:.1f} GiB/s" if rate >= 1000 else f"{rate:,.0f} MiB/s"
    why = reason(disk.free_gib) or reason(disk.total_gib)
    words = f"free {_big(disk.free_gib)}  read {read}"
    free, total = number(disk.free_gib), number(disk.total_gib)
    is_full = free is not None and free < _LEAST_FREE_GIB
    label = cell(clean(disk.what), _LABEL - 1).rstrip()
    brief = f"{clean(disk.what)} read {read}" if not is_full else f"{clean(disk.what)} {_big(disk.free_gib)} free !"
    words = words if not why else f"?   {why}"
    share = 1 - free / total if free is not None and total else None
    return HostLine(f"disk {place}", label, words, brief, share, "$warning" if is_full else "")


def _big(fact: Fact) -> str:
    count = number(fact)
    return f"{count / 1024:.1f} TiB" if count is not None and count >= 1000 else f"{size(fact)} GiB"


def _own(own_percent: float | None) -> HostLine:
    share = "being measured" if own_percent is None else f"{own_percent:.1f} % of a core"
    return HostLine("own", "this console", share, f"this console {share}")


def _less(total: Fact, free: Fact) -> Fact:
    total_gib, free_gib = number(total), number(free)
    if total_gib is None or free_gib is None:
        return total if isinstance(total, Unknown) else free
    return Known(max(total_gib - free_gib, 0.0), "computed", "total less available")


def draw_host(lines: Sequence[HostLine], width: int, glyphs: Glyphs) -> PaneContent:
    """As many columns as fit, filled row by row."""
    count = max(1, min(width // _LEAST_COLUMN, 3))
    column = width // count
    words = max((len(line.words) for line in lines if line.share is not None), default=0)
    bar = min(column - _LABEL - words - 4, _MOST_BAR)
    rows = []
    for start in range(0, len(lines), count):
        row: Row = ()
        for line in lines[start : start + count]:
            drawn = _one(line, column, bar if bar >= _LEAST_BAR else 0, glyphs)
            row += (*drawn, (" " * (column - cells_of(drawn)), ""))
        rows.append(row)
    keys = tuple(lines[start].key for start in range(0, len(lines), count))
    return PaneContent((("Host", "bold"),), tuple(rows), keys)


def _one(line: HostLine, width: int, room: int, glyphs: Glyphs) -> Row:
    """`room`: cells of the bar, 0 where there is none."""
    bar: Row = ()
    if room and (line.share is not None or _LABEL + room + 4 + len(line.words) <= width):
        drawn = "" if line.share is None else short_bar(line.share, room, glyphs.used, glyphs.free)
        filled = drawn.rstrip(glyphs.free)
        bar = ((filled, line.style or "$accent"), (cell(drawn[len(filled) :], room - len(filled)) + "  ", "$rule"))
    style = line.style or ("$quiet" if line.key == "own" else "")
    return fit(((cell(line.label, _LABEL), "$quiet"), *bar, (line.words, style)), width - 2)


def fold_host(lines: Sequence[HostLine], width: int) -> PaneContent:
    """In one line: what is tight first; what does not fit is left out as a whole."""
    row: Row = (("Host  ", "bold"),)
    for line in sorted(lines, key=lambda one: not one.is_tight):
        gap = "" if len(row) == 1 else "   "
        if cells_of(row) + len(gap) + len(line.brief) <= width + MARK_CELLS:
            row += ((gap + line.brief, line.style or ("$quiet" if line.key == "own" else "")),)
    return PaneContent(row)


class HostPane(RowPane):
    """Rows are keyed by what comes first in them."""
