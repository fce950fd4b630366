"""Ways to a line of a log: errors, root causes, stages, matches, numbers and times; and what tracebacks are open."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import TYPE_CHECKING

from engine_probe.logs.index_search import compile_pattern
from tui.log_times import asked_time, first_line_at
from tui.screens.dialogs import AskText
from tui.screens.log_looks import LogLooks
from tui.stage_words import SHORT_NAMES
from tui.widgets.clean_text import clean
from tui.widgets.words import cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.launch import Deployment
    from playbooks.evidence import Evidence
    from tui.opened_log import OpenedLog
    from tui.widgets.diagnosis import Proof

_MOST_DIGITS = 16


class Places:
    """Lines between which was jumped, in order, and which of them is looked at."""

    def __init__(self) -> None:
        self._lines: list[int] = []
        self._at = 0

    def add(self, begin: int, end: int) -> None:
        del self._lines[self._at :]
        self._lines += [line for line in (begin, end) if self._lines[-1:] != [line]]
        self._at = len(self._lines) - 1

    def before(self) -> int | None:
        if self._at <= 0:
            return None
        self._at -= 1
        return self._lines[self._at]

    def behind(self) -> int | None:
        if self._at + 1 >= len(self._lines):
            return None
        self._at += 1
        return self._lines[self._at]


class LogJumps(LogLooks):
    """What goes on from a line that is looked at; `_go_on_jumping` between two steps of reading."""

    def __init__(
        self,
        log: OpenedLog,
        deployment: Deployment | None = None,
        evidence: Callable[[], Evidence] | None = None,
    ) -> None:
        super().__init__(log)
        self._deployment, self._evidence = deployment, evidence
        self._wants_first_match = self._wants_cause = False
        self._places = Places()
        self._gone_to: tuple[int | None, int] = (None, 0)
        """What the last jump marked, and the line that it was for: a closed traceback stands for many lines."""

    @abstractmethod
    def _draw_about(self) -> None: ...

    def _go_on_jumping(self) -> None:
        """To what was asked for and is found only now."""
        self._go_to_first_match()
        self._go_to_cause()

    def do_diagnose(self) -> None:
        """Of all logs, or of the one that is shown alone."""
        from playbooks.evidence import Evidence  # noqa: PLC0415 -- most logs are only read
        from tui.log_diagnosis import logs_shown  # noqa: PLC0415
        from tui.screens.diagnosis import DiagnosisScreen  # noqa: PLC0415

        evidence = self._evidence() if self._evidence is not None else Evidence(deployment=self._deployment)
        generation = self._log.generation
        self.app.push_screen(
            DiagnosisScreen(
                self._log.shown_label,
                logs_shown(self._log),
                evidence,
                lambda proof: self._go_to_proof(proof, generation),
                lambda proofs: self._keep_causes(proofs, generation),
            )
        )

    def _keep_causes(self, proofs: tuple[Proof, ...], generation: int) -> None:
        """For `!`: the cause that was found is an error, whatever its level."""
        from tui.log_diagnosis import line_of  # noqa: PLC0415 -- it was asked for

        if self._log.generation == generation:
            lines = (line_of(self._log, proof.source, proof.line) for proof in proofs)
            self._log.tell_causes(line for line in lines if line is not None)

    def _go_to_proof(self, proof: Proof, generation: int) -> None:
        """A log that was cut since then has other lines under the same numbers."""
        from tui.log_diagnosis import line_of  # noqa: PLC0415 -- it was asked for

        line = line_of(self._log, proof.source, proof.line) if self._log.generation == generation else None
        self._go(line, "the log was cut since it was diagnosed", opens=True, what="evidence")

    def do_next_error(self) -> None:
        self._go_to_error(self._log.next_error(self._from))

    def do_last_error(self) -> None:
        self._go_to_error(self._log.last_error(self._from))

    def _go_to_error(self, line: int | None) -> None:
        otherwise = "no error is shown" if self._log.is_filtered else "no error"
        self._go(line, otherwise if self._log.causes_are_known else f"{otherwise} so far", what="error")

    def do_next_stage(self) -> None:
        line = self._log.next_stage(self._from)
        stage = next((stage for first, stage in self._log.stage_changes if first == line), "")
        self._go(line, "no load stage was seen", what=f"stage {SHORT_NAMES.get(stage, stage)}")

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
            self._go(line, "no load that failed was seen", what="root cause")

    @property
    def _from(self) -> int:
        """Before the first line that is seen, unless a line is marked: what is first there counts as next."""
        place = self.view.place
        if place != self.view.marked:
            return place - 1
        return self._gone_to[1] if self._gone_to[0] == place else place

    def _go(self, line: int | None, otherwise: str, *, opens: bool = False, what: str = "") -> None:
        """`opens` the traceback that hides the line; else the traceback is what is shown. `what` is said of it."""
        if line is None:
            self.tell(otherwise[0].upper() + otherwise[1:], style="$warning")
            return
        fold = self._log.closed_at(line) if opens else None
        if fold is not None and fold.first_line != line:
            self._log.turn(fold)
        if not self._log.is_wanted(line):
            self.tell(f"Line {line + 1:,} is hidden by the filter; here it would stand", style="$warning")
        elif what:
            self._tell_place(what, line)
        self._places.add(self.view.place, self._log.seen_as(line))
        self.view.mark(line)
        self._gone_to = (self.view.marked, line)

    def _tell_place(self, what: str, line: int) -> None:
        """The line may have been on the screen already: then nothing else would change."""
        cause = next(iter(self._log.causes_between(line, line + 1)), None)
        text = f"{what[0].upper()}{what[1:]}, line {line + 1:,}" + (f": {clean(cause.text)}" if cause else "")
        self.tell(cut(text, max(self.size.width - 2, 1)), style="$accent")

    def do_place_before(self) -> None:
        self._go_back_to(self._places.before(), "no jump to take back")

    def do_place_behind(self) -> None:
        self._go_back_to(self._places.behind(), "no jump was taken back")

    def _go_back_to(self, line: int | None, otherwise: str) -> None:
        if line is None or line >= self._log.index.line_count:
            self.tell(otherwise[0].upper() + otherwise[1:], style="$warning")
        else:
            self.view.mark(line)

    def do_mark_down(self) -> None:
        self.view.mark_next(1)

    def do_mark_up(self) -> None:
        self.view.mark_next(-1)

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
            if line == 0 or (line is None and asked_time(text) is None):
                what = f"no line or time: {clean(text)}" if text else "no line or time"
                return f"{what}; a line from 1 to {count:,}, or a time such as 10:11, 10:11:12, 03-02 10:11"
            return None

        hint = f"line 1 to {count:,}, or a time: 10:11, 10:11:12, 03-02 10:11"
        ask = AskText(self.console.glyphs, "Go to a line or a time", hint, trouble_with=trouble)
        self.app.push_screen(ask, self._go_to_place)

    def _go_to_place(self, text: str | None) -> None:
        number, bound = (None, None) if not text else (_line_number(text), asked_time(text))
        count = self._log.index.line_count
        if number is not None and number > count > 0:
            self._go(count - 1, "", opens=True)
            self.tell(f"There are only {count:,} lines; this is the last one", style="$warning")
        elif number is not None and count:
            self._go(number - 1, "", opens=True)
        elif bound is not None:
            self._go(first_line_at(self._log.index, bound, self.view.place), "the log ends before that time")

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

    def do_narrow(self) -> None:
        place = self.view.place
        self._log.narrow(not self._log.narrows)
        self.view.keep_place(place)
        self._draw_about()

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


def _line_number(text: str) -> int | None:
    digits = text.replace(",", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS else None


def _trouble_with_pattern(text: str) -> str | None:
    try:
        compile_pattern(text)
    except re.error as error:
        return f"no regular expression: {error}"
    return None
