"""What a session needs to go on, and no screen shows: loads under way, what was seen of them, what comes next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.events import Failed, Ready
    from engine_probe.facts import Fact
    from engine_probe.launch import Deployment
    from playbooks.effects import FilesSeen
    from playbooks.session import StageTime

Phase = Literal[
    "not begun",
    "observing",
    "deciding",
    "experimenting",
    "writing",
    "verifying",
    "undoing",
    "finishing",
    "done",
]


def load_log(number: int) -> str:
    """The name of the log of one load, to which its evidence refers."""
    return f"load-{number}.log"


@dataclass(frozen=True)
class Watched:
    """What was seen of a model's load while another one is looked at: see playbooks/focus.py."""

    stages: tuple[StageTime, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)
    lines: int = 0
    root: Mapping[str, Any] | None = None
    failure: Failed | None = None
    ready: Ready | None = None
    config_built: bool = False
    log_checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progress:
    """`open` are loads that have begun and not ended; `queue` those to load next, in order, or all at once."""

    phase: Phase = "not begun"
    open: tuple[str, ...] = ()
    up: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    loading: str | None = None
    """The model whose load is looked at: what is said here and in the session of stages and facts is of this one."""
    aside: Mapping[str, Watched] = field(default_factory=dict)
    """The same of the other models' loads."""
    failed: str | None = None
    """The model whose failure the case is about: of several the one that failed first."""
    load_number: int = 0
    loads: Mapping[str, int] = field(default_factory=dict)
    """Number of the last load of each model."""
    lines: int = 0
    """Lines in the log of the load under way."""
    captured: Mapping[str, Mapping[str, Fact]] = field(default_factory=dict)
    """What the wordings of each cause captured."""
    is_diagnosed: bool = False
    """A model that serves answers wrongly: all loads are being ended, and the causes are known."""
    root: Mapping[str, Any] | None = None
    """The first exception that was no cover message."""
    failure: Failed | None = None
    ready: Ready | None = None
    config_built: bool = False
    stopping: bool = False
    log_checks: tuple[str, ...] = ()
    """Ids of the verification's log checks whose line was seen."""
    trials: tuple[str, ...] = ()
    """Models that serve and are still to be asked something, once each; the first is asked now."""
    requests: tuple[str, ...] = ()
    """Ids of the checks that still want a request; the first is under way."""
    attempt: int = 0
    """Answers to the first of `requests` that did not decide: of a model that pools, another path is tried."""
    files: FilesSeen | None = None
    """Of the model whose answers are judged."""
    numbers: tuple[float | None, ...] = ()
    """Log probabilities of its answer without an adapter."""
    asking: tuple[str, ...] = ()
    """Models that serve and whose answers are to be looked at; the first is under way."""
    experiment: tuple[str, str] | None = None
    restarting: tuple[str, ...] = ()
    """Models that are being ended, to be loaded again as the fix wants it."""
    up_before: tuple[str, ...] = ()
    """Models that served when this one failed: a fix is verified beside them."""
    observed: tuple[str, ...] = ()
    """Models that were loaded before any fix."""
    failed_too: tuple[str, ...] = ()
    """Those of them that failed beside the model that the case is about."""
    fix_step: int = 0
    """The step of the applied fix that is under way, from 0."""
    written: int = 0
    """Revisions that the applied fix has written."""
    before: Deployment | None = None
    """The deployment before the applied fix."""
    facts_before: Mapping[str, Fact] = field(default_factory=dict)
    stages_before: tuple[StageTime, ...] = ()
    """Of the load that failed; empty where logs told of it."""
    packages_changed: bool = False
    """The engine's packages are others than its warm process has imported: loads are cold."""
    then_done: bool = False
    """The report follows once the way back is gone."""
