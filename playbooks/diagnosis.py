"""From a log, and whatever else is known, to ranked root causes: nothing is loaded and nothing is guessed.

diagnosis = diagnose(records, context.library, evidence)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from engine_probe.facts import Known, Unknown
from engine_probe.logs.attempts import attempts
from engine_probe.logs.lines import PROBE_LOGGER
from engine_probe.redact import mask
from playbooks import experiments
from playbooks.candidates import Candidate, Heard, candidates_of
from playbooks.claims import Cause, Evidence, Verdict
from playbooks.conditions import parse
from playbooks.device_in_log import device_printed
from playbooks.evidence import Evidence as GivenEvidence
from playbooks.exceptions import cut_between_words, make_evidence
from playbooks.facts import lookup_for
from playbooks.hypotheses import hypothesis_of
from playbooks.launch_in_log import launch_printed
from playbooks.missing import Missing, is_in_log, missing_of, roots_of
from playbooks.processes_in_log import engines_listed, facts_of_processes
from playbooks.ranking import shared
from playbooks.sayings import sayings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from engine_probe.facts import Fact, Value
    from engine_probe.launch import Launch
    from engine_probe.logs.attempts import Attempt
    from engine_probe.logs.covers import Wrappers
    from engine_probe.logs.records import Record
    from playbooks.claims import Hypothesis
    from playbooks.conditions import Lookup
    from playbooks.library import Loaded

Outcome = Literal["failed", "healthy", "incomplete"]
SymptomKind = Literal["does-not-start", "crashes-while-running", "answers-are-wrong"]

UNEXPLAINED = "unexplained"
ABOVE_THE_CUT = "the log above its first line"
_MOST_EVIDENCE = 5
_LONGEST_SUMMARY = 300
_LEAST_CONFIDENCE = 0.05
_EXPLAINS = ("root", "same record", "before", "after")
_UNEXPLAINED_CONFIDENCE = 0.5


class Given(NamedTuple):
    """The log's name, for evidence, and what is known beside it."""

    file: str
    evidence: GivenEvidence = GivenEvidence()


class FoundCause(NamedTuple):
    """A cause with what its fixes need: the facts of its load, and those that its wording captured."""

    cause: Cause
    model: str | None
    playbook: Loaded | None
    """None: unexplained."""
    lookup: Lookup
    launch_name: str | None = None
    captured: Mapping[str, Fact] = {}
    """What its wordings captured, by bare names."""


class Diagnosis(NamedTuple):
    """`causes` best first; none of a log that shows nothing wrong."""

    outcome: Outcome
    version: str | None
    symptom: SymptomKind | None
    causes: tuple[FoundCause, ...]
    missing: tuple[Missing, ...]
    attempts: tuple[Attempt, ...]
    facts: Mapping[str, Fact] = {}
    """Known ones of the last load that ended so."""
    notes: tuple[str, ...] = ()
    """What in the launch does not fit the log."""

    @property
    def is_unexplained(self) -> bool:
        """Something is wrong and no playbook says what."""
        return self.outcome != "healthy" and not any(one.playbook for one in self.causes[:1])


def diagnose(records: Sequence[Record], library: Sequence[Loaded], covers: Wrappers, given: Given) -> Diagnosis:
    """The causes of what went wrong with the last try of each model."""
    tries = attempts(records, covers)
    last = _last_of_each_model(tries)
    outcome = _outcome_of(last)
    causes: list[FoundCause] = []
    wanted: list[tuple[str, str]] = []
    facts: Mapping[str, Fact] = {}
    for attempt in last:
        found = _of_attempt(attempt, library, covers, given)
        facts = found.facts if attempt.outcome == outcome else facts
        causes += [one for one in found.causes if attempt.outcome == outcome]
        wanted += found.wanted
    causes = _without_twins(sorted(causes, key=lambda one: -one.cause.confidence))
    missing = (*_above_the_cut(last, causes), *missing_of(wanted))
    version = next((one.version for one in reversed(tries) if one.version), None)
    symptom = _symptom_of(last, outcome, causes)
    notes = [note for one in last for note in _notes_of(one, given)]
    return Diagnosis(
        outcome, version, symptom, tuple(causes), missing, tuple(tries), facts, tuple(dict.fromkeys(notes))
    )


def _notes_of(attempt: Attempt, given: Given) -> Iterator[str]:
    launch = given.evidence.launch_of(attempt.model)
    yield from given.evidence.notes(launch, attempt.model, attempt.version)
    if launch is not None:
        yield from launch_printed(attempt.records, given.file).contradicting(launch)


def _last_of_each_model(tries: Sequence[Attempt]) -> list[Attempt]:
    by_model: dict[str | None, Attempt] = {}
    for attempt in tries:
        by_model.pop(attempt.model, None)
        by_model[attempt.model] = attempt
    return list(by_model.values())


def _outcome_of(last: Sequence[Attempt]) -> Outcome:
    outcomes = {attempt.outcome for attempt in last}
    return "failed" if "failed" in outcomes else "incomplete" if "incomplete" in outcomes or not last else "healthy"


class _Found(NamedTuple):
    causes: tuple[FoundCause, ...]
    wanted: tuple[tuple[str, str], ...]
    """(unknown fact, cause that wants it)."""
    facts: Mapping[str, Fact]


def _of_attempt(attempt: Attempt, library: Sequence[Loaded], covers: Wrappers, given: Given) -> _Found:
    launch = given.evidence.launch_of(attempt.model)
    printed = launch_printed(attempt.records, given.file)
    facts: dict[str, Fact] = given.evidence.facts(launch, attempt.version) | printed.beside(launch)
    facts |= {name: Known(value, "parsed", given.file) for name, value in attempt.facts.items()}
    device = device_printed(attempt.records, given.file)
    facts |= {"engine.device": device} if device is not None else {}
    engines = engines_listed(attempt.records)

    def lookup_with(captured: Mapping[str, Value]) -> Lookup:
        told: dict[str, Fact] = {name: Known(value, "parsed", given.file) for name, value in captured.items()}
        lookup = lookup_for(launch, facts | told, printed.unsaid)
        for name, fact in facts_of_processes(lookup, engines, given.file).items():
            told |= {} if isinstance(facts.get(name), Known) else {name: fact}
        return lookup_for(launch, facts | told, printed.unsaid)

    heard = Heard(sayings_of(attempt, covers), attempt.version, attempt.outcome == "incomplete")
    candidates = candidates_of(library, heard, lookup_with)
    if attempt.outcome == "healthy":
        candidates = [one for one in candidates if one.playbook.spec.symptom == "answers-are-wrong"]
    confidences = shared([one.best.weight for one in candidates])
    causes = [
        _cause(one, confidence, attempt, lookup_with(one.facts), given, launch)
        for one, confidence in zip(candidates, confidences, strict=True)
        if confidence >= _LEAST_CONFIDENCE
    ]
    if attempt.outcome == "failed" and not any(map(_explains, candidates)):
        causes.insert(0, _unexplained(attempt, given, lookup_with({}), causes))
    known = {name: fact for name, fact in facts.items() if isinstance(fact, Known)}
    wanted = [
        (fact, cause)
        for fact, cause in _wanted(candidates, causes, lookup_with)
        if attempt.outcome == "incomplete" or not is_in_log(fact)
    ]
    return _Found(tuple(causes), tuple(wanted), known)


def _explains(one: Candidate) -> bool:
    """It was seen in what failed, though a warning before may tell more."""
    return any(seen.saying.place in _EXPLAINS for seen in one.seen)


def _wanted(
    candidates: Sequence[Candidate],
    causes: Sequence[FoundCause],
    lookup_with: Callable[[Mapping[str, Value]], Lookup],
) -> Iterator[tuple[str, str]]:
    for candidate in candidates:
        lookup = lookup_with(candidate.facts)
        roots = [root for fact in candidate.best.unknown for root in roots_of(fact, lookup)]
        yield from ((root, candidate.playbook.id) for root in roots if isinstance(lookup(root), Unknown))
    for found in causes[:3]:
        for spec in found.playbook.spec.hypotheses if found.playbook else ():
            run = spec.experiment.run
            is_load = run is not None and experiments.named(run).kind == "load"
            if is_load or not _is_open(spec.id, found.cause.hypotheses):
                continue
            names = [name for text in spec.experiment.confirm for name in parse(text).facts()]
            unknown = [name for name in names if isinstance(found.lookup(name), Unknown)]
            yield from ((root, found.cause.id) for name in unknown for root in roots_of(name, found.lookup))


def _is_open(name: str, hypotheses: Sequence[Hypothesis]) -> bool:
    return any(one.id == name and one.verdict in (Verdict.INCONCLUSIVE, Verdict.UNTESTED) for one in hypotheses)


def _cause(
    candidate: Candidate, confidence: float, attempt: Attempt, lookup: Lookup, given: Given, launch: Launch | None
) -> FoundCause:
    spec = candidate.playbook.spec
    cause = Cause(
        id=spec.playbook,
        title=spec.title,
        summary=" ".join(spec.summary.split()),
        family=spec.family,
        kind=spec.kind,
        layer=_layer_of(candidate),
        stage=_stage_of(candidate, attempt),
        confidence=round(confidence, 3),
        evidence=_evidence(candidate, given),
        hypotheses=tuple(hypothesis_of(one, lookup) for one in spec.hypotheses),
    )
    captured: dict[str, Fact] = {name: Known(value, "parsed", given.file) for name, value in candidate.facts.items()}
    name = None if launch is None else launch.name
    return FoundCause(cause, attempt.model, candidate.playbook, lookup, name, captured)


def _stage_of(candidate: Candidate, attempt: Attempt) -> str:
    """The playbook's; where it names several, the one that this load was in."""
    spec = candidate.playbook.spec
    here = candidate.best.saying.stage or attempt.stage
    return here if here is not None and here in spec.other_stages else spec.stage


def _layer_of(candidate: Candidate) -> str:
    spec = candidate.playbook.spec
    here = candidate.best.saying.layer
    return here if here is not None and here in spec.other_layers else spec.layer


def _evidence(candidate: Candidate, given: Given) -> tuple[Evidence, ...]:
    found: dict[str, Evidence] = {}
    for one in candidate.seen:
        found.setdefault(one.saying.plain[:300], make_evidence(given.file, one.saying.line, one.saying.text))
    return tuple(found.values())[:_MOST_EVIDENCE]


def _unexplained(attempt: Attempt, given: Given, lookup: Lookup, others: Sequence[FoundCause]) -> FoundCause:
    """The root exception as it is."""
    record, root = attempt.root_record, attempt.root
    text = root.text if root is not None else record.message if record is not None else "the load failed"
    line = None if record is None else record.first_line + (root.at if root is not None else 0)
    cause = Cause(
        id=UNEXPLAINED,
        title="No playbook explains this failure",
        summary=cut_between_words(mask(text.partition("\n")[0]), _LONGEST_SUMMARY),
        family="",
        kind="",
        layer=None if record is None else record.layer,
        stage=attempt.stage,
        confidence=max(_UNEXPLAINED_CONFIDENCE, *(one.cause.confidence for one in others), 0.0),
        evidence=(make_evidence(given.file, line, text),),
    )
    return FoundCause(cause, attempt.model, None, lookup)


def _above_the_cut(last: Sequence[Attempt], causes: Sequence[FoundCause]) -> Iterator[Missing]:
    """The log begins in the middle of a load: what is above may show another cause, or the only one."""
    for attempt in last:
        if attempt.outcome == "failed" and _begins_in_the_middle(attempt):
            yield Missing(ABOVE_THE_CUT, tuple(one.cause.id for one in causes[:3]))
            return


def _begins_in_the_middle(attempt: Attempt) -> bool:
    """No release was told, and the first line is no beginning: no banner, exception at import or probe's word.

    The whole traceback of an exception at import may be all that there is; not one whose own beginning is missing, nor
    one that only says that something else went wrong.
    """
    first = attempt.records[0]
    is_whole = bool(first.chains) and not first.chains[0][0].is_cut and attempt.root is not None
    is_at_import = first.format is None and first.process is None and is_whole
    is_beginning = first.enters in ("config", "engine_build") or is_at_import or first.logger == PROBE_LOGGER
    return attempt.version is None and not is_beginning


def _without_twins(causes: Sequence[FoundCause]) -> list[FoundCause]:
    """Two models that fail alike are two causes; the same cause of the same model is one."""
    found: dict[tuple[str, str | None], FoundCause] = {}
    for one in causes:
        found.setdefault((one.cause.id, one.model), one)
    return list(found.values())


def _symptom_of(last: Sequence[Attempt], outcome: Outcome, causes: Sequence[FoundCause]) -> SymptomKind | None:
    if outcome == "healthy":
        return "answers-are-wrong" if causes else None
    served = any("serving" in attempt.seconds() for attempt in last if attempt.outcome == outcome)
    if causes and causes[0].playbook is not None and not served:
        return causes[0].playbook.spec.symptom
    return "crashes-while-running" if served else "does-not-start" if last else None
