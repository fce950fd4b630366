"""What is said to be wrong: causes with the lines that show them, and hypotheses with their verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(str, Enum):
    """Of a hypothesis. A fact that is unknown makes it inconclusive, never a guess."""

    UNTESTED = "untested"
    RUNNING = "running"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Evidence:
    """A line that shows something. `file` names the log, `line` counts from 1, None where there is no line."""

    file: str
    line: int | None
    text: str


@dataclass(frozen=True)
class Hypothesis:
    """A claim that can be false, with the experiment that would show it."""

    id: str
    claim: str
    experiment: str
    """In words: `read: max-model-len as launched` or `load with kv-cache-dtype fp8`."""
    cost: str
    verdict: Verdict = Verdict.UNTESTED
    because: tuple[str, ...] = ()
    """Conditions in words with their values, as `max-model-len as launched: not set`."""
    fixes: tuple[str, ...] = ()
    run: str | None = None
    """The named experiment; None: it only reads facts."""
    change: str = ""
    """The one variable that the experiment changes, as `args.enforce-eager=true`."""


@dataclass(frozen=True)
class Cause:
    """A playbook that matched, ranked by `confidence` (0 to 1)."""

    id: str
    title: str
    summary: str
    family: str
    kind: str
    layer: str | None
    stage: str | None
    confidence: float
    evidence: tuple[Evidence, ...]
    hypotheses: tuple[Hypothesis, ...] = ()
