"""Builds a fault from a playbook's `reproduce`: a tiny model and a deployment file, broken on purpose."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.strict_yaml import InputError, nearest_word
from engine_probe.yaml_edit import rendered
from playbooks.lab.tiny_model import write_tiny_llama

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from playbooks.library import Loaded
    from playbooks.schema import Reproduce

MODEL_NAME = "tiny"


@dataclass(frozen=True)
class Fault:
    """A fault that the lab can make; `id` is also the cause that must be found."""

    id: str
    title: str
    reproduce: Reproduce

    @property
    def needs(self) -> str:
        return self.reproduce.needs or "cpu"


def faults(library: Sequence[Loaded]) -> tuple[Fault, ...]:
    """Every playbook that can be reproduced, in the order of the library."""
    return tuple(Fault(one.id, one.spec.title, one.spec.reproduce) for one in library if one.spec.reproduce is not None)


def fault_named(library: Sequence[Loaded], name: str) -> Fault:
    """Raises InputError with the nearest name."""
    known = faults(library)
    for fault in known:
        if fault.id == name:
            return fault
    names = tuple(fault.id for fault in known)
    raise InputError(f"the lab has no fault {name!r}", allowed=names, nearest=nearest_word(name, names))


def build_fault(fault: Fault, folder: Path) -> Path:
    """Write the model and deployment.yaml into `folder`; return the file's path.

    Raises InputError for a way of breaking that is not known.
    """
    if fault.reproduce.break_ is not None:
        raise InputError(f"{fault.id}: the lab does not know how to break by {fault.reproduce.break_!r}")
    folder.mkdir(parents=True, exist_ok=True)
    write_tiny_llama(folder / fault.reproduce.model)
    path = folder / "deployment.yaml"
    path.write_text(_deployment_text(fault), encoding="utf-8")
    return path


def _deployment_text(fault: Fault) -> str:
    why = textwrap.wrap(" ".join(fault.reproduce.why.split()), 100)
    lines = [f"# A fault made on purpose: {fault.id}", *(f"# {line}" for line in why)]
    lines += [
        "models:",
        f"  - name: {MODEL_NAME}",
        f"    model: ./{fault.reproduce.model}   # random weights, made by the lab",
    ]
    for key, values in (("args", fault.reproduce.launch), ("env", fault.reproduce.env)):
        if values:
            lines += [f"    {key}:", *(f"      {name}: {rendered(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"
