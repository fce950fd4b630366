"""Evidence that nobody has and that would decide, by the place where it is to be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLACES = (
    ("launch.env.", "environment"),
    ("launch.", "launch"),
    ("model.", "config.json"),
    ("weights.", "model files"),
    ("files.", "model files"),
    ("adapter.", "adapter files"),
    ("neighbours.", "deployment"),
    ("deployment.", "deployment"),
    ("gpu.", "gpu processes"),
    ("host.", "host state"),
    ("packages", "engine packages"),
    ("engine.", "the start of the log"),
)
_LOG = "more of the log"


class Missing(NamedTuple):
    """`decides`: the causes that this evidence would tell apart or judge."""

    evidence: str
    decides: tuple[str, ...]


def place_of(fact: str) -> str:
    """Where a fact is to be had: `gpu processes` of `gpu.used_by_others_gib`."""
    return next((place for prefix, place in _PLACES if fact.startswith(prefix)), _LOG)


def missing_of(wanted: Iterable[tuple[str, str]]) -> tuple[Missing, ...]:
    """From pairs of (unknown fact, cause that wants it), in the order of the causes."""
    decides: dict[str, list[str]] = {}
    for fact, cause in wanted:
        causes = decides.setdefault(place_of(fact), [])
        if cause not in causes:
            causes.append(cause)
    return tuple(Missing(evidence, tuple(causes)) for evidence, causes in decides.items())
