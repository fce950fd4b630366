"""A log by itself: scrolled, followed, filtered and searched while it is still being read."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import work

from engine_probe.logs.follow import Break
from engine_probe.logs.index_search import compile_pattern
from engine_probe.logs.index_wanted import Wanted
from engine_probe.stage_names import STAGES
from tui import actions
from tui.actions import Moment
from tui.exports import free_path
from tui.log_times import asked_time, first_line_at
from tui.screens.base import ConsoleScreen
from tui.screens.dialogs import AskText
from tui.screens.leaving import short_path
from tui.terminal_mouse import take_mouse
from tui.widgets.clean_text import clean
from tui.widgets.key_bar import KeyBar
from tui.widgets.log_filters import LogFilters, next_level, next_model, next_stage, toggled
from tui.widgets.log_stages import LogStages
from tui.widgets.log_view import LogView
from tui.widgets.log_wanted_words import words_of
from tui.widgets.words import Words, apart, part

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.content import Content

    from engine_probe.logs.index_stream import LogLine
    from tui.opened_log import OpenedLog

_BUSY_SECONDS, _IDLE_SECONDS = 0.01, 0.1
"""Between two steps: the first lets keys through, the second is how soon a new line is seen."""
_MOST_DIGITS = 16
_DRAW_EVERY = 4
"""Steps of reading for each time that it is drawn."""


def draw_title(log: OpenedLog, following: bool, width: int) -> Content:
    count = log.index.line_count
    about = f" · {count:,} line{'' if count == 1 else 's'}"
    if log.is_filtered:
        words = words_of(log.wanted)
        about += f", {log.wanted_count:,} shown" + (f", {words}" if words else "")
    about += "" if log.has_been_read else f" · {log.indexed_percent} % read"
    state = "following" if following else "paused"
    name = clean(log.shown_label)
    return apart(part(name, "$accent bold") + part(about), part(state, "$quiet" if following else "$warning"), width)


class LogViewerScreen(ConsoleScreen):
    """Reading goes on by small steps between keys."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("logs")]
    DEFAULT_CSS = "LogViewerScreen #log-title { height: 1; padding: 0 1; background: $panel; }"
    CSS = """
    LogViewerScreen.-bare #log-title, LogViewerScreen.-bare #log-stages, LogViewerScreen.-bare #log-filters,
    LogViewerScreen.-bare #keys { display: none; }
    LogViewerScreen.-bare #log-view { border: none; padding: 0; scrollbar-size: 0 0; }
    LogViewerScreen.-bare.-told #keys { display: block; }
    """

    def __init__(self, log: OpenedLog, *, is_inner: bool = False) -> None:
        """`is_inner`: it lies over another screen, which owns the log."""
        super().__init__()
        self._log, self._is_inner = log, is_inner
        self._filtering = False
        self._wants_first_match = False
        self._wants_cause = False
        self._gone_to: tuple[int | None, int] = (None, 0)
        """What the last jump marked, and the line that it was for: a closed traceback stands for many lines."""
        self._followed_at: int | None = None
        """The first line that was seen when bare mode took the place of following."""
        glyphs = self.console.glyphs
        self.view = LogView(log, glyphs, id="log-view")
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
            can_tell_causes=self._log.can_tell_causes,
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
                self._go_to_first_match()
                self._go_to_cause()
                self._draw()
            steps += 1
            await asyncio.sleep(_BUSY_SECONDS if is_busy else _IDLE_SECONDS)

    def _draw(self) -> None:
        self.view.take()
        self._draw_about()

    def _draw_about(self) -> None:
        if not self.view.is_attached:  # the console is being left
            return
        view, log = self.view, self._log
        self._title.show(draw_title(log, view.following, self.size.width - 2))
        at = log.index.line_count if view.following else view.place
        self._stages.draw(log, at)
        self._filters.draw(log, log.found(view.marked), filtering=self._filtering)

    def on_resize(self) -> None:
        self._draw_about()
        self.refresh_keys()

    def on_log_view_moved(self) -> None:
        self._draw_about()
        self.refresh_keys()

    # Moving

    def do_pause_view(self) -> None:
        self.view.follow(False)

    def do_follow_view(self) -> None:
        self.view.follow(True)

    def do_raw(self) -> None:
        self.view.look(raw=not self.view.raw)

    def do_bare(self) -> None:
        """The mouse is the terminal's until bare mode is left, and nothing moves while a person selects."""
        view = self.view
        is_bare, was_following = not view.bare, view.following
        self.set_class(is_bare, "-bare")
        view.follow(False)
        follows_again = view.place == self._followed_at
        view.look(bare=is_bare)
        take_mouse(self.app, not is_bare)
        self._followed_at = view.place if is_bare and was_following else None
        if is_bare:
            self.tell("Bare: select with the mouse as in any terminal; b or esc leaves", style="$accent bold")
        elif follows_again:
            view.follow(True)

    def tell(self, words: str, path: str = "", style: str = "$success bold") -> None:
        self.add_class("-told")
        super().tell(words, path, style)

    def unsay(self) -> None:
        self.remove_class("-told")
        super().unsay()

    def on_key(self) -> None:
        self.remove_class("-told")

    def on_screen_suspend(self) -> None:
        take_mouse(self.app, True)

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        take_mouse(self.app, not self.view.bare)

    def on_unmount(self) -> None:
        self._log.fold_lines(True)
        take_mouse(self.app, True)

    def do_wrap(self) -> None:
        self.view.look(wrap=not self.view.wrap)

    def do_down(self) -> None:
        self.view.move(1)

    def do_up(self) -> None:
        self.view.move(-1)

    def do_half_down(self) -> None:
        self.view.move_page(0.5)

    def do_half_up(self) -> None:
        self.view.move_page(-0.5)

    def do_sideways_left(self) -> None:
        self.view.action_scroll_left()

    def do_sideways_right(self) -> None:
        self.view.action_scroll_right()

    def do_merge(self) -> None:
        source = -1 if self._log.wanted.source is None else self._log.wanted.source
        following = source + 1 if source + 1 < len(self._log.sources) else None
        self._want(replace(self._log.wanted, source=following))

    def do_next_error(self) -> None:
        self._go(self._log.next_error(self._from), "no error is shown" if self._log.is_filtered else "no error")

    def do_last_error(self) -> None:
        self._go(self._log.last_error(self._from), "no error is shown" if self._log.is_filtered else "no error")

    def do_next_stage(self) -> None:
        self._go(self._log.next_stage(self._from), "no load stage was seen")

    def do_next_match(self) -> None:
        self._go(self._log.next_match(self._from), "no line matches", opens=True)

    def do_last_match(self) -> None:
        self._go(self._log.last_match(self._from), "no line matches", opens=True)

    def do_next_cause(self) -> None:
        """All lines are read for it, so it may take a while."""
        self._log.wants_causes = self._wants_cause = True
        self._go_to_cause()
        if self._wants_cause:
            self.tell("The root cause is being looked for", style="$accent")

    def _go_to_cause(self) -> None:
        log = self._log
        if not self._wants_cause:
            return
        line = log.next_cause(self._from)
        if log.causes_are_known or (line is not None and line > self._from):
            self._wants_cause = False
            self.unsay()
            self._go(line, "no load that failed was seen")

    @property
    def _from(self) -> int:
        """Before the first line that is seen, unless a line is marked: what is first there counts as next."""
        place = self.view.place
        if place != self.view.marked:
            return place - 1
        return self._gone_to[1] if self._gone_to[0] == place else place

    def _go(self, line: int | None, otherwise: str, *, opens: bool = False) -> None:
        """`opens` the traceback that hides the line; else the traceback is what is shown."""
        if line is None:
            self.tell(otherwise[0].upper() + otherwise[1:], style="$warning")
            return
        fold = self._log.closed_at(line) if opens else None
        if fold is not None and fold.first_line != line:
            self._log.turn(fold)
        self.view.mark(line)
        self._gone_to = (self.view.marked, line)

    def do_open_fold(self) -> None:
        self._turn_fold()

    def do_close_fold(self) -> None:
        self._turn_fold()

    def _turn_fold(self) -> None:
        found = self.view.fold
        if found is not None:
            self._log.turn(found[0])
            self.view.mark(found[0].first_line)

    def do_fold_all(self) -> None:
        self._log.turn_all()
        self.view.take()
        self._draw_about()

    def do_goto(self) -> None:
        count = self._log.index.line_count

        def trouble(text: str) -> str | None:
            line = _line_number(text)
            is_good = asked_time(text) is not None if line is None else 1 <= line <= count
            return None if is_good else f"a line from 1 to {count:,}, or a time such as 10:11, 10:11:12, 03-02 10:11"

        hint = f"line 1 to {count:,}, or a time: 10:11, 10:11:12, 03-02 10:11"
        ask = AskText(self.console.glyphs, "Go to a line or a time", hint, trouble_with=trouble)
        self.app.push_screen(ask, self._go_to_place)

    def _go_to_place(self, text: str | None) -> None:
        number, bound = (None, None) if not text else (_line_number(text), asked_time(text))
        if number is not None:
            self._go(number - 1, "", opens=True)
        elif bound is not None:
            self._go(first_line_at(self._log.index, bound, self.view.place), "the log ends before that time")

    # Finding and filtering

    def do_find(self) -> None:
        hint = "a Python regular expression; (?i) in front ignores case"
        ask = AskText(self.console.glyphs, "Find", hint, trouble_with=_trouble_with_pattern)
        self.app.push_screen(ask, self._find)

    def _find(self, text: str | None) -> None:
        if text is None:
            return
        self._log.search(text)
        self._wants_first_match = bool(text)
        self._draw_about()
        self.refresh_keys()

    def _go_to_first_match(self) -> None:
        """As soon as one is found behind what is seen, or anywhere once all is searched."""
        found = self._log.found(None)
        if not self._wants_first_match or found is None:
            return
        line = self._log.next_match(self._from)
        if line is not None and (line > self._from or found.is_complete):
            self._wants_first_match = False
            self._go(line, "", opens=True)
        elif found.is_complete:
            self._wants_first_match = False

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
            self._log.search("")
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

    def do_model(self) -> None:
        self._want(replace(self._log.wanted, model=next_model(self._log.wanted.model, self._log.models)))

    def do_show_all(self) -> None:
        self._want(Wanted())

    # Taking away

    def plain_text(self) -> str:
        """What is seen, as it was printed."""
        return "".join(f"{row.raw}\n" for row in self.view.visible_rows())

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
                    file.writelines(f"{_text_of(row)}\n" for row in rows)
                    count += len(rows)
                    if count % 50_000 == 0:
                        self.tell(f"Being written, {count:,} of {len(wanted):,} lines: ", short_path(str(path)))
                    await asyncio.sleep(0)
        except OSError as error:
            self.tell(f"Not written, {error.strerror}: ", short_path(str(folder)), "$error bold")
            return
        self.tell(f"Written, {count:,} line{'' if count == 1 else 's'}: ", short_path(str(path)))


def _text_of(row: LogLine | Break) -> str:
    return f"--- {row.words} ---" if isinstance(row, Break) else clean(row.text)


def _line_number(text: str) -> int | None:
    digits = text.replace(",", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS else None


def _trouble_with_pattern(text: str) -> str | None:
    try:
        compile_pattern(text)
    except re.error as error:
        return f"no regular expression: {error}"
    return None
