"""The names of several logs as the column beside their lines has them: short, and no two the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from tui.widgets.clean_text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CELLS, _WIDE_CELLS = 7, 15


def column_names(sources: Sequence[str], is_wide: bool) -> tuple[str, ...]:
    """What is the same at the end of all paths is left out; what is too long is cut where the rest still differs."""
    names = _without_common_end([clean(name).removesuffix(".log") for name in sources])
    most = _WIDE_CELLS if is_wide else _CELLS
    ways: tuple[Callable[[str], str], ...] = (
        lambda name: _end_of(name, most),
        lambda name: _start_of(name, most),
        lambda name: _both_ends_of(name, most),
    )
    for way in ways:
        shown = tuple(map(way, names))
        if len(set(shown)) == len(set(names)):
            break
    if len(set(shown)) == len(names):
        return shown
    return tuple(_end_of(f"{number} {name}", most, f"{number} ") for number, name in enumerate(names, 1))


def _without_common_end(names: list[str]) -> list[str]:
    parts = [name.split("/") for name in names]
    while len(parts) > 1 and min(map(len, parts)) > 1 and len({one[-1] for one in parts}) == 1:
        parts = [one[:-1] for one in parts]
    return ["/".join(one) for one in parts]


def _end_of(name: str, most: int, head: str = "") -> str:
    """Names of logs mostly differ at their ends. `head` stays."""
    if cell_len(name) <= most:
        return name
    rest = name
    while rest and cell_len(f"{head}…{rest}") > most:
        rest = rest[1:]
    return f"{head}…{rest}"


def _start_of(name: str, most: int) -> str:
    if cell_len(name) <= most:
        return name
    while name and cell_len(name) + 1 > most:
        name = name[:-1]
    return f"{name}…"


def _both_ends_of(name: str, most: int) -> str:
    if cell_len(name) <= most:
        return name
    return _start_of(name, most // 2) + _end_of(name, most - most // 2).removeprefix("…")
