"""The shape of a playbook file, decoded strictly: an unknown key is an error. Meaning is checked in check.py.

Reading order is the order of thought: what do I see, what could it be, how do I know, what do I change, did it
work, how do I go back.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from engine_probe.stage_names import Stage  # noqa: TC001 - msgspec reads it at run time

Scalar = bool | int | float | str
Family = Literal[
    "memory", "dependency", "format", "quantization", "lora", "distributed", "configuration", "environment"
]
Kind = Literal["resource", "configuration", "dependency", "compatibility"]
Layer = Literal["frontend", "engine", "worker", "model_runner", "outside"]
SymptomKind = Literal["does-not-start", "crashes-while-running", "answers-are-wrong"]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Common to all: what is written and not known here is an error; what is left out is not written either."""


class AppliesTo(_Strict, frozen=True):
    vllm: str = ""
    """Release range such as `>=0.2.7` or `>=0.8.5,<0.11`. Empty: all."""


class Wording(_Strict, frozen=True):
    """One text of the same illness. Named groups become facts with bare names.

    Everything but `log` narrows: the text counts only in these releases, at these stages, raised by these frames,
    beside that other message, and while none of `when` is known to be false.
    """

    id: str
    log: str
    also_capture: list[str] = []
    vllm: str = ""
    """Release range of this wording, as in `applies_to`."""
    stages: list[Stage] = []
    """Only where it is said while the load is in one of these stages."""
    frames: str | None = None
    """Only an exception with a frame like this: `vllm/v1/worker/gpu_worker.py:init_device`, a regular expression."""
    along_with: str | None = None
    """Only where another message of the same load matches this."""
    absent: str | None = None
    """Only where no message of the same load matches this."""
    when: list[str] = []
    """Conditions; one that is known to be false speaks against it, an unknown one lowers the confidence."""
    certainty: Literal["certain", "likely", "possible"] = "certain"
    """How surely this text means this illness, other illnesses with the same text in mind."""
    if_unknown: Literal["likely", "possible"] | None = None
    """The certainty while some of `when` is unknown, where those conditions decide; None: they only help."""
    quiet: bool = False
    """It is no error: also messages of level INFO are looked at, and loads that came up."""
    cover: bool = False
    """It is (part of) a message that only says that something else went wrong, and yet tells what."""
    at_end: bool = False
    """Only as one of the last messages of a load that neither failed nor served: it hangs there."""


class OtherIllness(_Strict, frozen=True):
    log: str
    see: str | None = None
    """The playbook of the other illness, when there is one."""


class Symptoms(_Strict, frozen=True):
    any: list[Wording]
    unless: list[OtherIllness] = []


class Match(_Strict, frozen=True):
    line: str
    facts: dict[str, Scalar]
    from_: str | None = msgspec.field(name="from", default=None)


class NoMatch(_Strict, frozen=True):
    line: str
    from_: str | None = msgspec.field(name="from", default=None)


class Samples(_Strict, frozen=True):
    match: list[Match]
    no_match: list[NoMatch]


class Experiment(_Strict, frozen=True):
    """Reads facts (`ask`), or does something named (`run`, with one change). All of `confirm`, any of `refute`."""

    cost: Literal["none", "seconds", "one full start"]
    refute: list[str]
    ask: list[str] = []
    run: str | None = None
    with_: dict[str, Scalar] = msgspec.field(name="with", default_factory=dict)
    confirm: list[str] = []


class HypothesisSpec(_Strict, frozen=True):
    id: str
    claim: str
    experiment: Experiment
    fixes: list[str] = []


class FixStep(_Strict, frozen=True):
    """One of several ordered changes: each has its own expectation."""

    set: dict[str, Scalar]
    launch: str | None = None
    expect: list[str] = []


class Fix(_Strict, frozen=True):
    """Sets exactly one variable, or has ordered steps that each do. `by_hand`: for what is not ours to do."""

    id: str
    why: str
    expect: list[str]
    you_lose: str
    risk: str
    set: dict[str, Scalar] = {}
    steps: list[FixStep] = []
    needs: list[str] = []
    only_if: list[str] = []
    """Conditions under which the fix can do anything at all; else it is greyed with the one that does not hold."""
    by_hand: str | None = None


class Check(_Strict, frozen=True):
    """Exactly one of `log`, `http`, `request`. `within`: `start`, or seconds such as `60s`."""

    id: str
    within: str
    log: str | None = None
    http: str | None = None
    request: str | None = None
    status: int = 200
    then: list[str] = []
    optional: bool = False


class Rollback(_Strict, frozen=True):
    automatic: str
    notes: str = ""


class Reference(_Strict, frozen=True):
    title: str
    url: str


class Tested(_Strict, frozen=True):
    """One run on a real engine, filled by machine."""

    vllm: str
    device: str
    date: str
    fix: str
    outcome: str


def standard_checks() -> list[Check]:
    """What any fix is proved by: the server is well, answers, and answers at the length that it promises."""
    return [
        Check(id="healthy", http="GET /health", within="60s"),
        Check(id="answers", request="one-short-completion", within="60s"),
        Check(id="answers-at-full-length", request="one-completion-near-max-model-len", within="300s"),
    ]


class Playbook(_Strict, frozen=True):
    playbook: str
    title: str
    summary: str
    family: Family
    kind: Kind
    symptom: SymptomKind
    layer: Layer
    stage: Stage
    """Where start-up stops."""
    symptoms: Symptoms
    samples: Samples
    hypotheses: list[HypothesisSpec]
    fixes: list[Fix]
    verify: list[Check] = msgspec.field(default_factory=standard_checks)
    """Left out: the standard ones."""
    rollback: Rollback = Rollback(automatic="the deployment file as it was before the fix")
    other_stages: list[Stage] = []
    """Where it may stop as well, by the release, the device or the model: then the log's own word counts."""
    other_layers: list[Layer] = []
    """The same for the layer at fault."""
    general: bool = False
    """It knows that vLLM refuses something, not why this is: it speaks only where no other playbook explains."""
    applies_to: AppliesTo = AppliesTo()
    references: list[Reference] = []
    tested: list[Tested] = []
