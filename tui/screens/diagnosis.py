"""Why a load failed that a log tells of: found in a thread, and from each line that proves it back to the log."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, ClassVar

from playbooks.diagnosis_json import as_object
from playbooks.diagnosis_report import markdown
from tui import actions
from tui.actions import Moment
from tui.failures import internal_error
from tui.log_diagnosis import DiagnosedLog, diagnose_logs
from tui.screens.base import ConsoleScreen, when_whole
from tui.widgets.choice_list import ChoiceList
from tui.widgets.clean_text import clean
from tui.widgets.diagnosis import diagnosis_body, likeliest, proofs
from tui.widgets.key_bar import KeyBar
from tui.widgets.step_pane import Body, StepPane
from tui.widgets.words import Words, apart, lines, part, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from playbooks.evidence import Evidence
    from tui.log_diagnosis import LogToDiagnose
    from tui.widgets.diagnosis import Proof


class _NobodyWaitsError(Exception):
    """The screen was left."""


class DiagnosisScreen(ConsoleScreen):
    """Lies over the log; `go_to` shows a line there. Leaving it ends the reading."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("diagnosis")]
    DEFAULT_CSS = "DiagnosisScreen #title { height: 1; padding: 0 1; background: $panel; }"

    def __init__(
        self,
        label: str,
        logs: Sequence[LogToDiagnose],
        evidence: Evidence,
        go_to: Callable[[Proof], None],
        tell_causes: Callable[[tuple[Proof, ...]], None],
    ) -> None:
        """`logs` are closed by the diagnosis, which begins when the screen is shown.

        `tell_causes` is called once, with the first line of each log's likeliest cause.
        """
        super().__init__()
        self._tell_causes = tell_causes
        self._label, self._logs, self._evidence, self._go_to = label, logs, evidence, go_to
        self._left = threading.Event()
        self._diagnosed: tuple[DiagnosedLog, ...] | None = None
        self._marked: str | None = None
        self._title = Words(self.console.glyphs, id="title")

    def compose(self) -> ComposeResult:
        yield self._title
        yield StepPane(self.console.glyphs, self._mark, id="step-pane")
        yield KeyBar(self.console.glyphs)

    def on_mount(self) -> None:
        self.run_worker(self._diagnose(), name="diagnose", exclusive=True)

    async def _diagnose(self) -> None:
        def go_on() -> None:
            if self._left.is_set():
                raise _NobodyWaitsError

        try:
            self._diagnosed = await asyncio.to_thread(diagnose_logs, self._logs, self._evidence, go_on)
        except _NobodyWaitsError:
            return
        except Exception as error:  # a bug of ours: the log that lies below can still be read
            words = f"the diagnosis failed: {internal_error(error, ['logs'])}"
            self._diagnosed = tuple(DiagnosedLog(one.source, one.name, None, trouble=words) for one in self._logs)
        self._marked = next(iter(proofs(self._diagnosed)), None)
        self._tell_causes(likeliest(self._diagnosed))
        self.draw()
        pane = self.query_one(StepPane)
        (pane if pane.can_focus else self.query_one(ChoiceList)).focus()

    def on_unmount(self) -> None:
        self._left.set()

    @when_whole
    def draw(self) -> None:
        pane = self.query_one(StepPane)
        width = pane.text_width
        state = "being read" if self._diagnosed is None else ""
        name = part("Diagnosis", "$accent bold") + part(f" of {clean(self._label)}")
        self._title.show(apart(name, part(state, "$quiet"), max(self.size.width - 2, 1)))
        if self._diagnosed is None:
            words = "The log is read and compared with all playbooks. esc goes back to it at once."
            pane.set_body(Body(above=lines(wrapped(words, width, style="$quiet"))))
        else:
            pane.set_body(diagnosis_body(self._diagnosed, self._marked, width, self.console.glyphs))
        self.refresh_keys()

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def _mark(self, choice: str) -> None:
        self._marked = choice
        self.draw()

    def moment(self) -> Moment:
        return Moment(place="diagnosis", can_jump=self._marked is not None)

    def do_go_to_line(self) -> None:
        proof = proofs(self._diagnosed or ()).get(self._marked or "")
        if proof is not None:
            self.app.pop_screen()
            self._go_to(proof)

    async def on_choice_list_taken(self) -> None:
        await self.action_do("go_to_line")

    def plain_text(self) -> str:
        """All of it, ready for an issue tracker: what is folded on the screen too."""
        if self._diagnosed is None:
            return self.query_one(StepPane).body.plain
        return "\n".join(_report_of(one) for one in self._diagnosed)


def _report_of(log: DiagnosedLog) -> str:
    if log.diagnosis is None:
        return f"{clean(log.name)}: {log.trouble}\n"
    return markdown(as_object(log.diagnosis))
