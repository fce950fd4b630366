"""What an action is, and the moment that decides which are offered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from playbooks.session import FixOption, Hypothesis, Session, Step

Place = Literal[
    "monitor", "start", "wizard", "report", "help", "logs", "diagnosis", "plan", "playbooks", "cases", "recorded"
]


@dataclass(frozen=True)
class MonitorMoment:
    """What is marked on the monitor, and what it offers."""

    is_alert: bool = False
    has_facts: bool = False
    has_log: bool = False
    can_end: bool = False
    shows_processes: bool = False
    is_filtered: bool = False
    is_paused: bool = False
    is_bare: bool = False


@dataclass(frozen=True)
class PlanMoment:
    """What the memory plan shows, and what it offers."""

    is_read: bool = False
    is_changed: bool = False
    """Something differs from the file."""
    can_step_back: bool = False
    can_undo: bool = False
    """Something was saved that can be taken back."""
    has_proposal: bool = False
    has_several: bool = False
    is_bare: bool = False


@dataclass(frozen=True)
class WizardMoment:
    """What the wizard offers beside what the case allows."""

    has_more_causes: bool = False
    """Some causes or claims are folded away, or would be."""
    has_more_fixes: bool = False
    """Some that are not possible are folded away, or would be."""
    shows_all: bool = False
    has_log: bool = True
    """There is a log of loads of its own to follow."""
    has_line: bool = False
    """What is marked has a line in a log that is there."""
    is_skipped: bool = False
    """The marked fix is left out."""
    can_draft: bool = False
    can_write_deployment: bool = False


@dataclass(frozen=True)
class ListMoment:
    """A list that is shown: of playbooks or of cases."""

    has_marked: bool = False
    is_filtered: bool = False
    can_resume: bool = False
    """The marked case was cut off, and can go on."""
    can_step: bool = False


@dataclass(frozen=True)
class Moment:
    """What a person looks at now; all that decides which actions are available."""

    place: Place
    session: Session | None = None
    shown: Step | None = None
    """Of the wizard."""
    hypothesis: Hypothesis | None = None
    fix: FixOption | None = None
    over: bool = False
    """The case has ended: nothing can be decided any more."""
    log_paused: bool = False
    memory_folded: bool = True
    filtering: bool = False
    """The next letter chooses what the log viewer shows."""
    has_search: bool = False
    has_several: bool = False
    """Several logs are shown, merged."""
    fold: Literal["open", "closed"] | None = None
    """The traceback that `enter` would close or open."""
    has_folds: bool = False
    has_models: bool = False
    """The log tells of more than one model."""
    is_bare: bool = False
    """Nothing but the text of a log is shown."""
    is_inner: bool = False
    """The log viewer lies over the screen that opened it."""

    can_jump: bool = False
    """A line of a log is marked in its diagnosis."""
    monitor: MonitorMoment = MonitorMoment()
    plan: PlanMoment = PlanMoment()
    wizard: WizardMoment = WizardMoment()
    list: ListMoment = ListMoment()


@dataclass(frozen=True)
class Action:
    """`key` as Textual names it, `shown_key` as a person reads it; `label` for the footer, `tooltip` a sentence."""

    id: str
    key: str
    shown_key: str
    label: str
    tooltip: str
    places: tuple[Place, ...]
    available: Callable[[Moment], bool] = lambda _moment: True
    in_footer: bool = True
    step: str = ""
    """The step in which the key means this, where it means something else in others; for the help."""
    group: Literal["", "filter", "move"] = ""
    """Under which heading the help has it, where a place has several."""
