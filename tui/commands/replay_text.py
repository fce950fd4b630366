"""Tells a session on stdout while it goes on: the four steps in plain text, or one JSON object a line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.events import Ended, Event, Ready, StageLeft, Warmed
from playbooks.proof import proof_object, verdict_words
from playbooks.report import cause_lines, one_fix_lines, symptom_lines, told_checks
from playbooks.session import Outcome
from playbooks.session_json import check_object, fix_object
from playbooks.way_back import changed_file, is_changed, way_on
from tui.commands.experiments_told import ExperimentsTold

if TYPE_CHECKING:
    from playbooks.proposal import Proposal
    from playbooks.session import Session
    from tui.output import Output

_VERDICT_STYLES = {"verified": "bold green", "healthy": "bold green"}
_CHECK_STYLES = {Outcome.PASS: "green", Outcome.FAIL: "bold red", Outcome.ABSTAIN: "yellow"}
_OPEN = (Outcome.PENDING, Outcome.RUNNING)


@dataclass
class SessionPrinter:
    """`on_change` is what a driver calls. Prints each thing once, when it is first known."""

    output: Output
    file_stays: bool = True
    """False where the deployment is made for this session and goes with it: then nobody needs a way back."""
    _running: str | None = None
    _symptom_is_told: bool = False
    _applied: str | None = None
    _notes: int = 0
    _told_checks: set[str] = field(default_factory=set)
    _experiments: ExperimentsTold = field(init=False)

    def __post_init__(self) -> None:
        self._experiments = ExperimentsTold(self.output)

    def on_change(self, session: Session, event: Event | None) -> None:
        """Print what is new in `session`."""
        if event is not None and not _is_late(session, event):
            self._tell_event(event, _whose(session, event))
        self._tell_symptom(session)
        self._experiments.see(session)
        self._tell_fix(session)
        self._tell_checks(session)
        self._tell_progress(session)
        self.tell_notes(session)

    def tell_notes(self, session: Session) -> None:
        """With JSON on stdout the notes go to stderr: what went wrong is said either way."""
        for note in session.notes[self._notes :]:
            if self.output.as_json:
                self.output.note(note)
            else:
                self.output.folded(f"note: {note}")
        self._notes = len(session.notes)

    def end(self, session: Session, verdict: str | None = None) -> None:
        """Where the report is, and last the verdict: the session's own, or another word for it."""
        self.tell_notes(session)
        for line in is_changed(session) if self.file_stays else ():
            self.output.text(line)
        if session.report_path:
            self.output.text(f"report: {session.report_path}")
        if self.file_stays and (way := way_on(session)) is not None:
            self.output.text(f"to go on: {way}")
        word = verdict or session.verdict or "not finished"
        words = verdict_words(session) if word == session.verdict else word
        self.output.text(words, _VERDICT_STYLES.get(word, "bold red"))

    def proposal(self, proposal: Proposal) -> None:
        """Step 3 of a session in which nothing was applied."""
        if proposal.fix is not None:
            self.output.text("\n3 Fix (proposed, not applied)", "bold")
            self.output.text(f"  {proposal.fix.id}")
            for line in one_fix_lines(proposal.fix):
                self.output.folded(line)
        elif proposal.why_none:
            self.output.text("\n3 Fix (none applied)", "bold")
            for line in proposal.why_none:
                self.output.folded(line)

    def _tell_progress(self, session: Session) -> None:
        """What goes on now. A load that is put off by the import of vLLM is told once, the import below it."""
        now, before = session.running, self._running
        self._running = now
        if now is None or now == before or (before or "").endswith(f"; then {now}"):
            return
        if before is not None and now.endswith(f"; then {before}"):
            self.output.text(f"   {now.removesuffix(f'; then {before}')}")
        else:
            self.output.folded(f"-- {now}", indent="")

    def _tell_event(self, event: Event, whose: str) -> None:
        """`whose` is the model's name with blanks where there are several, else empty."""
        if isinstance(event, Warmed):
            self.output.text(
                f"   engine warm in {event.seconds:.1f} s, vLLM {event.vllm_version or 'of unknown release'}"
            )
        elif isinstance(event, StageLeft):
            ending = "" if event.completed else ", failed"
            self.output.text(f"   {whose}{event.stage.replace('_', ' '):<16} {event.seconds:6.2f} s{ending}")
        elif isinstance(event, Ready):
            self.output.text(f"   {whose}ready after {event.seconds:.1f} s, serves {_length(event)}")
        elif isinstance(event, Ended) and event.left_behind:
            self.output.text(f"   {whose}left behind: {', '.join(event.left_behind)}")

    def _tell_symptom(self, session: Session) -> None:
        if session.symptom is None or self._symptom_is_told:
            return
        self._symptom_is_told = True
        self.output.text("\n1 Symptom", "bold")
        for line in symptom_lines(session):
            self.output.folded(line)
        self.output.text("\n2 Hypotheses", "bold")
        for cause in session.causes:
            for line in cause_lines(cause, session.symptom.evidence):
                self.output.folded(line)
        if not session.causes:
            self.output.text("  no playbook explains this failure")

    def _tell_fix(self, session: Session) -> None:
        if session.applied_fix == self._applied:
            return
        self._applied = session.applied_fix
        fix = next((one for one in session.fixes if one.id == session.applied_fix), None)
        if fix is None:
            return
        self._told_checks = set()
        self.output.text("\n3 Fix", "bold")
        self.output.text(f"  {fix.id}")
        for line in one_fix_lines(fix):
            self.output.folded(line)
        self.output.text("\n4 Verify", "bold")

    def _tell_checks(self, session: Session) -> None:
        decided = [one for one in session.checks if one.outcome not in _OPEN]
        new = [one for one in decided if f"{session.model} {one.id}" not in self._told_checks]
        self._told_checks |= {f"{session.model} {one.id}" for one in new}
        for outcome, (first, *rest) in told_checks(new):
            self.output.text(f"  {first}", _CHECK_STYLES[outcome])
            for line in rest:
                self.output.folded(line)


def _is_late(session: Session, event: Event) -> bool:
    """A log may tell of a stage after the model answers, and of serving when all is over: there it tells nothing."""
    if not isinstance(event, StageLeft) or not event.completed:
        return False
    return event.stage == "serving" or event.model in session.progress.up


def _whose(session: Session, event: Event) -> str:
    names = [launch.name for launch in session.deployment.models]
    if len(names) == 1 or event.model is None:
        return ""
    return event.model.ljust(max(len(name) for name in names)) + "  "


def _length(ready: Ready) -> str:
    return "a length that it does not say" if ready.max_model_len is None else f"{ready.max_model_len:,} tokens"


def result_object(session: Session, proposal: Proposal, verdict: str | None) -> dict[str, Any]:
    """The last line of `replay --json`: what the session came to; ARCHITECTURE.md says what the keys mean."""
    return {
        "event": "result",
        "model": session.model,
        "verdict": verdict,
        "symptom": session.symptom.kind if session.symptom else None,
        "causes": [{"id": cause.id, "confidence": cause.confidence} for cause in session.causes],
        "fix": session.applied_fix,
        "proposed": fix_object(proposal.fix) if proposal.fix is not None else None,
        "why_no_fix": list(proposal.why_none),
        "changed_file": str(changed_file(Path(session.kept_file))) if session.kept_file is not None else None,
        "kept_file": session.kept_file,
        "outside": list(session.outside),
        "checks": [check_object(one) for one in session.checks],
        "proof": proof_object(session),
        "case": session.case,
        "report": session.report_path,
    }


def exit_code(session: Session) -> int:
    """The contract's exit code for a session that has ended."""
    if session.verdict in ("verified", "healthy"):
        return 0
    return {"unexplained": 3, "cannot run": 4}.get(session.verdict or "", 1)
