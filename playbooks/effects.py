"""What a session wants done, and what came of it. The state machine only says so; the driver does it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.facts import Fact
    from engine_probe.launch import Deployment, Launch
    from engine_probe.model_files.adapters import Doubt
    from engine_probe.requests import Request
    from playbooks.diagnosis import Diagnosis
    from playbooks.session import Source


@dataclass(frozen=True)
class Load:
    """Load `launch` with `grade` (dry, warm, cold). `watches_gpus`: what others do there meanwhile is a fact."""

    launch: Launch
    grade: str
    watches_gpus: bool = False


@dataclass(frozen=True)
class SendRequest:
    """Send to a model that is ready."""

    model: str
    request: Request


@dataclass(frozen=True)
class StopLoad:
    """End a load. With a `reason` its end counts as a failure."""

    model: str
    reason: str | None = None


@dataclass(frozen=True)
class WriteRevision:
    """Set one key of one launch in the deployment's file."""

    before: Deployment
    launch: str
    key: str
    value: str


@dataclass(frozen=True)
class UndoRevision:
    """Put the deployment's file back as it was before the fix that is under way: all revisions that it has written."""

    before: Deployment


@dataclass(frozen=True)
class Diagnose:
    """Find the root causes of a load that has ended, or that serves, in its own log and what is known beside it."""

    load_number: int
    launch: Launch
    deployment: Deployment
    facts: Mapping[str, Fact]
    file_sources: tuple[str, ...] = ()
    """Where whole files of the model may be."""


@dataclass(frozen=True)
class DiagnoseLogs:
    """Find the root causes in logs of before. `deployment` None: what was launched is what the log prints."""

    sources: tuple[str, ...]
    deployment: Deployment | None
    facts: Mapping[str, Fact]


@dataclass(frozen=True)
class LookAtFiles:
    """Look at the files of a model that serves, before its answers are judged."""

    launch: Launch
    deployment: Deployment


@dataclass(frozen=True)
class Examine:
    """Do a named experiment of kind `examine`; the session goes on, and `Examined` comes when it is over."""

    name: str
    launch: Launch
    deployment: Deployment
    facts: Mapping[str, Fact]


@dataclass(frozen=True)
class StopExamine:
    """End the examination under way: `Examined` comes at once, and says so."""


@dataclass(frozen=True)
class WriteReport:
    """Write the case's report."""


Effect = (
    Load
    | SendRequest
    | StopLoad
    | Diagnose
    | DiagnoseLogs
    | WriteRevision
    | UndoRevision
    | LookAtFiles
    | Examine
    | StopExamine
    | WriteReport
)


@dataclass(frozen=True)
class RevisionWritten:
    """The file has the change; `deployment` is what it says now. `number` 0: there is no file, only the value.

    `kept` is the file with the content before. A change outside the deployment file leaves `deployment` as it is:
    `outside` says what is changed and how to go back, `facts` what is measured anew.
    """

    number: int
    deployment: Deployment
    kept: str | None = None
    outside: tuple[str, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class RevisionUndone:
    """The file is as it was."""

    deployment: Deployment


@dataclass(frozen=True)
class Diagnosed:
    """What playbooks/diagnosis.py says of the load's log."""

    model: str
    diagnosis: Diagnosis


@dataclass(frozen=True)
class LogsDiagnosed:
    """What the logs tell. `deployment`: the one given, else one made of the launch that the log printed."""

    diagnosis: Diagnosis
    deployment: Deployment
    files: tuple[Source, ...]
    """Each log: how long it is, or why it could not be read."""
    is_launch_printed: bool
    launch_words: str = ""
    """Which lines that launch was read from, and what they cannot tell."""


@dataclass(frozen=True)
class FilesSeen:
    """What a look at a model's files tells about its answers. `why_not`: nothing could be looked at, and why."""

    model: str
    why_not: str | None = None
    tensors: int = 0
    missing: tuple[str, ...] = ()
    """The first names that the model's class wants and no file has."""
    missing_count: int = 0
    unknown_class: str | None = None
    """Why it cannot be said that no tensor is missing."""
    not_finite: tuple[str, ...] = ()
    """The first tensors of whose sample some values are no numbers."""
    not_finite_count: int = 0
    adapters: Mapping[str, Doubt] = field(default_factory=dict)
    """Adapters that cannot do what they were trained for, and why."""
    template: str | None = None
    """The chat template: `given`, `none`, or `lost` (none, though the tokenizer has the marks of a chat)."""
    pools: bool = False
    """It gives embeddings, scores or classes instead of text."""


@dataclass(frozen=True)
class Examined:
    """What an experiment measured. `why_not`: it could not be done, or not to its end."""

    name: str
    facts: Mapping[str, Fact]
    why_not: str | None = None


@dataclass(frozen=True)
class ReportWritten:
    path: str


@dataclass(frozen=True)
class EffectFailed:
    """An effect could not be done; `text` is the error for a person."""

    effect: Effect
    text: str
    was_stopped: bool = False
    """A person stopped it, which says nothing about whether it can be done."""


@dataclass(frozen=True)
class AppliedDiffers:
    """What the fix has changed is not what was verified: somebody else changed it meanwhile. In words."""

    text: str


Done = (
    RevisionWritten
    | RevisionUndone
    | Diagnosed
    | LogsDiagnosed
    | FilesSeen
    | Examined
    | ReportWritten
    | EffectFailed
    | AppliedDiffers
)
