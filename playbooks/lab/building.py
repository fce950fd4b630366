"""Builds a fault in a folder: whole models and adapters, the broken copies beside them, a deployment file.

FOLDER/deployment.yaml      what is loaded
FOLDER/tiny, FOLDER/poet    its models and adapters, broken as the fault's file says
FOLDER/whole/tiny, …        the same before they were broken: where whole files can be had from
"""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import TYPE_CHECKING, Any

from engine_probe.yaml_edit import rendered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from playbooks.lab.fault_file import ModelPart
    from playbooks.lab.faults import Fault, Made

WHOLE = "whole"


def build_fault(fault: Fault, folder: Path, words: Mapping[str, str] | None = None) -> Path:
    """Write all into `folder`; return the deployment file's path. `words` are put in place of `{NAME}` in values."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in fault.models:
        shape = model.make.run(folder / WHOLE / model.name)
        _break(model, folder)
        for adapter in model.adapters:
            adapter.make.run(folder / WHOLE / adapter.name, shape)
            _break(adapter, folder)
    path = folder / "deployment.yaml"
    text = _deployment_text(fault, {"folder": str(folder), **(words or {})})
    path.write_text(text, encoding="utf-8")
    return path


def whole_sources(fault: Fault, folder: Path) -> tuple[str, ...]:
    """The folders with whole files of a fault that was built in `folder`."""
    names = [name for model in fault.models for name in (model.name, *(one.name for one in model.adapters))]
    return tuple(str(folder / WHOLE / name) for name in names)


def _break(made: Made, folder: Path) -> None:
    whole, broken = folder / WHOLE / made.name, folder / made.name
    for one in made.prepares:
        one.run(whole)
    shutil.copytree(whole, broken, copy_function=os.link)  # ways to break replace files, and never write into them
    for one in made.breaks:
        one.run(broken)


def _deployment_text(fault: Fault, words: Mapping[str, str]) -> str:
    why = textwrap.wrap(" ".join(fault.spec.why.split()), 100)
    lines = [f"# A fault made on purpose: {fault.id}", *(f"# {line}" for line in why)]
    if fault.spec.start != "sequential":
        lines.append(f"start: {fault.spec.start}")
    lines.append("models:")
    for part in fault.spec.models:
        lines += _model_lines(part, words)
    return "\n".join(lines) + "\n"


def _model_lines(part: ModelPart, words: Mapping[str, str]) -> Iterator[str]:
    yield f"  - name: {rendered(part.name)}"
    if part.model is not None:
        yield f"    model: {rendered(_filled(part.model, words))}"
    else:
        yield f"    model: ./{part.same_files_as or part.name}   # random weights, made by the lab"
    if part.gpus is not None:
        yield f"    gpus: {rendered(part.gpus)}"
    for key, values in (("args", part.args), ("env", part.env)):
        if values:
            yield f"    {key}:"
            for name, value in values.items():
                yield f"      {name}: {rendered(_filled(value, words))}"
    if part.lora:
        yield "    lora:"
        for name, given in part.lora.items():
            yield f"      {rendered(name)}: {rendered(given.get('path', f'./{name}'))}"


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """Only the words that there are: JSON in a value has braces of its own."""
    if isinstance(value, list):
        return [_filled(one, words) for one in value]
    if isinstance(value, str):
        for name, word in words.items():
            value = value.replace(f"{{{name}}}", word)
    return value
