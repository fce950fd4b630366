"""What became of one fault, and of all: the contract's objects, one line each, the sum at the end."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from playbooks.lab.building import WHOLE
from playbooks.lab.faults import HEALTHY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from playbooks.lab.choosing import Turn
    from playbooks.lab.faults import Fault
    from playbooks.session import Session


@dataclass(frozen=True)
class Result:
    """`why_not`: what is missing to a proof, in words; None where the fault is proved, or was skipped."""

    turn: Turn
    seconds: float
    session: Session | None = None
    skipped: str | None = None
    left_behind: tuple[str, ...] = ()
    error: str | None = None
    """What a person would have got instead of a session."""
    folder: Path | None = None
    """Where the fault lies, if it is kept."""

    @property
    def ids(self) -> list[str]:
        return [cause.id for cause in self.session.causes] if self.session is not None else []

    @property
    def diagnosed(self) -> str | None:
        """The first cause; without any, what the session came to."""
        if self.session is None:
            return None
        return self.ids[0] if self.ids else self.session.verdict

    @property
    def rank(self) -> int | None:
        """Of the cause that was made; 1 for a healthy twin in which nothing was found."""
        cause = self.turn.fault.cause
        if cause == HEALTHY:
            return 1 if self.diagnosed == HEALTHY else None
        return self.ids.index(cause) + 1 if cause in self.ids else None

    @property
    def why_not(self) -> str | None:
        if self.skipped is not None:
            return None
        session, fault = self.session, self.turn.fault
        if session is None:
            return self.error or "it ended without a word"
        if self.rank != 1:
            return f"diagnosed {self.diagnosed}, not {fault.cause}"
        wrong = _not_as_wanted(session, fault)
        if wrong is not None:
            return wrong
        return f"left behind: {', '.join(self.left_behind)}" if self.left_behind else None

    @property
    def verified(self) -> bool:
        return self.skipped is None and self.why_not is None

    @property
    def told(self) -> str:
        """`found lora-rank-exceeds-max; mended by allow-this-rank: …; case 2026-11-30-0004; 7.9 s, warm`."""
        parts = [f"found {self.diagnosed}"] if self.diagnosed is not None else []
        session = self.session
        if session is not None and session.applied_fix is not None:
            title = next((f": {one.title}" for one in session.fixes if one.id == session.applied_fix), "")
            parts.append(f"mended by {session.applied_fix}{title}")
        parts += [f"case {session.case}"] if session is not None and session.case else []
        return "; ".join([*parts, f"{self.seconds:.1f} s, {self.turn.grade}"])

    @property
    def kept(self) -> str | None:
        """Where what was broken and what was mended lie; None where it is not kept."""
        if self.folder is None:
            return None
        old = sorted(str(one.relative_to(self.folder)) for one in self.folder.rglob("*.r[0-9]*"))
        broken = f"; broken, as it was: {', '.join(old)}" if old else ""
        return f"kept in {self.folder}: deployment.yaml is as the session left it{broken}; unbroken: {WHOLE}"

    def object(self) -> dict[str, Any]:
        """The contract's object, and what helps to see why."""
        session = self.session
        return {
            "fault": self.turn.fault.id,
            "cause": self.turn.fault.cause,
            "diagnosed": self.diagnosed,
            "rank": self.rank,
            "fix": session.applied_fix if session is not None else None,
            "verified": self.verified,
            "seconds": round(self.seconds, 1),
            "engine": self.turn.grade,
            "skipped": self.skipped,
            "left_behind": list(self.left_behind),
            "family": self.turn.fault.family,
            "symptom": session.symptom.kind if session is not None and session.symptom else None,
            "why_not": self.why_not,
            "report": session.report_path if session is not None else None,
            "case": (session.case or None) if session is not None else None,
            "folder": str(self.folder) if self.folder is not None else None,
        }

    def words(self) -> tuple[str, ...]:
        """A row of the table: what came of it, the fault, the fix, seconds and engine."""
        state = "skipped" if self.skipped is not None else "verified" if self.verified else "FAILED"
        fix = (self.session.applied_fix if self.session is not None else None) or self.diagnosed or ""
        return state, self.turn.fault.id, f"{self.seconds:5.1f} s {self.turn.grade}", fix


def _not_as_wanted(session: Session, fault: Fault) -> str | None:
    """Why a session that found the right cause proves nothing."""
    symptom = session.symptom.kind if session.symptom else None
    if fault.spec.symptom not in (None, symptom):
        return f"the symptom was {symptom}, not {fault.spec.symptom}"
    if fault.cause != HEALTHY and session.verdict != "verified":
        return f"the fix is not verified: {session.verdict}"
    if fault.spec.fix not in (None, session.applied_fix):
        return f"the fix was {session.applied_fix}, not {fault.spec.fix}"
    return None


def summary(results: Sequence[Result], seconds: float) -> str:
    """`61 faults: 58 verified, 1 failed, 2 skipped; a warm one took 6.4 s (median); 9 min 12 s in all`."""
    verified = sum(one.verified for one in results)
    skipped = sum(one.skipped is not None for one in results)
    warm = [one.seconds for one in results if one.skipped is None and one.turn.grade == "warm"]
    median = f"; a warm one took {statistics.median(warm):.1f} s (median)" if warm else ""
    counts = f"{verified} verified, {len(results) - verified - skipped} failed, {skipped} skipped"
    return f"{len(results)} faults: {counts}{median}; {seconds // 60:.0f} min {seconds % 60:.0f} s in all"
