"""The faults that the lab can make: one data file each, `faults/FAMILY/NAME.yaml`, found by name or by cause."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.strict_yaml import InputError, decode_file, nearest_word
from playbooks.lab.breakers import BREAKERS
from playbooks.lab.fault_file import FaultFile
from playbooks.lab.makers import ADAPTER_MAKERS, MODEL_MAKERS
from playbooks.lab.needs import NEEDS
from playbooks.lab.surroundings import SURROUNDINGS
from playbooks.library import library_files, library_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.strict_yaml import Lines
    from engine_probe.yaml_nodes import YamlPath
    from playbooks.lab.fault_file import ModelPart
    from playbooks.lab.registry import Step

HEALTHY = "healthy"
"""The cause of a twin: it looks like the fault and works."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True)
class Made:
    """A model or an adapter: `make` writes its folder, `prepares` change it, `breaks` spoil a copy."""

    name: str
    make: Step
    prepares: tuple[Step, ...]
    breaks: tuple[Step, ...]


@dataclass(frozen=True)
class MadeModel(Made):
    part: ModelPart
    adapters: tuple[Made, ...] = ()


@dataclass(frozen=True)
class Fault:
    """A checked fault. `models` are those that are made: one that serves another's files is not among them."""

    id: str
    family: str
    path: Path
    spec: FaultFile
    models: tuple[MadeModel, ...]
    surroundings: tuple[Step, ...]

    @property
    def cause(self) -> str:
        return self.spec.cause

    @property
    def title(self) -> str:
        return self.spec.title

    @property
    def is_healthy(self) -> bool:
        return self.spec.cause == HEALTHY

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(self.spec.needs)


def faults_folder() -> Path:
    """The faults that come with the console."""
    return Path(__file__).parent / "faults"


def families() -> tuple[str, ...]:
    return tuple(sorted(path.name for path in library_folder().iterdir() if path.is_dir()))


def fault_files(folder: Path | None = None) -> list[Path]:
    """In the order of family and name."""
    found = (folder or faults_folder()).glob("*/*.yaml")
    return sorted(found, key=lambda path: (path.parent.name, path.stem))


def faults(family: str | None = None) -> tuple[Fault, ...]:
    """All faults, or those of one family. Raises InputError for the first file that is wrong, or a family that is."""
    if family is not None and family not in families():
        raise InputError(f"there is no family {family!r}", allowed=families(), nearest=nearest_word(family, families()))
    paths = [path for path in fault_files() if family in (None, path.parent.name)]
    causes = _causes()
    return tuple(read_fault(path, causes) for path in paths)


def fault_named(name: str) -> Fault:
    """Raises InputError with the nearest name."""
    paths = {path.stem: path for path in fault_files()}
    if name not in paths:
        raise InputError(f"the lab has no fault {name!r}", allowed=tuple(paths), nearest=nearest_word(name, paths))
    return read_fault(paths[name], _causes())


def faults_of(cause: str) -> tuple[Fault, ...]:
    """The faults that show this cause, without reading the files of the others."""
    wanted = re.compile(rf"^cause:\s*{re.escape(cause)}\s*(#.*)?$", re.MULTILINE)
    paths = [path for path in fault_files() if wanted.search(path.read_text(encoding="utf-8"))]
    causes = _causes()
    return tuple(read_fault(path, causes) for path in paths)


def _causes() -> frozenset[str]:
    return frozenset(path.stem for path in library_files()) | {HEALTHY}


def read_fault(path: Path, causes: frozenset[str]) -> Fault:
    """One file; `causes` are those that it may name. Raises InputError with its line."""
    spec, lines = decode_file(path, FaultFile)
    if spec.fault != path.stem or not _NAME.fullmatch(spec.fault):
        raise lines.error(f"the name {spec.fault!r} must equal the file's name {path.stem!r}", ("fault",))
    if spec.cause not in causes:
        nearest = nearest_word(spec.cause, causes)
        raise lines.error(f"there is no playbook {spec.cause!r}", ("cause",), nearest=nearest)
    for number, need in enumerate(spec.needs):
        if need not in NEEDS:
            nearest = nearest_word(need, NEEDS)
            raise lines.error(f"there is no need {need!r}", ("needs", number), allowed=NEEDS, nearest=nearest)
    if not spec.models:
        raise lines.error("models: at least one is wanted", ("models",))
    names = [part.name for part in spec.models]
    models = []
    for number, part in enumerate(spec.models):
        at: YamlPath = ("models", number)
        if part.name in names[:number]:
            raise lines.error(f"the name {part.name!r} is taken already", (*at, "name"))
        if part.same_files_as is None:
            models.append(_model(part, lines, at))
        elif part.same_files_as not in names[:number]:
            message = f"there is no model {part.same_files_as!r} before this one"
            raise lines.error(message, (*at, "same_files_as"), allowed=tuple(names[:number]))
    steps = SURROUNDINGS.steps(_calls(spec.surroundings), lines, ("surroundings",))
    return Fault(spec.fault, path.parent.name, path, spec, tuple(models), steps)


def _model(part: ModelPart, lines: Lines, at: YamlPath) -> MadeModel:
    make = MODEL_MAKERS.step(part.maker, part.shape, lines, (*at, "shape" if part.shape else "maker"))
    prepares = BREAKERS.steps(_calls(part.prepare), lines, (*at, "prepare"))
    breaks = BREAKERS.steps(_calls(part.break_), lines, (*at, "break"))
    adapters = tuple(_adapter(name, given, lines, (*at, "lora", name)) for name, given in part.lora.items())
    return MadeModel(part.name, make, prepares, breaks, part, adapters)


def _adapter(name: str, given: Mapping[str, Any], lines: Lines, at: YamlPath) -> Made:
    own = {key: value for key, value in given.items() if key not in ("maker", "break", "path")}
    make = ADAPTER_MAKERS.step(str(given.get("maker", "adapter")), own, lines, at)
    calls = given.get("break") or []
    if not isinstance(calls, list) or not all(isinstance(one, dict) for one in calls):
        raise lines.error("break: a list of ways to break is wanted", (*at, "break"), allowed=BREAKERS.names)
    return Made(name, make, (), BREAKERS.steps(calls, lines, (*at, "break")))


def _calls(given: Sequence[Mapping[str, Mapping[str, Any] | None]]) -> list[dict[str, Any]]:
    return [{name: parameters or {} for name, parameters in one.items()} for one in given]
