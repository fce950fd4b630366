"""A log by itself: scrolled, followed, filtered and searched while it is still being read."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import work

from engine_probe.logs.follow import Break
from engine_probe.logs.index_blocks import LONGEST_SHOWN_BYTES
from engine_probe.logs.index_wanted import Wanted
from engine_probe.stage_names import STAGES
from tui import actions
from tui.actions import Moment
from tui.exports import free_path
from tui.log_silence import Silence
from tui.screens.leaving import short_path
from tui.screens.log_jumps import LogJumps
from tui.widgets.clean_text import clean
from tui.widgets.key_bar import KeyBar
from tui.widgets.log_filters import LogFilters, next_level, next_model, next_stage, toggled
from tui.widgets.log_stages import LogStages
from tui.widgets.log_wanted_words import words_of
from tui.widgets.words import Words, apart, part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

    from engine_probe.launch import Deployment
    from engine_probe.logs.index_stream import LogLine
    from playbooks.evidence import Evidence
    from tui.opened_log import OpenedLog

_BUSY_SECONDS, _IDLE_SECONDS = 0.01, 0.1
"""Between two steps: the first lets keys through, the second is how soon a new line is seen."""
_MOST_COPIED = 5000
"""Lines."""
_DRAW_EVERY = 4
"""Steps of reading for each time that it is drawn."""


def draw_title(log: OpenedLog, following: bool, width: int, silent: str = "") -> Content:
    count = log.index.line_count
    about = f" · {count:,} line{'' if count == 1 else 's'}"
    if log.is_filtered:
        words = words_of(log.wanted)
        about += f", {log.wanted_count:,} shown" + (f", {words}" if words else "")
    about += "" if log.has_been_read else f" · {log.indexed_percent} % read"
    state = "following" if following else "paused"
    name = clean(log.shown_label)
    right = part(state, "$quiet" if following else "$warning")
    if silent:
        right = part(f"{silent}  ", "$warning bold") + right
    return apart(part(name, "$accent bold") + part(about), right, width)


class LogViewerScreen(LogJumps):
    """Reading goes on by small steps between keys."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("logs")]
    DEFAULT_CSS = "LogViewerScreen #log-title { height: 1; padding: 0 1; background: $panel; }"

    def __init__(
        self,
        log: OpenedLog,
        *,
        is_inner: bool = False,
        deployment: Deployment | None = None,
        evidence: Callable[[], Evidence] | None = None,
    ) -> None:
        """`is_inner`: it lies over another screen, which owns the log. `deployment`: what the log tells of.

        `evidence`: makes what is known beside the log, in place of a deployment.
        """
        super().__init__(log, deployment, evidence)
        self._is_inner = is_inner
        self._filtering = False
        self._silence = Silence(log)
        glyphs = self.console.glyphs
        self._title = Words(glyphs, id="log-title")
        self._stages = LogStages(glyphs, id="log-stages")
        self._filters = LogFilters(glyphs, id="log-filters")

    def compose(self) -> ComposeResult:
        yield from (self._title, self._stages, self._filters, self.view)
        yield KeyBar(self.console.glyphs)

    def on_mount(self) -> None:
        self.view.focus()
        self._read()

    def moment(self) -> Moment:
        paused = not self.view.following
        fold = self.view.fold
        return Moment(
            place="logs",
            log_paused=paused,
            filtering=self._filtering,
            has_several=len(self._log.sources) > 1,
            has_search=self._log.found(None) is not None,
            fold=None if fold is None else "closed" if fold[1] else "open",
            has_folds=self._log.folding.has_folds,
            has_models=len(self._log.models) > 1,
            is_inner=self._is_inner,
            is_bare=self.view.bare,
        )

    # Reading and drawing

    @work(exclusive=True, group="read")
    async def _read(self) -> None:
        steps = 0
        while self.view.is_attached:
            is_busy = self._log.step()
            if not is_busy or steps % _DRAW_EVERY == 0:
                self._go_on_jumping()
                self._draw()
            steps += 1
            await asyncio.sleep(_BUSY_SECONDS if is_busy else _IDLE_SECONDS)

    def _draw(self) -> None:
        self.view.take()
        self._draw_about()
        if self.is_current:
            self.refresh_keys()

    def _draw_about(self) -> None:
        if not self.view.is_attached:  # the console is being left
            return
        view, log = self.view, self._log
        self.set_class(self._filtering, "-filtering")
        silent = self._silence.words(time.time())
        self._title.show(draw_title(log, view.following, self.size.width - 2, silent))
        at = log.index.line_count if view.following else view.place
        self._stages.draw(log, at)
        self._filters.draw(log, log.found(view.marked), filtering=self._filtering)

    def on_resize(self) -> None:
        self.fit()
        self._draw_about()
        self.refresh_keys()

    def on_log_view_moved(self) -> None:
        self._draw_about()
        self.refresh_keys()

    # Filtering

    def do_filter(self) -> None:
        self._filtering = True
        self._draw_about()

    def do_close_log(self) -> None:
        self.app.pop_screen()

    def do_done(self) -> None:
        if self._filtering:
            self._filtering = False
        elif self.view.bare:
            self.do_bare()
        else:
            place = self.view.place
            self._log.search("")
            self.view.keep_place(place)
        self._draw_about()

    def _want(self, wanted: Wanted) -> None:
        place = self.view.place
        self._log.want(wanted)
        self.view.keep_place(place)
        self._draw_about()

    def _toggle(self, layer: str) -> None:
        self._want(replace(self._log.wanted, layers=toggled(self._log.wanted.layers, layer)))

    def do_layer_f(self) -> None:
        self._toggle("frontend")

    def do_layer_e(self) -> None:
        self._toggle("engine")

    def do_layer_w(self) -> None:
        self._toggle("worker")

    def do_layer_m(self) -> None:
        self._toggle("model_runner")

    def do_layer_o(self) -> None:
        self._toggle("outside")

    def do_layer_u(self) -> None:
        self._toggle("unknown")

    def do_level(self) -> None:
        self._want(replace(self._log.wanted, levels=next_level(self._log.wanted.levels)))

    def do_stage(self) -> None:
        seen = {stage for _, stage in self._log.stage_changes}
        known = [stage for stage in STAGES if stage in seen]
        self._want(replace(self._log.wanted, stages=next_stage(self._log.wanted.stages, known)))

    def do_merge(self) -> None:
        source = -1 if self._log.wanted.source is None else self._log.wanted.source
        following = source + 1 if source + 1 < len(self._log.sources) else None
        self._want(replace(self._log.wanted, source=following))

    def do_model(self) -> None:
        self._want(replace(self._log.wanted, model=next_model(self._log.wanted.model, self._log.models)))

    def do_show_all(self) -> None:
        self._want(Wanted())

    # Taking away

    def plain_text(self) -> str:
        """What is seen, as it was printed; of closed tracebacks all lines: a copy cannot be opened."""
        seen = self.view.visible_rows()
        if not any(row.hidden for row in seen):
            return "".join(f"{row.raw}\n" for row in seen)
        lines = [row.number for row in seen if row.number is not None]
        behind = max(lines[-1], *(row.fold.last_line for row in seen[-1:] if row.fold is not None and row.hidden), 0)
        rows = self._log.all_wanted
        start = rows.row_of(lines[0])
        found = rows.read(start, min(rows.row_of(behind) + 1, start + _MOST_COPIED))
        return "".join(f"{clean(row.words if isinstance(row, Break) else row.text)}\n" for row in found)

    def do_export(self) -> None:
        """All wanted lines, a piece at a time."""
        self._export()

    @work(exclusive=True, group="export")
    async def _export(self) -> None:
        folder, log = self.console.backend.exports, self._log
        generation, wanted, count = log.generation, log.all_wanted, 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = free_path(folder, "log")
            with path.open("x", encoding="utf-8") as file:
                for piece in log.pieces():
                    if log.generation != generation:
                        break
                    rows = wanted.read(piece.start, piece.stop)
                    file.writelines(f"{_text_of(row, log.sources)}\n" for row in rows)
                    count += len(rows)
                    if count % 50_000 == 0:
                        self.tell(f"Being written, {count:,} of {len(wanted):,} lines: ", short_path(str(path)))
                    await asyncio.sleep(0)
        except OSError as error:
            self.tell(f"Not written, {error.strerror}: ", short_path(str(folder)), "$error bold")
            return
        self.tell(f"Written, {count:,} line{'' if count == 1 else 's'}: ", short_path(str(path)))


def _text_of(row: LogLine | Break, sources: Sequence[str]) -> str:
    """Of merged logs, behind the name of its own."""
    if isinstance(row, Break):
        return f"--- {row.words} ---"
    text = clean(row.text, LONGEST_SHOWN_BYTES)
    return f"{clean(sources[row.source])}: {text}" if sources else text
