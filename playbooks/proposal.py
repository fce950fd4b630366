"""What an unattended replay would apply, and why not, where nothing can be applied as it was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playbooks.session import FixOption, Session

RISKS = ("low", "medium", "high")


@dataclass(frozen=True)
class Proposal:
    """`fix` is next to be applied; where it is None, `why_none` says why, a line each."""

    fix: FixOption | None
    why_none: tuple[str, ...] = ()


def propose(
    session: Session, playbook: str | None = None, fix: str | None = None, most_risk: str = RISKS[-1]
) -> Proposal:
    """The next fix of `playbook` (of any cause when None), which must be `fix` where that is given.

    Without a name none is meant whose risk is above `most_risk`: that is for a person to judge.
    """
    meant = tuple(one for one in session.fixes if is_of(one, session, playbook))
    possible = tuple(one for one in meant if is_usable(one) and one.outcome == "not tried")
    risky = tuple(one for one in possible if fix is None and _is_above(one, most_risk))
    chosen = next((one for one in possible if fix in (None, one.id) and one not in risky), None)
    if chosen is not None or not session.causes:
        return Proposal(chosen)
    if playbook is not None and playbook not in [cause.id for cause in session.causes]:
        found = ", ".join(f"{cause.id} ({confidence(cause.confidence)})" for cause in session.causes)
        way = f"vllm-console replay {session.causes[0].id} --deployment {session.deployment.path or 'FILE'}"
        return Proposal(None, (f"{playbook} is not what was found here; found: {found}", f"go on with: {way}"))
    named = [one for one in meant if fix in (None, one.id) and one not in risky]
    told = (*(f"{one.id} {_too_risky(one)}" for one in risky), *(f"{one.id} {_why_out(one)}" for one in named))
    return Proposal(None, (*told, *_possible(possible)) if fix is not None else told)


def _is_above(option: FixOption, most_risk: str) -> bool:
    """A word that is none of RISKS is not known to be less."""
    return option.risk not in RISKS[: RISKS.index(most_risk) + 1]


def _too_risky(option: FixOption) -> str:
    """With what its price is, since that is what has to be judged."""
    way = f"--fix {option.id} or --risk {RISKS[-1]}"
    return f"is not applied unasked: its risk is {option.risk} ({option.you_lose}). Ask for it: {way}"


def is_usable(option: FixOption) -> bool:
    """Whether the console can apply it."""
    return option.unavailable is None and option.by_hand is None


def is_of(option: FixOption, session: Session, playbook: str | None) -> bool:
    """Whether a hypothesis of `playbook` leads to it."""
    causes = [cause.id for cause in session.causes if any(option.id in one.fixes for one in cause.hypotheses)]
    return playbook is None or playbook in causes


def confidence(share: float) -> str:
    """`95 % confidence`."""
    return f"{share * 100:.0f} % confidence"


def _why_out(option: FixOption) -> str:
    if option.unavailable is not None:
        return f"cannot be applied here: {option.unavailable}"
    if option.by_hand is not None:
        return f"is done by hand: {option.by_hand}"
    return f"was tried: {option.outcome}"


def _possible(possible: tuple[FixOption, ...]) -> tuple[str, ...]:
    if not possible:
        return ("no other fix can be applied here",)
    return ("possible here:", *(f"    {one.id}: {one.title}" for one in possible))
