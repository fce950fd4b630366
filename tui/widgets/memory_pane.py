"""Host and GPU memory: bars with their numbers, in full or as one line each. What is not known says why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.facts import Fact, Known, Unknown
from tui.widgets.clean_text import clean
from tui.widgets.words import Words, cell, cut, gib, lines, part, wrapped

if TYPE_CHECKING:
    from textual.content import Content

    from tui.themes.glyphs import Glyphs

_NOT_READ = Unknown("it was not read yet")

_NOTHING_LOADED = Unknown("nothing is loaded")


@dataclass(frozen=True)
class GpuRow:
    """One GPU's memory."""

    index: int
    name: str
    used_gib: Fact
    total_gib: Fact


@dataclass(frozen=True)
class HostView:
    """What the memory panes draw. All values in GiB; `model_gib` is the resident memory of the load's processes."""

    host: str = ""
    ram_total_gib: Fact = _NOT_READ
    ram_available_gib: Fact = _NOT_READ
    container_used_gib: Fact = _NOT_READ
    container_limit_gib: Fact = _NOT_READ
    shm_used_gib: Fact = _NOT_READ
    shm_total_gib: Fact = _NOT_READ
    model_gib: Fact = _NOTHING_LOADED
    gpus: tuple[GpuRow, ...] = ()
    no_gpu: str | None = "it was not read yet"
    """Why there is no GPU to show; None when there is one."""

    def with_model(self, model_gib: Fact) -> HostView:
        return replace(self, model_gib=model_gib)


def number(fact: Fact) -> float | None:
    return float(fact.value) if isinstance(fact, Known) and isinstance(fact.value, (int, float)) else None


def bar(used: float, model: float, total: float, width: int, glyphs: Glyphs) -> Content:
    """The model's share, the rest in use, what is free. The number stands beside it, never only the bar."""
    if total <= 0 or width <= 0:
        return part("")
    model_cells = min(round(model / total * width), width)
    if model > 0 and model_cells == 0:
        model_cells = 1
    used_cells = max(min(round(used / total * width), width) - model_cells, 0)
    free_cells = width - model_cells - used_cells
    return (
        part(glyphs.used * model_cells, "$accent")
        + part(glyphs.other * used_cells, "$quiet")
        + part(glyphs.free * free_cells, "$rule")
    )


def _of(used: Fact, total: Fact) -> str:
    used_gib, total_gib = number(used), number(total)
    if used_gib is None or total_gib is None:
        unknown = used if isinstance(used, Unknown) else total
        return f"unknown, because {unknown.reason}" if isinstance(unknown, Unknown) else "unknown"
    return f"{gib(used_gib)} of {gib(total_gib)} GiB"


def ram_used(view: HostView) -> Fact:
    total, free = number(view.ram_total_gib), number(view.ram_available_gib)
    if total is None or free is None:
        return view.ram_total_gib if isinstance(view.ram_total_gib, Unknown) else view.ram_available_gib
    return Known(max(total - free, 0.0), "computed", "total less available")


def draw_host(view: HostView, width: int, glyphs: Glyphs) -> Content:
    """The whole pane."""
    rows = [_ram_row(view, width, glyphs)]
    model = number(view.model_gib)
    if model is not None:
        share = part(f"{glyphs.used} ", "$accent") + part(f"{gib(model)} GiB") + part(" resident", "$quiet")
    else:
        share = part(view.model_gib.reason if isinstance(view.model_gib, Unknown) else "", "$quiet")
    rows.append(_label("model") + share.truncate(max(width - 11, 1), ellipsis=True))
    if isinstance(view.container_limit_gib, Known):
        rows.append(_label("container") + part(_of(view.container_used_gib, view.container_limit_gib)))
    else:
        rows.append(
            _label("container") + part(cut(f"no limit: {view.container_limit_gib.reason}", width - 11), "$quiet")
        )
    rows.append(
        _label("/dev/shm")  # noqa: S108 -- shown, not opened
        + part(cut(_of(view.shm_used_gib, view.shm_total_gib), width - 11))
    )
    return lines(rows)


def _label(text: str, width: int = 11) -> Content:
    return part(cell(text, width), "$quiet")


def _ram_row(view: HostView, width: int, glyphs: Glyphs, label_width: int = 11) -> Content:
    used, total = ram_used(view), view.ram_total_gib
    words = _of(used, total) + (" used" if number(used) is not None else "")
    used_gib, total_gib = number(used), number(total)
    if used_gib is None or total_gib is None:
        return _label("RAM", label_width) + part(cut(words, width - label_width), "$quiet")
    room = min(width - label_width - len(words) - 2, 40)
    drawn = bar(used_gib, number(view.model_gib) or 0.0, total_gib, room, glyphs)
    return _label("RAM", label_width) + drawn + part("  " if room > 0 else "") + part(words)


def draw_gpus(view: HostView, width: int, glyphs: Glyphs) -> Content:
    if view.no_gpu is not None:
        return lines(
            [
                part("No GPU memory to show", "bold"),
                *wrapped(f"because {clean(view.no_gpu)}", width, style="$quiet", most=4),
            ]
        )
    rows = []
    for gpu in view.gpus:
        words = _of(gpu.used_gib, gpu.total_gib)
        used, total = number(gpu.used_gib), number(gpu.total_gib)
        room = min(width - 7 - len(words) - 2, 40)
        drawn = bar(used, 0.0, total, room, glyphs) if used is not None and total is not None else part("")
        rows.append(
            part(f"GPU {gpu.index:<3}", "$quiet")
            + drawn
            + part("  " if drawn.plain else "")
            + part(cut(words, width - 7))
        )
    return lines(rows)


def host_line(view: HostView, width: int, glyphs: Glyphs) -> Content:
    """The pane in one line."""
    row = part("Host ", "bold") + _ram_row(view, 46, glyphs, label_width=4)
    model = number(view.model_gib)
    if model is not None:
        row += part("   model ", "$quiet") + part(f"{gib(model)} GiB")
    if isinstance(view.container_limit_gib, Known):
        row += part("   container ", "$quiet") + part(_of(view.container_used_gib, view.container_limit_gib))
    return row.truncate(max(width, 1), ellipsis=True)


def gpu_line(view: HostView, width: int) -> Content:
    if view.no_gpu is not None:
        return part("GPU  ", "bold") + part(cut(f"none, because {clean(view.no_gpu)}", width - 5), "$quiet")
    words = "   ".join(f"{gpu.index}: {_of(gpu.used_gib, gpu.total_gib)}" for gpu in view.gpus)
    return part("GPU  ", "bold") + part(cut(words, width - 5))


class MemoryPane(Words):
    """Both panes one above the other, or both lines: `folded` decides."""

    DEFAULT_CSS = """
    MemoryPane { border-top: solid $rule; border-title-color: $quiet; padding: 0 1; height: auto; }
    MemoryPane.folded { border-top: none; }
    """

    def __init__(self, glyphs: Glyphs, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(glyphs, id=id, classes=classes)
        self._view = HostView()
        self.border_title = "Memory"

    def set_view(self, view: HostView) -> None:
        self._view = view
        self.draw()

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        width = max(self.content_region.width, 10)
        if self.has_class("folded"):
            self.show(lines([host_line(self._view, width, self.glyphs), gpu_line(self._view, width)]))
            return
        self.show(
            lines([draw_host(self._view, width, self.glyphs), part(""), draw_gpus(self._view, width, self.glyphs)])
        )
