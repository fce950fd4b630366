"""What a person, or an unattended replay, may decide. The state machine takes them beside probe events."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Begin:
    """Load the deployment as it is and watch."""


@dataclass(frozen=True)
class BeginFromLog:
    """Take the symptom from logs that are there; nothing is loaded. Each source as `vllm-console diagnose` takes it."""

    sources: tuple[str, ...]


@dataclass(frozen=True)
class RunExperiment:
    """Try to refute one hypothesis of one cause."""

    cause: str
    hypothesis: str


@dataclass(frozen=True)
class ApplyFix:
    """Write the fix as a revision of the deployment and verify it. `value` replaces the proposed one."""

    fix: str
    value: str | None = None


@dataclass(frozen=True)
class Undo:
    """Go back to the deployment as it was before the applied fix."""


@dataclass(frozen=True)
class Finish:
    """Keep what there is, write the report, end what runs."""


@dataclass(frozen=True)
class Stop:
    """End what runs now; nothing else changes."""


Decision = Begin | BeginFromLog | RunExperiment | ApplyFix | Undo | Finish | Stop
