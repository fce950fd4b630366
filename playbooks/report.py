"""The report of a session, in the order of the four steps: as Markdown to keep, as plain text for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Known
from engine_probe.outside.keys import PACKAGES as PACKAGES_KEY
from engine_probe.outside.pip_words import plain_name
from playbooks.facts import OF_ONE_FILE, info_of
from playbooks.facts_of_evidence import PACKAGES, WANTED
from playbooks.fix_words import risk_of, state_of
from playbooks.proof import WARM_ONLY, verdict_words
from playbooks.proposal import confidence, is_usable
from playbooks.session import Outcome, Verdict
from playbooks.way_back import is_changed
from playbooks.wording import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playbooks.session import Cause, Check, Evidence, FixOption, Session, Source

_ORDER = (Verdict.CONFIRMED, Verdict.INCONCLUSIVE, Verdict.RUNNING, Verdict.UNTESTED, Verdict.REFUTED)
_PACKAGES_TOLD = ("vllm", "torch", "transformers")
_LIMITS = (
    "The requests tried are the ones listed; other prompts and running for days were not tried.",
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
        told = session.symptom.evidence if session.symptom is not None else ()
        lines = (line for cause in session.causes for line in cause_lines(cause, told))
        found.append(Section("Hypotheses", tuple(lines)))
    if session.fixes:
        found.append(Section("Fix", tuple(fix_lines(session))))
    if session.checks:
        found.append(Section("Verify", tuple(verify_lines(session))))
    found.append(Section("What was not proved", tuple(unproved_lines(session))))
    if session.notes:
        found.append(Section("What happened on the way", tuple(noted(session))))
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
    return f"Case {session.case}: {session.model}: {verdict_words(session)}"


def symptom_lines(session: Session) -> list[str]:
    """Step 1."""
    symptom = session.symptom
    if symptom is None:
        names = [one.name for one in session.deployment.models]
        well = f"none: {session.model} loads" if len(names) == 1 else f"none: {', '.join(names)} load and answer"
        return [well if session.verdict == "healthy" else "none was seen"]
    lines = [f"{symptom.model} {symptom.kind.replace('-', ' ')}"]
    lines += [f"stopped in stage {in_words(symptom.stage)}; raised in layer {in_words(symptom.layer)}"]
    lines += beside_lines(session)
    lines += [evidence_line(one) for one in symptom.evidence] or ["  " + symptom.headline]
    if session.case_folder is not None:
        lines.append(f"logs are in {session.case_folder}")
    return [*lines, "Looked at", *(_source_line(one) for one in symptom.sources)]


def beside_lines(session: Session) -> list[str]:
    """What the other models of the deployment did when this one failed."""
    told = {name: session.facts.get(f"neighbours.{name}") for name in ("loading", "loading_stage", "serving")}
    values = {name: str(fact.value) for name, fact in told.items() if isinstance(fact, Known)}
    lines = []
    if "loading" in values:
        stage = f" ({in_words(values['loading_stage'])})" if "loading_stage" in values else ""
        names = values["loading"].split()
        lines.append(f"meanwhile {', '.join(names)} {'was' if len(names) == 1 else 'were'} loading{stage}")
    if "serving" in values:
        lines.append(f"beside it {', '.join(values['serving'].split())} served")
    lines += [f"{name} failed too: a fix of {session.model} need not mend it" for name in session.progress.failed_too]
    return lines


def in_words(name: str | None) -> str:
    """A stage or layer as a person says it."""
    return (name or "unknown").replace("_", " ")


def _source_line(source: Source) -> str:
    return f"    {source.name}: " + (source.found if source.missing is None else f"missing, because {source.missing}")


def cause_lines(cause: Cause, told: tuple[Evidence, ...] = ()) -> list[str]:
    """Step 2, of one cause. Evidence that the symptom has `told` in full is only named."""
    lines = [f"{confidence(cause.confidence)}: {cause.title}"]
    usual = f"as a rule in stage {in_words(cause.stage)}, {in_words(cause.layer)} layer"
    lines.append(f"    playbook {cause.id}: {cause.kind}; {usual}")
    places = {(one.file, one.line) for one in told}
    for seen in cause.evidence:
        is_told = (seen.file, seen.line) in places and seen.line is not None
        lines.append(f"    seen in {seen.file}:{seen.line}, above" if is_told else evidence_line(seen))
    for one in sorted(cause.hypotheses, key=lambda hypothesis: _ORDER.index(hypothesis.verdict)):
        lines.append(f"{one.verdict.value}: {one.claim}")
        lines += [f"    {reason}" for reason in dict.fromkeys(one.because)]
        if one.verdict is Verdict.UNTESTED or one.run is not None:
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
        lines.append(f"{fix.id}: {state_of(fix)}")
        if fix.by_hand and fix.unavailable is None:
            lines.append(f"    by hand: {fix.by_hand}")
        if fix is chosen:
            lines += one_fix_lines(fix)
        elif is_usable(fix):
            lines.append(f"    {fix.title}")
    return [*lines, *is_changed(session, from_anywhere=True)]


def one_fix_lines(fix: FixOption) -> list[str]:
    """What one fix changes, what it promises, why, at which price."""
    lines = [f"    {fix.title}"]
    lines += [f"    step {number} of {len(fix.steps)}: {one.title}" for number, one in enumerate(fix.steps, 1)]
    lines += ["  " + line for line in fix.diff]
    lines += [f"    does: {command}" for command in fix.commands]
    lines += [f"    way back: {command}" for command in fix.way_back]
    lines += [f"    expects: {promise}" for promise in fix.promises]
    why = "why" if fix.proposed is None else "why the playbook's value"
    return [*lines, f"    {why}: {fix.why}", f"    you lose: {fix.you_lose}", f"    risk: {risk_of(fix)}"]


def chosen_fix(session: Session) -> FixOption | None:
    """The fix applied, else the next that can be."""
    applied = next((fix for fix in session.fixes if fix.id == session.applied_fix), None)
    return applied or next((fix for fix in session.fixes if is_usable(fix) and fix.outcome == "not tried"), None)


def verify_lines(session: Session) -> list[str]:
    """Step 4: expected beside measured, and of which fix, where that is not applied any more."""
    is_past = session.applied_fix is None and session.checked_fix is not None and session.checks
    past = [f"of {session.checked_fix}, which is undone: what was changed is as it was before"] if is_past else []
    return [*past, *(line for _, lines in told_checks(session.checks) for line in lines)]


def told_checks(checks: Sequence[Check]) -> list[tuple[Outcome, list[str]]]:
    """Each check with its lines; those that were not measured for one reason together, in two."""
    groups: dict[str, list[Check]] = {}
    for one in checks:
        is_left = one.outcome is Outcome.ABSTAIN and one.measured is None and one.reason
        groups.setdefault(f"left: {one.reason}" if is_left else one.id, []).append(one)
    return [(group[0].outcome, _group_lines(group)) for group in groups.values()]


def _group_lines(group: list[Check]) -> list[str]:
    if len(group) == 1:
        return one_check_lines(group[0])
    titles = "; ".join(one.title for one in group)
    first = f"{Outcome.ABSTAIN.value}  {len(group)} checks"
    return [first, f"    because   {group[0].reason}", f"    they are  {titles}"]


def one_check_lines(check: Check) -> list[str]:
    """The check, and below it what was expected and what was measured."""
    lines = [f"{check.outcome.value}  {check.title}", f"    expected  {check.expected}"]
    lines.append(f"    measured  {check.measured or 'nothing'}")
    return lines + ([f"    because   {check.reason}"] if check.reason else [])


def unproved_lines(session: Session) -> list[str]:
    """What a reader must not take from this report."""
    lines = _nothing_proved(session)
    lines += _not_decided(session.checks)
    lines += [WARM_ONLY] if session.verdict == "verified" and session.verify_grade == "warm" else []
    lines += [
        f"{one.claim} ({one.verdict.value})"
        for cause in session.causes
        for one in cause.hypotheses
        if one.verdict in (Verdict.UNTESTED, Verdict.INCONCLUSIVE)
    ]
    return lines + (list(_LIMITS) if session.verdict in ("verified", "healthy") else [])


def noted(session: Session) -> list[str]:
    """What happened on the way, each once: what was undone, where the case was cut off."""
    return [f"note: {note}" for note in dict.fromkeys(session.notes)]


def _not_decided(checks: Sequence[Check]) -> list[str]:
    """A line a reason."""
    titles: dict[str, list[str]] = {}
    for one in checks:
        if one.outcome is Outcome.ABSTAIN and one.reason:
            titles.setdefault(one.reason, []).append(one.title)
    return [f"{'; '.join(names)}: {reason}" for reason, names in titles.items()]


def _nothing_proved(session: Session) -> list[str]:
    """What a session that proved nothing says first; empty where a fix was verified or the model loads."""
    if session.verdict in ("verified", "healthy"):
        return []
    if session.symptom is None:
        return ["nothing: no load came to its end"]
    if any(fix.outcome == "verified" for fix in session.fixes):
        return []
    if session.applied_fix is not None:
        return [f"{session.applied_fix} was applied, and its verification did not come to its end"]
    undone = [f"{fix.id} was undone {fix.undone}: nothing of it stays" for fix in session.fixes if fix.undone]
    if undone:
        return undone
    tried = [fix.id for fix in session.fixes if fix.outcome == "did not hold"]
    return [f"no fix held; tried: {', '.join(tried)}" if tried else "no fix was applied"]


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
    rows = ("| {} | `{}` | {} | {} |".format(*row).replace("\n", " ") for row in fact_rows(session))
    return ["| fact | name in playbooks | value | from |", "|---|---|---|---|", *rows]


def fact_rows(session: Session) -> Iterator[tuple[str, str, str, str]]:
    """Label, name, value and origin of each fact that a reader may want."""
    for name, fact in sorted(session.facts.items(), key=lambda pair: pair[0]):
        info = info_of(name)
        if not _is_told(name, session):
            continue
        if isinstance(fact, Known):
            yield info.label, name, quantity(fact.value, info.unit, name), f"{fact.source}, {fact.origin}"
        else:
            yield info.label, name, "unknown", fact.reason


def _is_told(name: str, session: Session) -> bool:
    """Not what stands with the fix that restores a file, nor every package of the engine."""
    if name.startswith(PACKAGES):
        changed = {plain_name(fix.key.removeprefix(PACKAGES_KEY)) for fix in session.fixes}
        return name.removeprefix(PACKAGES) in {*_PACKAGES_TOLD, *changed}
    return not name.startswith((*OF_ONE_FILE, WANTED))
