"""The report of a session, in the order of the four steps: as Markdown to keep, as plain text for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Known
from playbooks.conditions import show
from playbooks.session import Outcome, Verdict

if TYPE_CHECKING:
    from playbooks.session import Cause, Check, Evidence, FixOption, Session

_LIMITS = (
    "The requests tried are the ones listed; load, other prompts and long running were not tried.",
    "A clean start and finite answers do not prove that the answers are good.",
)


@dataclass(frozen=True)
class Section:
    """A heading with lines; a line that begins with two blanks is verbatim (log text, a difference)."""

    title: str
    lines: tuple[str, ...]


def sections(session: Session) -> tuple[Section, ...]:
    """The whole report."""
    found = [Section("Symptom", tuple(symptom_lines(session)))]
    if session.causes:
        found.append(Section("Hypotheses", tuple(line for cause in session.causes for line in cause_lines(cause))))
    if session.fixes:
        found.append(Section("Fix", tuple(fix_lines(session))))
    if session.checks:
        found.append(Section("Verify", tuple(check_lines(session.checks))))
    found.append(Section("What was not proved", tuple(unproved_lines(session))))
    return tuple(found)


def plain(session: Session) -> str:
    """For a terminal without colour."""
    blocks = [headline(session)]
    blocks += [section.title + "\n" + "\n".join("  " + line for line in section.lines) for section in sections(session)]
    return "\n\n".join(blocks) + "\n"


def markdown(session: Session) -> str:
    """For people who read it later."""
    parts = [f"# {headline(session)}", ""]
    parts += [f"- model: `{session.model}`", f"- engine: vLLM {_version(session)}", f"- loads: {session.grade}"]
    for section in sections(session):
        parts += ["", f"## {section.title}", "", *_markdown_lines(section.lines)]
    parts += ["", "## Facts", "", *_fact_lines(session)]
    return "\n".join(parts) + "\n"


def headline(session: Session) -> str:
    """One line: the case, the model and the verdict."""
    return f"Case {session.case}: {session.model}: {session.verdict or 'not finished'}"


def symptom_lines(session: Session) -> list[str]:
    """Step 1."""
    symptom = session.symptom
    if symptom is None:
        return [f"none: {session.model} loads" if session.verdict == "healthy" else "none was seen"]
    lines = [f"{symptom.model} {symptom.kind.replace('-', ' ')}, in stage {symptom.stage or 'unknown'}"]
    lines += [f"raised in layer {symptom.layer or 'unknown'}", "  " + symptom.headline]
    lines += [f"{name}: not available: {missing}" for name, missing in symptom.sources if missing is not None]
    return lines


def cause_lines(cause: Cause) -> list[str]:
    """Step 2, of one cause."""
    lines = [f"{cause.id} ({cause.confidence:.0%}): {cause.title}"]
    lines += [f"kind {cause.kind}, family {cause.family}, layer {cause.layer}, stage {cause.stage}"]
    lines += [evidence_line(one) for one in cause.evidence]
    for one in cause.hypotheses:
        lines.append(f"{one.verdict.value}: {one.claim}")
        lines += [f"    {reason}" for reason in one.because]
        if one.verdict is Verdict.UNTESTED:
            lines.append(f"    experiment: {one.experiment} (cost: {one.cost})")
    return lines


def evidence_line(evidence: Evidence) -> str:
    """`  load-1.log:85  the text`."""
    place = evidence.file if evidence.line is None else f"{evidence.file}:{evidence.line}"
    return f"  {place}  {evidence.text}"


def fix_lines(session: Session) -> list[str]:
    """Step 3: every fix with its state, and the difference of the one applied or proposed."""
    chosen = chosen_fix(session)
    lines: list[str] = []
    for fix in session.fixes:
        state = fix.outcome if fix.unavailable is None else f"not possible: {fix.unavailable}"
        lines.append(f"{fix.id}: {state}")
        if fix.by_hand and fix.unavailable is None:
            lines.append(f"    by hand: {fix.by_hand}")
        if fix is chosen:
            lines += one_fix_lines(fix)
    return lines


def one_fix_lines(fix: FixOption) -> list[str]:
    """What one fix changes, why, at which price."""
    lines = [f"    {fix.title}", f"    why: {fix.why}", f"    you lose: {fix.you_lose}", f"    risk: {fix.risk}"]
    return lines + ["  " + line for line in fix.diff]


def chosen_fix(session: Session) -> FixOption | None:
    """The fix applied, else the next that can be."""
    applied = next((fix for fix in session.fixes if fix.id == session.applied_fix), None)
    usable = (fix for fix in session.fixes if fix.unavailable is None and fix.by_hand is None)
    return applied or next((fix for fix in usable if fix.outcome == "not tried"), None)


def check_lines(checks: tuple[Check, ...]) -> list[str]:
    """Step 4: expected beside measured."""
    return [check_line(check) for check in checks]


def check_line(check: Check) -> str:
    """`pass     answers at full length: expected …; measured …`."""
    measured = check.measured or check.reason or "-"
    because = f" ({check.reason})" if check.reason and check.measured else ""
    return f"{check.outcome.value:<8} {check.title}: expected {check.expected}; measured {measured}{because}"


def unproved_lines(session: Session) -> list[str]:
    """What a reader must not take from this report."""
    lines = [f"{one.title}: {one.reason}" for one in session.checks if one.outcome is Outcome.ABSTAIN and one.reason]
    lines += [
        f"{one.claim} ({one.verdict.value})"
        for cause in session.causes
        for one in cause.hypotheses
        if one.verdict in (Verdict.UNTESTED, Verdict.INCONCLUSIVE)
    ]
    lines += list(_LIMITS) if session.verdict in ("verified", "healthy") else []
    lines += [f"note: {note}" for note in session.notes]
    return lines or ["nothing more to say"]


def _version(session: Session) -> str:
    fact = session.facts.get("engine.vllm_version")
    return str(fact.value) if isinstance(fact, Known) else "of unknown release"


def _markdown_lines(lines: tuple[str, ...]) -> list[str]:
    """Verbatim runs become fenced blocks, so that log text cannot be taken for markup."""
    out: list[str] = []
    verbatim: list[str] = []
    for line in (*lines, ""):
        if line.startswith("  ") and not line.startswith("    "):
            verbatim.append(line[2:])
            continue
        if verbatim:
            fence = "`" * max(3, 1 + max((len(run) for text in verbatim for run in _ticks(text)), default=0))
            out += ["", f"{fence}text", *verbatim, fence, ""]
            verbatim = []
        if line:
            out.append(f"  - {line.strip()}" if line.startswith("    ") else f"- {line}")
    return out


def _ticks(text: str) -> list[str]:
    return ["`" * len(run) for run in "".join(c if c == "`" else " " for c in text).split()]


def _fact_lines(session: Session) -> list[str]:
    lines = ["| fact | value | from |", "|---|---|---|"]
    for name, fact in sorted(session.facts.items()):
        value, origin = (
            (show(fact.value), f"{fact.source}, {fact.origin}") if isinstance(fact, Known) else ("unknown", fact.reason)
        )
        lines.append(f"| {name} | {value} | {origin} |".replace("\n", " "))
    return lines
