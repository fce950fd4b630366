"""One troubleshooting session as frozen values: what every screen draws and every report prints.

`diagnose.step(session, event)` makes the next session; nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal

from playbooks.claims import Cause as Cause  # noqa: PLC0414, TC001 -- re-exported, as the three below
from playbooks.claims import Evidence as Evidence  # noqa: PLC0414, TC001
from playbooks.claims import Hypothesis as Hypothesis  # noqa: PLC0414
from playbooks.claims import Verdict as Verdict  # noqa: PLC0414
from playbooks.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.facts import Fact
    from engine_probe.launch import Deployment


class Step(str, Enum):
    """The four steps of the method, in order."""

    SYMPTOM = "symptom"
    HYPOTHESES = "hypotheses"
    FIX = "fix"
    VERIFY = "verify"


class Outcome(str, Enum):
    """Of a check in the verification."""

    PENDING = "pending"
    RUNNING = "running"
    PASS = "pass"  # noqa: S105 - an outcome, not a password
    FAIL = "fail"
    ABSTAIN = "abstain"


@dataclass(frozen=True)
class StageTime:
    """A load stage with its seconds so far. `state` repeats in a word what the strip's glyph says."""

    stage: str
    state: Literal["not reached", "running", "done", "failed"]
    seconds: float | None = None


@dataclass(frozen=True)
class Source:
    """A place where evidence was looked for: what was `found` there, or why it is `missing`."""

    name: str
    found: str = ""
    missing: str | None = None
    give: str = ""
    """How to give what is missing: an option or a key, in words."""


@dataclass(frozen=True)
class Symptom:
    """What is wrong, before anything is said about why."""

    kind: Literal["does-not-start", "crashes-while-running", "answers-are-wrong"]
    model: str
    stage: str | None
    layer: str | None
    headline: str
    """The root exception's line, or how the process ended."""
    evidence: tuple[Evidence, ...] = ()
    sources: tuple[Source, ...] = ()
    codes: tuple[str, ...] = ()
    """Exit code, errno, HTTP status, class of the exception: each in words, as `exit code 1`."""
    key_words: tuple[str, ...] = ()
    """What to look for elsewhere: vLLM's flags and the terms that the error names."""


@dataclass(frozen=True)
class FixStep:
    """One of the ordered changes of a fix: a revision of its own, with what it must show before the next."""

    launch: str
    key: str
    old_value: str | None
    new_value: str
    title: str
    diff: tuple[str, ...]
    """From the deployment after the step before."""
    expect: tuple[str, ...] = ()
    """Conditions; none: nothing is loaded between it and the next."""
    promises: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """As a FixOption's."""
    way_back: tuple[str, ...] = ()


@dataclass(frozen=True)
class FixOption:
    """A change of one variable, or of several in order, ready to apply, or greyed with the reason."""

    id: str
    launch: str | None
    key: str
    """Such as `args.max-model-len`."""
    old_value: str | None
    """None: not set before."""
    new_value: str
    title: str
    """One line: `max-model-len of tiny: 4,096 (the model's own, not set) → 1,408`."""
    diff: tuple[str, ...]
    """Unified difference of the deployment, without file headers."""
    why: str
    expect: tuple[str, ...]
    """Conditions, as the playbook writes them: `kv.tokens >= launch.max_model_len`."""
    you_lose: str
    risk: str
    unavailable: str | None = None
    by_hand: str | None = None
    outcome: Literal["not tried", "verified", "did not hold"] = "not tried"
    doubt: str = ""
    """The claim that it goes by, where that is inconclusive: its risk is not the playbook's `low` then."""
    undone: Literal["after it was verified", "before its verification ended"] | None = None
    """It was applied and taken back as asked: it can be applied again."""
    proposed: str | None = None
    """The playbook's value, where `new_value` is another that a person chose."""
    promises: tuple[str, ...] = ()
    """`expect` in words, with the values that the change would set: `KV cache tokens ≥ 1,408`."""
    steps: tuple[FixStep, ...] = ()
    """Where only several changes together help; `key` is then `steps`, and there is no one value."""
    commands: tuple[str, ...] = ()
    """Of a change outside the deployment file: exactly what will be done, as commands, secrets masked."""
    way_back: tuple[str, ...] = ()
    """The commands that take such a change back."""


@dataclass(frozen=True)
class Check:
    """One line of the verification: what was promised beside what was measured."""

    id: str
    title: str
    expected: str
    measured: str | None = None
    outcome: Outcome = Outcome.PENDING
    reason: str | None = None
    optional: bool = False
    may_abstain: bool = False
    """Where it cannot be decided the fix is verified all the same, and what was not decided is said."""
    conditions: tuple[str, ...] = ()
    """What decides, as the playbook writes it; empty where an answer or the load itself decides."""
    brief: str = ""
    """`expected` for a narrow screen, where that is shorter: `KV cache tokens ≥ 1,408`."""


@dataclass(frozen=True)
class Proof:
    """How a fix is proved beyond its playbook's own checks; see playbooks/proof.py."""

    concurrent: int = 8
    """Requests at once; 0: no load test."""
    burst_seconds: float = 10.0


@dataclass(frozen=True)
class Session:
    """Everything known in one case. `step` is how far the method has come, not what a screen shows."""

    case: str
    """Such as `2026-11-29-0007`."""
    deployment: Deployment
    model: str
    grade: str
    verify_grade: str
    step: Step = Step.SYMPTOM
    running: str | None = None
    """What is going on now, in words; None when the session waits for a decision."""
    stages: tuple[StageTime, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=dict)
    symptom: Symptom | None = None
    causes: tuple[Cause, ...] = ()
    fixes: tuple[FixOption, ...] = ()
    applied_fix: str | None = None
    revision: int = 0
    kept_file: str | None = None
    """The deployment file as it was before the applied fix; None while the file is as the person wrote it."""
    checks: tuple[Check, ...] = ()
    checked_fix: str | None = None
    """The fix that `checks` are of; it may be undone by now."""
    verdict: Literal["verified", "not verified", "unexplained", "healthy", "cannot run", "stopped"] | None = None
    """None while the session goes on."""
    report_path: str | None = None
    case_folder: str | None = None
    """Where the case keeps what evidence names, such as load-1.log; None when nothing is kept."""
    notes: tuple[str, ...] = ()
    log_sources: tuple[str, ...] = ()
    """The logs that this session began from, where it loaded nothing to see what is wrong."""
    no_loads: str | None = None
    """Why nothing can be loaded in this session; None where it can."""
    file_sources: tuple[str, ...] = ()
    """Folders that hold whole files of the models, as a person gave them (`--files-from DIR`)."""
    outside: tuple[str, ...] = ()
    """What the applied fix has changed outside the deployment file, and the commands that go back, a line each."""
    proof: Proof = Proof()
    unnoted_changes: bool = True
    """Also a change that cannot be noted in the case is made: a console that is killed would leave it unproved."""
    progress: Progress = field(default_factory=Progress)
    """What the state machine needs to go on; no screen draws it."""
