"""A look at the host as lines of plain text: GPUs with their bars, the host, the models, what is wrong.

What is not known is a `?` in a table, with its reason below, and said in words elsewhere.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from playbooks.alert import gpu_names, number, span, word
from playbooks.gpu_holders import holders_of
from tui.commands.monitor_bar import ASCII, UNICODE, drawn, legend, shares_of
from tui.output import fold
from tui.stage_words import SHORT_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine_probe.facts import Fact
    from engine_probe.hardware.gpus import Gpu, MigSlice
    from engine_probe.hardware.host import Disk, HostState
    from engine_probe.hardware.reading import Reading, Server
    from playbooks.alert import Alert

_STYLES = {"error": "bold red", "warning": "yellow"}
_MIB_PER_GB = 1000**3 / 1024**2
_GAP = "  "
_LEAST_INDENT = 5
_NAME_WIDTH, _DOING_WIDTH = 24, 16
"""So many columns a model's name and what it does have at least, before other columns go."""
_HOLDER_WIDTH = 32
"""Of a name beside a GPU: a process's title may be as long as its owner likes."""


@dataclass(frozen=True)
class Line:
    """`style` is a rich style; the words say the same."""

    text: str
    style: str = ""


def lines_of(reading: Reading, alerts: Sequence[Alert], width: int, *, ascii_only: bool = False) -> Iterator[Line]:
    """`width` is that of the terminal."""
    yield from _items("", _headline(reading), width, " · ", "bold")
    yield from _gpu_lines(reading, width, ascii_only=ascii_only)
    yield from _host_lines(reading.host, width)
    yield from _model_lines(reading, width)
    yield from _alert_lines(alerts, width)


def _headline(reading: Reading) -> list[str]:
    state = reading.gpus
    parts = [reading.host_name, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(reading.time))]
    count = len(state.gpus)
    parts.append(f"{count} GPU{'s' if count != 1 else ''}" if state.unavailable is None else "no GPUs")
    parts += [f"driver {state.driver_version}"] if state.driver_version else []
    parts += [f"CUDA {state.cuda_version}"] if state.cuda_version else []
    return parts


@dataclass(frozen=True)
class _Row:
    """A GPU or one slice of it. `cells` are those of the columns; no bar: `words` say why."""

    name: str
    bar: str
    cells: tuple[str, ...]
    words: tuple[str, ...]


@dataclass(frozen=True)
class _Column:
    head: str
    width: int
    wanted_from: int
    """A narrower terminal goes without it."""


_COLUMNS = (
    _Column("used / GiB", 13, 0),
    _Column("peak", 5, 100),
    _Column("util", 5, 60),
    _Column("°C", 3, 70),
    _Column("W", 4, 70),
)


def _gpu_lines(reading: Reading, width: int, *, ascii_only: bool) -> Iterator[Line]:
    state = reading.gpus
    if state.unavailable is not None:
        yield from _folded(f"GPUs unknown, because {state.unavailable}", width)
        return
    if not state.gpus:
        yield Line("GPUs: the driver counts none")
        return
    signs = ASCII if ascii_only else UNICODE
    bar_width = max(min((width - 40) // 2, 40), 10)
    columns = [one for one in _COLUMNS if width >= one.wanted_from]
    rows = [row for gpu in state.gpus for row in _rows(gpu, reading, bar_width, ascii_only=ascii_only)]
    names = max(3, *(len(row.name) for row in rows))
    head = [f"{'GPU':<{names}}", f"{'memory':<{bar_width}}", *(f"{one.head:>{one.width}}" for one in columns)]
    yield Line(_GAP.join([*head, "held by"]), "bold")
    for row in rows:
        yield from _drawn_row(row, names, columns, width)
    if words := legend((row.bar for row in rows), signs):
        yield from _items(f"{'':{names}}{_GAP}", words.split("   "), width, "   ")
    yield from _reasons(state.gpus, columns, width)


def _rows(gpu: Gpu, reading: Reading, bar_width: int, *, ascii_only: bool) -> Iterator[_Row]:
    signs = ASCII if ascii_only else UNICODE
    name = str(gpu.index)
    used, total = number(gpu.used_gib), number(gpu.total_gib)
    if used is None or total is None:
        fact = gpu.used_gib if used is None else gpu.total_gib
        yield _Row(name, "", (), (f"unknown, because {_why(fact)}",))
    else:
        bar = drawn(shares_of(gpu, reading), total, bar_width, signs)
        measured = (gpu.peak_used_gib, gpu.utilization_percent, gpu.temperature_celsius, gpu.power_watts)
        peak, util, degrees, watts = map(number, measured)
        cells = (_of(used, total), _cell(peak, ".1f"), _cell(util, ".0f", " %"), _cell(degrees), _cell(watts))
        yield _Row(name, bar, cells, tuple(_holders(gpu, reading)))
    for part in gpu.slices:
        yield _slice_row(part, name, bar_width, signs.others, signs.free)


def _slice_row(part: MigSlice, gpu: str, bar_width: int, used_sign: str, free_sign: str) -> _Row:
    """Nobody measures a slice's utilisation, temperature or power."""
    used, total = number(part.used_gib), number(part.total_gib)
    name = f"{gpu}.{part.index}"
    if used is None or not total:
        return _Row(name, "", (), (part.name, f"unknown, because {_why(part.used_gib)}"))
    cells = min(round(used / total * bar_width), bar_width)
    bar = used_sign * cells + free_sign * (bar_width - cells)
    held = (f"{_cut(one.name, _HOLDER_WIDTH)} (pid {one.pid}) {_size(one.used_gib)}" for one in part.processes)
    return _Row(name, bar, (_of(used, total), "n/a", "n/a", "n/a", "n/a"), (part.name, *held))


def _holders(gpu: Gpu, reading: Reading) -> Iterator[str]:
    """Each model once; behind one that the driver does not list there is a `?`."""
    for one in holders_of(gpu, reading):
        size = _cell(one.held_gib, ".1f")
        if one.server is not None:
            name = _cut(one.server.name, _HOLDER_WIDTH)
            yield f"{f'orphan pid {one.server.pid}' if one.server.state == 'orphan' else name} {size}"
        elif one.process is not None and one.process.slice_index is None:
            yield f"{_cut(one.process.name, _HOLDER_WIDTH)} (pid {one.process.pid}) {size}"
    if gpu.processes_unavailable is not None:
        yield f"unknown, because {gpu.processes_unavailable}"


def _drawn_row(row: _Row, names: int, columns: Sequence[_Column], width: int) -> Iterator[Line]:
    """What holds the memory goes on below itself where the line is full."""
    start = f"{row.name:>{names}}{_GAP}"
    if row.bar:
        shown = dict(zip(_COLUMNS, row.cells, strict=True))
        start += _GAP.join([row.bar, *(f"{shown[one]:>{one.width}}" for one in columns)]) + _GAP
    yield from _items(start.rstrip() if not row.words else start, row.words, width, ", ")


def _items(start: str, items: Sequence[str], width: int, between: str, style: str = "") -> Iterator[Line]:
    """Whole items behind `start`, in as many lines as they need; those that go on stand below each other."""
    longest = max((len(item) for item in items), default=0)
    indent = " " * min(len(start), max(_LEAST_INDENT, width - longest))
    line, is_fresh = start, True
    for item in items:
        room = width - len(line) - len(item)
        if room < (0 if is_fresh else len(between)) and line.strip():
            yield Line(line.rstrip(), style)
            line, is_fresh = indent, True
        line += item if is_fresh else between + item
        is_fresh = False
    yield Line(line.rstrip(), style)


def _reasons(gpus: Sequence[Gpu], columns: Sequence[_Column], width: int) -> Iterator[Line]:
    """Why there is a `?`, once for all GPUs that say the same."""
    asked = {"peak": "peak_used_gib", "util": "utilization_percent", "°C": "temperature_celsius", "W": "power_watts"}
    why: dict[tuple[str, str], list[int]] = {}
    for head in (one.head for one in columns if one.head in asked):
        for gpu in gpus:
            fact = getattr(gpu, asked[head])
            if number(fact) is None and number(gpu.used_gib) is not None:
                why.setdefault((head, _why(fact)), []).append(gpu.index)
    heads: dict[tuple[str, str], list[str]] = {}
    for (head, reason), indices in why.items():
        heads.setdefault((gpu_names(indices), reason), []).append(head)
    for (names, reason), found in heads.items():
        yield from _folded(f"? {', '.join(found)} of {names}: {reason}", width)


def _host_lines(host: HostState, width: int) -> Iterator[Line]:
    items = [_used("RAM", host.ram_total_gib, host.ram_available_gib)]
    limit, used = number(host.cgroup_limit_gib), number(host.cgroup_used_gib)
    if limit is not None and used is not None:
        cached = number(host.cgroup_cached_gib)
        file_cache = "" if cached is None else f" ({cached:.1f} file cache)"
        items.append(f"this container {_of(used, limit)} GiB{file_cache}")
    elif host.cgroup_limit_gib is not None:
        items.append(f"container's limit unknown, because {_why(host.cgroup_limit_gib, host.cgroup_used_gib)}")
    items.append(_used("/dev/shm", host.shm_total_gib, host.shm_free_gib))  # noqa: S108 -- shown, not opened
    items.append(_used("swap", host.swap_total_gib, host.swap_free_gib))
    if (busy := number(host.cpu_percent)) is not None:
        items.append(f"CPU {busy:.0f} %")
    items += [_disk(one) for one in host.disks]
    yield Line("")
    yield from _items("Host    ", items, width, "   ")


def _used(name: str, total: Fact, free: Fact) -> str:
    total_gib, free_gib = number(total), number(free)
    if total_gib == 0:
        return f"no {name}"
    if total_gib is None or free_gib is None:
        return f"{name} unknown, because {_why(total, free)}"
    return f"{name} {_of(max(total_gib - free_gib, 0.0), total_gib)} GiB"


def _disk(disk: Disk) -> str:
    total, free, read = number(disk.total_gib), number(disk.free_gib), number(disk.read_mib_per_second)
    if total is None or free is None:
        return f"{disk.what} ({disk.path}) unknown, because {_why(disk.total_gib, disk.free_gib)}"
    rate = (
        ""
        if not read
        else f", read {read:.0f} MiB/s"
        if read < _MIB_PER_GB
        else f", read {read / _MIB_PER_GB:.1f} GB/s"
    )
    return f"{disk.what} ({disk.path}) {free:.1f} of {total:.1f} GiB free{rate}"


def _model_lines(reading: Reading, width: int) -> Iterator[Line]:
    yield Line("")
    if not reading.servers:
        yield Line("Models  none of vLLM's servers was found")
        return
    head = ("MODEL", "STATE", "STAGE OR KV USE", "POOL", "RUNNING / WAITING", "GPUS", "SINCE", "PID")
    table = [head, *(_model_cells(one, reading.time) for one in reading.servers)]
    kept = list(range(len(head)))
    widths = [max(len(row[place]) for row in table) for place in kept]
    wanted = [min(widths[0], _NAME_WIDTH), widths[1], min(widths[2], _DOING_WIDTH), *widths[3:]]
    for unneeded in (3, 7, 6, 4):
        if _too_wide(wanted, kept, width) > 0:
            kept.remove(unneeded)
    for place, least in ((0, _NAME_WIDTH), (2, _DOING_WIDTH)):
        too_wide = max(0, _too_wide(widths, kept, width))
        widths[place] = max(widths[place] - too_wide, min(widths[place], least))
    for number_, row in enumerate(table):
        text = _GAP.join(_cut(row[place], widths[place]).ljust(widths[place]) for place in kept).rstrip()
        yield Line(text, "" if number_ else "bold")


def _too_wide(widths: Sequence[int], kept: Sequence[int], width: int) -> int:
    """By how many columns the kept ones of a table are wider than the terminal."""
    return sum(widths[place] + len(_GAP) for place in kept) - len(_GAP) - width


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _model_cells(server: Server, now: float) -> tuple[str, ...]:
    pool, kv_use = number(server.kv_pool_gib), number(server.kv_use_percent)
    running, waiting = number(server.running), number(server.waiting)
    if server.state == "serving":
        doing = "KV ?" if kv_use is None else f"KV {kv_use:.0f} %"
    else:
        stage = word(server.stage) or "?"
        detail = "" if server.state == "failed" else server.stage_detail  # the alert says why
        doing = " ".join((SHORT_NAMES.get(stage, stage), detail)).strip()
    since = "?" if server.started is None else span(max(now - server.started, 0.0))
    gpus = gpu_names(server.gpus).partition(" ")[2] if server.gpus else "-"
    requests = f"{_cell(running)} / {_cell(waiting)}" if server.state == "serving" else "-"
    size = "?" if pool is None else f"{pool:.1f} GiB"
    return (server.name, server.state, doing, size, requests, gpus, since, str(server.pid))


def _alert_lines(alerts: Sequence[Alert], width: int) -> Iterator[Line]:
    yield Line("")
    if not alerts:
        yield Line("Nothing that was looked at is wrong.")
    for alert in alerts:
        yield from _under(f"{alert.severity:<9}", alert.text, width, _STYLES[alert.severity])
        yield from _under(" " * 9, alert.what_to_do, width)
        if alert.playbook is not None:
            yield Line(f"{'':9}playbook: {alert.playbook}")


def _folded(text: str, width: int) -> Iterator[Line]:
    for one in fold(text, "", width):
        yield Line(one)


def _under(start: str, text: str, width: int, style: str = "") -> Iterator[Line]:
    """All lines of `text` below each other, behind `start`."""
    import textwrap

    room = max(width - len(start), 20)
    for place, one in enumerate(textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)):
        yield Line((" " * len(start) if place else start) + one, style)


def _of(used: float, total: float) -> str:
    return f"{used:.1f} / {total:.1f}"


def _cell(value: float | None, form: str = ".0f", unit: str = "") -> str:
    return "?" if value is None else format(value, form) + unit


def _size(fact: Fact) -> str:
    return _cell(number(fact), ".1f")


def _why(*facts: Fact | None) -> str:
    """The first reason; a value that is no number is its own."""
    for fact in facts:
        if isinstance(fact, Unknown):
            return fact.reason
    odd = next((str(fact.value) for fact in facts if isinstance(fact, Known) and number(fact) is None), "")
    return f"{odd} is no size" if odd else "it is not said"
