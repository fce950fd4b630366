"""A proposal as text: the difference, each change with its reason and its cost, and what else would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.deployment import diff
from engine_probe.yaml_edit import rendered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.launch import Deployment
    from playbooks.plan_alternatives import Alternative
    from playbooks.plan_proposal import Advice, PlanChange, Proposal
    from tui.output import Output

_MOST_ALTERNATIVES = 6


def print_advice(output: Output, deployment: Deployment, advice: Advice) -> None:
    """Nothing where all models fit."""
    if advice.proposal is not None:
        _print_proposal(output, deployment, advice.proposal)
    elif advice.why_none is not None:
        output.text()
        output.text("no proposal", "bold")
        output.folded(advice.why_none)
    if advice.alternatives:
        output.text()
        output.text("what else would help (not applied)", "bold")
        for one in advice.alternatives[:_MOST_ALTERNATIVES]:
            output.folded(alternative_in_words(one))


def _print_proposal(output: Output, deployment: Deployment, proposal: Proposal) -> None:
    many = len(proposal.changes)
    output.text()
    output.text(f"proposal: with {'one change' if many == 1 else f'{many} changes'} all models fit", "bold")
    for line in diff(deployment, proposal.deployment):
        output.text(f"  {line}")
    for one in proposal.changes:
        output.text()
        output.text(what_of(one))
        output.folded(f"why: {one.why}")
        output.folded(f"costs: {one.costs}")
    output.text()
    for line in margins_in_words(proposal):
        output.folded(line)


def what_of(one: PlanChange) -> str:
    """Such as `gpus of code: [4]`."""
    name = one.key.partition(".")[2] or one.key
    whose = f" of {one.launch}" if one.launch is not None else ""
    return f"{name}{whose}: {'not set' if one.value is None else rendered(one.value)}"


def margins_in_words(proposal: Proposal) -> Iterator[str]:
    """What is left over at the unfavourable end of every range."""
    if proposal.margins_gib:
        left = ", ".join(f"{name} {gib:.2f} GiB" for name, gib in proposal.margins_gib.items())
        yield f"left over at the unfavourable end of every range: {left}"
    if not proposal.is_safe:
        yield "this fits by the middle of the ranges alone: it may still fail; the first start will tell"


def alternative_in_words(one: Alternative) -> str:
    """One line: what it is, whether it is enough, what it buys and costs."""
    effect = "all models fit" if one.all_fit else "it starts" if one.fits else "it does not start by this alone"
    bought = [f"{size:.1f} GiB {what}" for size, what in _sizes(one) if size is not None and abs(size) >= 0.05]
    if one.fits and one.concurrency is not None:
        bought.append(f"{one.concurrency:.1f} requests of full length at once")
    return f"{one.launch}, {one.what}: {effect}{'; ' if bought else ''}{', '.join(bought)}; costs: {one.costs}"


def _sizes(one: Alternative) -> tuple[tuple[float | None, str], ...]:
    return (one.weights_gib, "less weights on each GPU"), (one.pool_gib, "more KV cache")
