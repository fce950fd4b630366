"""Judges hypotheses: confirmed when all that must hold does, refuted when anything that must not does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from playbooks import experiments, wording
from playbooks.claims import Hypothesis, Verdict
from playbooks.conditions import evaluate, parse

if TYPE_CHECKING:
    from playbooks.conditions import Lookup, Result
    from playbooks.schema import Experiment, HypothesisSpec


def hypothesis_of(spec: HypothesisSpec, lookup: Lookup) -> Hypothesis:
    """The hypothesis as far as it can be judged without doing anything.

    What only reads facts gets its verdict at once. An examination is not needed where others have told its facts. What
    needs a load is at most refuted by what is known already.
    """
    experiment = spec.experiment
    hypothesis = Hypothesis(
        spec.id,
        spec.claim,
        in_words(experiment),
        experiment.cost,
        fixes=tuple(spec.fixes),
        run=experiment.run,
        change=", ".join(f"{key}={value}" for key, value in change_of(experiment).items()),
    )
    judged = judge(hypothesis, spec, lookup)
    if experiment.run is None or judged.verdict is Verdict.REFUTED:
        return judged
    is_known = experiments.named(experiment.run).kind == "examine" and judged.verdict is Verdict.CONFIRMED
    return judged if is_known else hypothesis


def judge(hypothesis: Hypothesis, spec: HypothesisSpec, lookup: Lookup) -> Hypothesis:
    """The verdict from the facts that there are now."""
    experiment = spec.experiment
    refuting = _holding(experiment.refute, lookup)
    if refuting:
        return replace(hypothesis, verdict=Verdict.REFUTED, because=_in_words(refuting, lookup))
    confirming = [evaluate(parse(text), lookup) for text in experiment.confirm]
    because = _in_words(confirming, lookup)
    if confirming and all(one.holds for one in confirming):
        return replace(hypothesis, verdict=Verdict.CONFIRMED, because=because)
    return replace(hypothesis, verdict=Verdict.INCONCLUSIVE, because=because)


def in_words(experiment: Experiment) -> str:
    """The experiment as a person reads it."""
    if experiment.run is None:
        return "read: " + ", ".join(wording.label_of(name) for name in experiment.ask)
    change = ", ".join(f"{key} {value}" for key, value in experiment.with_.items())
    meaning = experiments.named(experiment.run).meaning
    return f"{meaning}: {change}" if change else meaning


def change_of(experiment: Experiment) -> dict[str, str]:
    """The one variable that it changes: the hypothesis's own (`with`), else that of the named experiment."""
    if experiment.run is None:
        return {}
    return {key: _written(value) for key, value in experiment.with_.items()} or experiments.named(
        experiment.run
    ).default_change


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_words(results: list[Result], lookup: Lookup) -> tuple[str, ...]:
    return tuple(wording.sentence(one.condition, lookup) for one in results)


def _holding(texts: list[str], lookup: Lookup) -> list[Result]:
    results = (evaluate(parse(text), lookup) for text in texts)
    return [result for result in results if result.holds]
