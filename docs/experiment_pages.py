"""The page of all experiments, from their table: what each does, tells apart, costs and leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.experiments import every
from playbooks.facts import info_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from playbooks.experiments import NamedExperiment
    from playbooks.library import Loaded

_HEAD = """\
# Experiments

What a hypothesis may `run`. This page is made from `playbooks/data/experiments.tsv` by `python docs/generate.py`.
`vllm-console probe --experiment NAME DEPLOYMENT` does one and prints the facts that it leaves; `replay` does those
that decide between fixes (`--thorough`: all). One that cannot be done, or not to its end, is inconclusive and says why.

A load has one change and ends as soon as the model serves or fails. An examination loads nothing: a small
program runs under the engine's own Python (behind ssh and in containers too), for at most two minutes, and nothing of
it is left.
"""


def experiment_page(library: Iterable[Loaded]) -> str:
    """In the order of the table."""
    users: dict[str, list[str]] = {}
    for one in library:
        for claim in one.spec.hypotheses:
            users.setdefault(claim.experiment.run or "", []).append(one.id)
    return _HEAD + "".join("\n" + "\n".join(_lines(one, users.get(one.name, []))) + "\n" for one in every())


def _lines(one: NamedExperiment, users: list[str]) -> Iterator[str]:
    yield f"## {one.name}"
    yield ""
    yield f"Does: {one.meaning}."
    yield ""
    yield f"Tells apart: {one.tells_apart}."
    yield ""
    yield f"- costs: {one.cost} ({one.kind})"
    if one.change:
        yield f"- changes: `{one.change}`, unless the hypothesis names another value"
    for name in one.facts:
        yield f"- leaves `{name}`: {info_of(name).meaning}"
    yield f"- used by: {', '.join(sorted(set(users))) or 'no playbook of the library yet'}"
