"""What is proposed for a plan that does not fit, in the words of the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.plan_proposal import advise
from tui.commands.plan_advice_text import alternative_in_words, margins_in_words, what_of
from tui.widgets.plan_advice import Proposed

if TYPE_CHECKING:
    from playbooks.placement import Plan

_MOST_ALTERNATIVES = 4


def proposed_for(plan: Plan) -> Proposed:
    """May take a while."""
    advice = advise(plan)
    alternatives = tuple(map(alternative_in_words, advice.alternatives[:_MOST_ALTERNATIVES]))
    if advice.proposal is None:
        return Proposed(None, why_none=advice.why_none or "", alternatives=alternatives)
    changes = tuple((what_of(one), f"{one.why}; costs: {one.costs}") for one in advice.proposal.changes)
    left = tuple(("margin", words) for words in margins_in_words(advice.proposal))
    return Proposed(advice.proposal.deployment, (*changes, *left), alternatives=alternatives)
