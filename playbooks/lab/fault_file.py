"""The shape of a fault's file, decoded strictly. Meaning is checked in faults.py."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from playbooks.schema import Scalar, SymptomKind  # noqa: TC001 - msgspec reads them at run time

Call = dict[str, dict[str, Any] | None]
"""One name with its parameters."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """What is written and not known here is an error."""


class ModelPart(_Strict, frozen=True):
    """One model of the deployment. In the values of `args` and `env`, `{folder}` is the fault's folder."""

    name: str
    maker: str = "tiny-llama"
    shape: dict[str, Any] = {}
    """Parameters of the maker."""
    model: str | None = None
    """What the deployment says in place of the made folder, such as a path that is not there."""
    same_files_as: str | None = None
    """Serves the folder of that other model; nothing is made."""
    prepare: list[Call] = []
    """Ways to change the whole model too: what it is before anything is broken."""
    break_: list[Call] = msgspec.field(name="break", default_factory=list)
    """Done in this order (breakers.py)."""
    args: dict[str, Any] = {}
    env: dict[str, Scalar] = {}
    gpus: list[int] | None = None
    lora: dict[str, dict[str, Any]] = {}
    """By name: `maker`, `break`, and the parameters of the maker of adapters."""


class FaultFile(_Strict, frozen=True):
    """One fault, or one healthy twin of a fault."""

    fault: str
    cause: str
    """The playbook that must be diagnosed first; `healthy`: nothing may be."""
    title: str
    why: str
    models: list[ModelPart]
    start: Literal["sequential", "parallel"] = "sequential"
    surroundings: list[Call] = []
    symptom: SymptomKind | None = None
    """None: the playbook's."""
    fix: str | None = None
    """The fix that is tried, and must be verified; None: the playbook's, by priority."""
    cold: bool = False
    """Not to be forked from a process that has imported vLLM: it shows itself at import."""
    needs: list[str] = []
    """Of the host (needs.py)."""
    third: bool = False
    """Of the chosen third that `make test` runs."""
    hang_seconds: float | None = None
    """After so long without progress a load counts as hung; None: as everywhere."""
