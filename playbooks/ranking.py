"""How sure a playbook is of what it saw: by its own certainty, the place of the text, the release and what is known.

The numbers were set by the labelled failures, `_UNDECIDED` by 342 others that the library had not seen; the scorer
prints how often each confidence was right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playbooks.sayings import Place

_OF_CERTAINTY = {"certain": 0.95, "likely": 0.75, "possible": 0.45}
_OF_PLACE: dict[Place, float] = {
    "root": 1.0, "same record": 0.92, "before": 0.92, "after": 0.72, "warning": 0.62, "quiet": 0.5,
}  # fmt: skip
_MEANT_QUIET = 0.85
"""Of a wording that says itself that it is no error."""
_ANOTHER_RELEASE = 0.3
_UNKNOWN_CONDITION = 0.85
_MEETING = ("distributed_init", "worker_start")
_BETWEEN_RANKS = ("distributed", "environment")
_FAMILIES = {"memory": 0, "format": 2, "quantization": 2, "configuration": 3, "distributed": 3}
_UNDECIDED = 0.25
"""How much rivals for the same failure take away."""


def worth(certainty: str, if_unknown: str | None, unknown_conditions: int) -> float:
    """How much a wording alone is worth, with so many of its conditions unknown: they decide, or only help."""
    if unknown_conditions and if_unknown is not None:
        return _OF_CERTAINTY[if_unknown]
    return float(_OF_CERTAINTY[certainty] * _UNKNOWN_CONDITION**unknown_conditions)


def weight(worth_of_wording: float, place: Place, *, is_quiet: bool, fits_release: bool) -> float:
    """0 to 1."""
    place_weight = max(_OF_PLACE[place], _MEANT_QUIET) if is_quiet else _OF_PLACE[place]
    release = 1.0 if fits_release else _ANOTHER_RELEASE
    return worth_of_wording * place_weight * release


def shared(weights: Sequence[float]) -> tuple[float, ...]:
    """Confidences of rivals from their weights: the more the others weigh, the less sure is each."""
    total = sum(weights)
    return tuple(one * one / (one + _UNDECIDED * (total - one)) if one > 0 else 0.0 for one in weights)


def order_of_check(family: str, stage: str | None) -> int:
    """What is looked at first where two causes are as sure: what is cheap to see and explains most.

    Who holds the GPUs' memory; whether the ranks meet; the weights' path and type against config.json; the
    tensor-parallel size against GPUs and model; then the rest.
    """
    if family in _BETWEEN_RANKS and stage in _MEETING:
        return 1
    return _FAMILIES.get(family, 4)
