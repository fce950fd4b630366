"""The processes that hold GPU memory or belong to an engine: as a tree or sorted, all or those that match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine_probe.facts import Known, Unknown
from tui.widgets.clean_text import clean
from tui.widgets.monitor_words import cell_of_name, lasting, number, right, size, whole
from tui.widgets.row_pane import PaneContent, Piece, Row, RowPane, fit
from tui.widgets.words import cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.facts import Fact
    from engine_probe.hardware.gpus import Gpu
    from engine_probe.hardware.reading import ProcessReading, Reading

Order = Literal["tree", "GPU memory", "RSS", "CPU", "since", "pid", "user"]
ORDERS: tuple[Order, ...] = ("tree", "GPU memory", "RSS", "CPU", "since", "pid", "user")
_NOT_VISIBLE = "not visible here: it is of another container or namespace"


@dataclass(frozen=True)
class Entry:
    """One row. `process` is None for a pid that only the driver names, because /proc does not show it here."""

    pid: int
    title: str
    gpu_gib: Fact
    gpus: tuple[int, ...]
    model: str = ""
    depth: int = 0
    process: ProcessReading | None = None

    @property
    def key(self) -> str:
        return str(self.pid)


@dataclass(frozen=True)
class Wanted:
    """What a person chose: the order, whether it is turned round, and the words that a row must have."""

    order: Order = "tree"
    is_reversed: bool = False
    text: str = ""


def entries_of(reading: Reading, wanted: Wanted) -> tuple[Entry, ...]:
    """In the wanted order; a tree keeps the parents of what matches."""
    names = {pid: server.name for server in reading.servers for pid in (*server.pids, server.pid)}
    entries = [_entry(process, names) for process in reading.processes]
    known = {process.pid for process in reading.processes}
    entries += _only_on_gpus(reading.gpus.gpus, known, names)
    matching = [entry for entry in entries if matches(entry, wanted.text)]
    if wanted.order == "tree":
        return tuple(_tree(matching, is_reversed=wanted.is_reversed))
    return tuple(sorted(matching, key=lambda one: _rank(one, wanted.order), reverse=wanted.is_reversed))


def _entry(process: ProcessReading, names: dict[int, str]) -> Entry:
    held = [fact for _, fact in process.gpu_gib]
    return Entry(
        process.pid,
        clean(process.title),
        total_of(held) if held else Known(0.0, "measured", "NVML"),
        tuple(gpu for gpu, _ in process.gpu_gib),
        clean(names.get(process.pid, "")),
        process=process,
    )


def total_of(facts: Sequence[Fact]) -> Fact:
    """One that is not known makes the sum unknown."""
    unknown = next((fact for fact in facts if isinstance(fact, Unknown)), None)
    return unknown or Known(sum(number(fact) or 0.0 for fact in facts), "computed", "NVML, all its GPUs")


def _only_on_gpus(gpus: Sequence[Gpu], known: set[int], names: dict[int, str]) -> list[Entry]:
    held: dict[int, list[tuple[int, Fact, str, bool]]] = {}
    for gpu in gpus:
        for process in (*gpu.processes, *(one for part in gpu.slices for one in part.processes)):
            if process.pid not in known:
                held.setdefault(process.pid, []).append((gpu.index, process.used_gib, process.name, process.is_visible))
    return [
        Entry(
            pid,
            clean(found[0][2]) if found[0][3] else _NOT_VISIBLE,
            total_of([fact for _, fact, _, _ in found]),
            tuple(dict.fromkeys(gpu for gpu, _, _, _ in found)),
            clean(names.get(pid, "")),
        )
        for pid, found in held.items()
    ]


def matches(entry: Entry, text: str) -> bool:
    """Whether each word of `text` stands somewhere in what the row says."""
    process = entry.process
    about = (
        f"{entry.pid} {entry.title} {entry.model} {process.user if process else ''} {process.role if process else ''}"
    )
    return all(word in about.lower() for word in text.lower().split())


def _tree(entries: Sequence[Entry], *, is_reversed: bool) -> list[Entry]:
    """Children below their parents, by pid."""
    pids = {entry.pid for entry in entries}
    below: dict[int, list[Entry]] = {}
    for entry in sorted(entries, key=lambda one: one.pid, reverse=is_reversed):
        parent = entry.process.ppid if entry.process is not None else 0
        below.setdefault(parent if parent in pids and parent != entry.pid else 0, []).append(entry)
    ordered: list[Entry] = []
    waiting = [(entry, 0) for entry in reversed(below.get(0, []))]
    seen: set[int] = set()
    while waiting:
        entry, depth = waiting.pop()
        if entry.pid in seen:  # pids were given anew while they were read
            continue
        seen.add(entry.pid)
        ordered.append(Entry(entry.pid, entry.title, entry.gpu_gib, entry.gpus, entry.model, depth, entry.process))
        waiting += [(child, depth + 1) for child in reversed(below.get(entry.pid, []))]
    return ordered


def _rank(entry: Entry, order: Order) -> tuple[int, float | str, int]:
    """The most first, what is not known last."""
    process = entry.process
    if order == "user":
        return (0 if process else 1, process.user if process else "", entry.pid)
    if order == "pid":
        return (0, float(entry.pid), entry.pid)
    if order == "since":
        return (1, 0.0, entry.pid) if process is None or process.started is None else (0, process.started, entry.pid)
    count = number(_sorted_by(entry, order))
    return (1, 0.0, entry.pid) if count is None else (0, -count, entry.pid)


def _sorted_by(entry: Entry, order: Order) -> Fact | None:
    if order == "GPU memory" or entry.process is None:
        return entry.gpu_gib if order == "GPU memory" else None
    return entry.process.rss_gib if order == "RSS" else entry.process.cpu_percent


@dataclass(frozen=True)
class _Columns:
    title: int
    model: int = 0
    user: int = 0
    pss: int = 0
    shared: int = 0
    threads: int = 0
    files: int = 0


_PID, _GPUS, _GPU, _RSS, _CPU, _SINCE = 9, 7, 9, 8, 7, 8


def _columns_for(width: int) -> _Columns:
    left = width - _PID - _GPUS - _GPU - _RSS - _CPU - _SINCE
    extra: dict[str, int] = {}
    wanted = (("model", 14), ("user", 10), ("pss", 8), ("threads", 8), ("shared", 8), ("files", 7))
    for name, cells in wanted:
        if left - cells < 22:
            break
        extra[name] = cells
        left -= cells
    if "model" in extra and left > 60:
        extra["model"] += 12
        left -= 12
    return _Columns(title=left, **extra)


def draw_processes(reading: Reading, entries: Sequence[Entry], wanted: Wanted, width: int) -> PaneContent:
    """`width` without the mark. Rows are keyed by pid."""
    columns = _columns_for(width)
    if not entries and not wanted.text:
        return PaneContent((("Processes  ", "bold"), ("none holds GPU memory or belongs to an engine", "$quiet")))
    heading = (*_title(wanted, len(entries), columns.title + 2 + _PID), *_labels(columns))
    rows = tuple(fit(_row(entry, reading.time, columns), width) for entry in entries)
    return PaneContent(tuple(heading), rows, tuple(entry.key for entry in entries))


def _title(wanted: Wanted, count: int, cells: int) -> tuple[Piece, Piece]:
    turned = ", reversed" if wanted.is_reversed else ""
    words = f"{count} with {wanted.text!r}" if wanted.text else f"by {wanted.order}{turned}"
    return ("Processes", "bold"), (cell(f"  {words}", cells - 9), "$quiet")


def _labels(columns: _Columns) -> Row:
    named = (
        ("model", columns.model, False), ("user", columns.user, False), ("GPUs", _GPUS, False),
        ("GPU GiB", _GPU, True), ("RSS", _RSS, True), ("PSS", columns.pss, True), ("shared", columns.shared, True),
        ("CPU %", _CPU, True), ("threads", columns.threads, True), ("files", columns.files, True),
        ("since", _SINCE, True),
    )  # fmt: skip
    return tuple(((right if is_right else cell)(text, cells), "$quiet") for text, cells, is_right in named if cells)


def _row(entry: Entry, now: float, columns: _Columns) -> Row:
    process = entry.process
    is_mine = process is not None and process.is_mine
    style = "" if is_mine else "$quiet"
    title = "  " * min(entry.depth, 8) + short_title(entry.title)
    since = None if process is None or process.started is None else now - process.started
    held = size(entry.gpu_gib) if entry.gpus else "–"
    rss, pss, shared, cpu, threads, files = _facts_of(process)
    cells = (
        (cell(str(entry.pid), _PID), _PID, "bold" if is_mine else "$quiet"),
        (cell(title, columns.title - 1) + " ", columns.title, "$warning" if process is None else style),
        (cell_of_name(entry.model, columns.model - 1) + " ", columns.model, style),
        (cell(process.user if process else "?", columns.user - 1) + " ", columns.user, style),
        (cell(",".join(map(str, entry.gpus)) or "–", _GPUS - 1) + " ", _GPUS, style),
        (right(held, _GPU), _GPU, style),
        (right(size(rss), _RSS), _RSS, style),
        (right(size(pss), columns.pss), columns.pss, style),
        (right(size(shared), columns.shared), columns.shared, style),
        (right(whole(cpu), _CPU), _CPU, style),
        (right(whole(threads), columns.threads), columns.threads, style),
        (right(whole(files), columns.files), columns.files, style),
        (right(lasting(since), _SINCE), _SINCE, style),
    )
    return tuple((text, how) for text, width, how in cells if width)


def short_title(title: str) -> str:
    """A command without the folders of its programs, and without the Python that runs it."""
    words = title.split(" ")
    if not words[0].startswith("/"):
        return title
    first = words[0].rpartition("/")[2]
    if first.startswith("python") and len(words) > 1 and words[1].startswith("/"):
        return " ".join((words[1].rpartition("/")[2], *words[2:]))
    return " ".join((first, *words[1:]))


def _facts_of(process: ProcessReading | None) -> tuple[Fact | None, ...]:
    if process is None:
        return (None,) * 6
    own = process
    return (own.rss_gib, own.pss_gib, own.shared_gib, own.cpu_percent, own.threads, own.open_files)


def fold_processes(entries: Sequence[Entry], wanted: Wanted) -> PaneContent:
    """In one line."""
    unseen = sum(entry.process is None for entry in entries)
    words = f"{len(entries)}" + (f", {unseen} not visible here" if unseen else "")
    words += f" with {wanted.text!r}" if wanted.text else ""
    return PaneContent((("Processes  ", "bold"), (words, "")))


class ProcessTable(RowPane):
    """Rows are keyed by pid."""
