"""What a playbook must be beyond its shape: every pattern proved on samples, every claim refutable, one variable a fix.

Each check yields problems with the place in the file, as the path of keys that leads there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.errors import InputError, nearest_word
from engine_probe.outside.keys import checked_outside, is_outside
from playbooks import experiments, requests
from playbooks.conditions import ConditionError, parse
from playbooks.facts import is_fact, register
from playbooks.filling import placeholders
from playbooks.patterns import CompiledWording, compile_pattern, is_slow, repeated_letters, slow_probes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from playbooks.schema import Experiment, Fix, Playbook, Scalar

Place = tuple[str | int, ...]

_SETTABLE = (
    (re.compile(r"args\.(?:[a-z0-9][a-z0-9-]*|{[\w.]+})"), "args.NAME"),
    (re.compile(r"env\.(?:[A-Za-z_][A-Za-z0-9_]*|{[\w.]+})"), "env.NAME"),
    (re.compile(r"gpus"), "gpus"),
    (re.compile(r"lora\.(?:[\w.-]|{[\w.]+})+"), "lora.NAME"),
    (re.compile(r"model"), "model"),
    (re.compile(r"engine\.packages\.(?:[\w.-]|{[\w.]+})+"), "engine.packages.NAME"),
    (re.compile(r"files\..+"), "files.NAME"),
    (re.compile(r"deployment\.order"), "deployment.order"),
    (re.compile(r"deployment\.start"), "deployment.start"),
    (re.compile(r"host\.[a-z_]+"), "host.NAME"),
)
_WITHIN = re.compile(r"start|\d+(\.\d+)?s")
_RANGE = re.compile(r"(>=|<=|==|<|>)\s*\d+(\.\d+)*")


@dataclass(frozen=True)
class Problem:
    """`at` leads to the key or item that is wrong."""

    at: Place
    text: str
    allowed: tuple[str, ...] = ()
    nearest: str | None = None


def problems(playbook: Playbook, file_stem: str, known_ids: Iterable[str]) -> Iterator[Problem]:
    """Everything wrong with `playbook`, in the order of the file."""
    if playbook.playbook != file_stem:
        yield Problem(("playbook",), f"the id {playbook.playbook!r} must equal the file's name {file_stem!r}")
    yield from _release_range(playbook.applies_to.vllm, ("applies_to", "vllm"))
    broken = list(_patterns(playbook))
    yield from broken
    if any(problem.at[0] == "symptoms" for problem in broken):
        return  # samples and fact names cannot be checked with patterns that do not compile
    yield from _other_illnesses(playbook, set(known_ids))
    yield from _samples(playbook)
    captured = captured_names(playbook)
    yield from _narrowings(playbook, captured)
    yield from _unique_ids(playbook)
    yield from _hypotheses(playbook, captured)
    yield from _fixes(playbook, captured)
    yield from _checks(playbook, captured)


def captured_names(playbook: Playbook) -> frozenset[str]:
    """Bare fact names that the symptoms can capture."""
    return frozenset(name for wording in playbook.symptoms.any for name in CompiledWording(wording).group_names())


def _patterns(playbook: Playbook) -> Iterator[Problem]:
    probes = slow_probes([sample.line for sample in playbook.samples.match])
    places: list[tuple[Place, str]] = []
    for number, wording in enumerate(playbook.symptoms.any):
        at: Place = ("symptoms", "any", number)
        places.append(((*at, "log"), wording.log))
        places += [((*at, "also_capture", index), extra) for index, extra in enumerate(wording.also_capture)]
        places += [
            ((*at, key), text)
            for key, text in (("along_with", wording.along_with), ("absent", wording.absent))
            if text is not None
        ]
    places += [(("symptoms", "unless", n, "log"), other.log) for n, other in enumerate(playbook.symptoms.unless)]
    places += [(("verify", n, "log"), check.log) for n, check in enumerate(playbook.verify) if check.log is not None]
    if not playbook.symptoms.any:
        yield Problem(("symptoms", "any"), "a playbook needs at least one symptom")
    for place, text in places:
        try:
            pattern = compile_pattern(text)
        except re.error as error:
            yield Problem(place, f"the pattern does not compile: {error}")
            continue
        if is_slow(pattern, (*probes, *repeated_letters(text))):
            yield Problem(place, "the pattern takes too long on a line of 10,000 characters (nested repeats?)")


def _narrowings(playbook: Playbook, captured: frozenset[str]) -> Iterator[Problem]:
    for number, wording in enumerate(playbook.symptoms.any):
        at: Place = ("symptoms", "any", number)
        yield from _conditions(wording.when, (*at, "when"), captured)
        yield from _release_range(wording.vllm, (*at, "vllm"))
        try:
            re.compile(wording.frames or "")
        except re.error as error:
            yield Problem((*at, "frames"), f"the pattern does not compile: {error}")


def _release_range(text: str, at: Place) -> Iterator[Problem]:
    for clause in filter(None, text.split(",")):
        if not _RANGE.fullmatch(clause.strip()):
            yield Problem(at, f"{clause!r} is no release range such as `>=0.8.5,<0.11`")


def _other_illnesses(playbook: Playbook, known_ids: set[str]) -> Iterator[Problem]:
    for number, other in enumerate(playbook.symptoms.unless):
        if other.see is not None and other.see not in known_ids:
            at = ("symptoms", "unless", number, "see")
            yield _unknown(at, "playbook", other.see, known_ids)


def _samples(playbook: Playbook) -> Iterator[Problem]:
    samples = playbook.samples
    for key, given in (("match", samples.match), ("no_match", samples.no_match)):
        if not given:
            yield Problem(("samples", key), f"at least one line under samples.{key} is required")
    wordings = [CompiledWording(wording) for wording in playbook.symptoms.any]
    unless = [compile_pattern(other.log) for other in playbook.symptoms.unless]
    proved: set[str] = set()
    for number, sample in enumerate(samples.match):
        found = next(((w, facts) for w in wordings if (facts := w.captured(sample.line)) is not None), None)
        if found is None or any(pattern.search(sample.line) for pattern in unless):
            yield Problem(("samples", "match", number, "line"), "this line must match, and does not")
            continue
        # The same text may be several wordings, told apart by what narrows them.
        proved |= {wording.id for wording in wordings if wording.captured(sample.line) is not None}
        if found[1] != sample.facts:
            text = f"this line yields {found[1]}, not {dict(sample.facts)}"
            yield Problem(("samples", "match", number, "facts"), text)
    for number, wrong in enumerate(samples.no_match):
        hit = next((w.id for w in wordings if w.captured(wrong.line) is not None), None)
        if hit is not None and not any(pattern.search(wrong.line) for pattern in unless):
            yield Problem(("samples", "no_match", number, "line"), f"this line must not match, and {hit} does")
    for number, wording in enumerate(playbook.symptoms.any):
        if samples.match and wording.id not in proved:
            yield Problem(("symptoms", "any", number), f"no sample under samples.match proves {wording.id}")


def _unique_ids(playbook: Playbook) -> Iterator[Problem]:
    for key, names in (
        ("hypotheses", [one.id for one in playbook.hypotheses]),
        ("fixes", [one.id for one in playbook.fixes]),
        ("verify", [one.id for one in playbook.verify]),
    ):
        for number, name in enumerate(names):
            if name in names[:number]:
                yield Problem((key, number, "id"), f"the id {name!r} is there twice")


def _hypotheses(playbook: Playbook, captured: frozenset[str]) -> Iterator[Problem]:
    fixes = {fix.id for fix in playbook.fixes}
    if not playbook.hypotheses:
        yield Problem(("hypotheses",), "a playbook needs at least one hypothesis")
    for number, one in enumerate(playbook.hypotheses):
        at: Place = ("hypotheses", number)
        for index, fix in enumerate(one.fixes):
            if fix not in fixes:
                yield _unknown((*at, "fixes", index), "fix", fix, fixes)
        what = one.experiment
        if not what.refute:
            yield Problem((*at, "experiment"), "a claim that nothing can refute is no hypothesis: `refute` is empty")
        if bool(what.ask) == bool(what.run):
            yield Problem((*at, "experiment"), "an experiment has either `ask` or `run`")
        if what.run is not None and what.run not in experiments.names():
            yield _unknown((*at, "experiment", "run"), "experiment", what.run, experiments.names())
        if len(what.with_) > 1:
            yield Problem((*at, "experiment", "with"), "an experiment changes one variable at most")
        yield from _named_experiment(what, (*at, "experiment"), captured)
        yield from _fact_names(what.ask, (*at, "experiment", "ask"), captured)
        yield from _conditions(what.confirm, (*at, "experiment", "confirm"), captured)
        yield from _conditions(what.refute, (*at, "experiment", "refute"), captured)


def _named_experiment(what: Experiment, at: Place, captured: frozenset[str]) -> Iterator[Problem]:
    """What it changes can be changed, and what it costs is what it does cost."""
    yield from _settable(what.with_, (*at, "with"))
    for value in map(str, what.with_.values()):
        yield from _fact_names(placeholders(value), (*at, "with"), captured)
    if what.run is None or what.run not in experiments.names():
        return
    named = experiments.named(what.run)
    if what.with_ and named.kind == "examine":
        yield Problem((*at, "with"), f"{named.name} loads nothing, so there is nothing to change")
    if what.cost != named.cost:
        yield Problem((*at, "cost"), f"{named.name} costs {named.cost}")


def _fixes(playbook: Playbook, captured: frozenset[str]) -> Iterator[Problem]:
    reached = {name for one in playbook.hypotheses for name in one.fixes}
    for number, fix in enumerate(playbook.fixes):
        at: Place = ("fixes", number)
        if fix.id not in reached:
            yield Problem((*at, "id"), f"no hypothesis leads to the fix {fix.id!r}")
        yield from _one_variable(fix, at)
        for index, step in enumerate(fix.steps):
            yield from _conditions(step.expect, (*at, "steps", index, "expect"), captured)
        if not fix.expect and not any(step.expect for step in fix.steps):
            yield Problem((*at, "expect"), "a fix must promise something that can be measured")
        yield from _fact_names(fix.needs, (*at, "needs"), captured)
        yield from _conditions(fix.only_if, (*at, "only_if"), captured)
        yield from _conditions(fix.expect, (*at, "expect"), captured)
        texts = [("why", fix.why), ("you_lose", fix.you_lose), ("by_hand", fix.by_hand or "")]
        texts += [("set", text) for pair in fix.set.items() for text in map(str, pair)]
        yield from _values_outside(fix, at)
        for key, text in texts:
            yield from _fact_names(placeholders(text), (*at, key), captured)


def _values_outside(fix: Fix, at: Place) -> Iterator[Problem]:
    """What the console is to do itself it must be able to do: a value that only a person understands is `by_hand`."""
    sets = [((*at, "set"), fix.set), *(((*at, "steps", n, "set"), step.set) for n, step in enumerate(fix.steps))]
    for place, change in sets if not fix.by_hand else []:
        for key, value in change.items():
            try:
                if is_outside(key) and not placeholders(key + str(value)):
                    checked_outside(key, str(value))
            except InputError as error:
                yield Problem((*place, key), f"{error}; what is to be done by hand is `by_hand`")
            if key.startswith("host."):
                yield Problem((*place, key), "the console changes nothing of the host: `by_hand` says what to do")


def _one_variable(fix: Fix, at: Place) -> Iterator[Problem]:
    if bool(fix.set) == bool(fix.steps):
        yield Problem(at, "a fix has either `set` or `steps`")
    changes: list[tuple[Place, dict[str, Scalar]]] = [((*at, "set"), fix.set)] if fix.set else []
    changes += [((*at, "steps", index, "set"), step.set) for index, step in enumerate(fix.steps)]
    for place, change in changes:
        if len(change) != 1:
            yield Problem(place, f"exactly one variable at a time; here are {len(change)}: {', '.join(change)}")
        yield from _settable(change, place)


def _settable(change: dict[str, Scalar], at: Place) -> Iterator[Problem]:
    for key in change:
        if not any(pattern.fullmatch(key) for pattern, _ in _SETTABLE):
            allowed = tuple(name for _, name in _SETTABLE)
            yield Problem((*at, key), f"{key!r} cannot be set by a playbook", allowed, nearest_word(key, allowed))


def _checks(playbook: Playbook, captured: frozenset[str]) -> Iterator[Problem]:
    if not playbook.verify:
        yield Problem(("verify",), "a fix that nobody verifies is a hope: `verify` is empty")
    for number, check in enumerate(playbook.verify):
        at: Place = ("verify", number)
        if sum(kind is not None for kind in (check.log, check.http, check.request)) != 1:
            yield Problem(at, "a check has exactly one of `log`, `http`, `request`")
        if not _WITHIN.fullmatch(check.within):
            yield Problem((*at, "within"), f"{check.within!r} is neither `start` nor seconds such as `60s`")
        if check.http is not None and not re.fullmatch(r"GET /\S*", check.http):
            yield Problem((*at, "http"), f"{check.http!r} is not of the form `GET /path`")
        if check.request is not None and check.request not in requests.names():
            yield _unknown((*at, "request"), "request", check.request, requests.names())
        groups = frozenset(compile_pattern(check.log).groupindex) if check.log is not None else frozenset()
        yield from _conditions(check.then, (*at, "then"), captured | groups)


def _conditions(texts: list[str], at: Place, captured: frozenset[str]) -> Iterator[Problem]:
    for number, text in enumerate(texts):
        try:
            condition = parse(text)
        except ConditionError as error:
            yield Problem((*at, number), str(error))
            continue
        yield from (
            _unknown_fact((*at, number), name, captured) for name in condition.facts() if not is_fact(name, captured)
        )


def _fact_names(names: Iterable[str], at: Place, captured: frozenset[str]) -> Iterator[Problem]:
    for number, name in enumerate(names):
        if not is_fact(name, captured):
            place = (*at, number) if at[-1] in ("ask", "needs") else at
            yield _unknown_fact(place, name, captured)


def _unknown_fact(at: Place, name: str, captured: frozenset[str]) -> Problem:
    known = [*sorted(captured), *(info.name for info in register())]
    return Problem(at, f"there is no fact {name!r}", nearest=nearest_word(name, known))


def _unknown(at: Place, what: str, name: str, known: Iterable[str]) -> Problem:
    words = tuple(sorted(known))
    return Problem(at, f"there is no {what} {name!r}", words, nearest_word(name, words))
