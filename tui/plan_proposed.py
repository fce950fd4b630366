"""What is proposed for a plan that does not fit, in the words of the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.widgets.plan_advice import Proposed

if TYPE_CHECKING:
    from playbooks.placement import Plan


def proposed_for(_plan: Plan) -> Proposed:
    """May take a while."""
    return Proposed(None, why_none="")
