"""Where a file says what turned out to be of no use: an error of a launch gets its file, line and a near word."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.arg_values import canonical_name
from engine_probe.deployment import DeploymentFile
from engine_probe.errors import InputError, nearest_word
from engine_probe.strict_yaml import decode_file

if TYPE_CHECKING:
    from engine_probe.launch import Deployment, Launch
    from engine_probe.yaml_nodes import YamlPath

_MOST_NEIGHBOURS = 2000


def placed(error: InputError, deployment: Deployment, launch: Launch, source: Path) -> InputError:
    """`error.key` of this launch, where its file writes it; `source`: the file, of whatever kind."""
    if error.file is not None or error.key is None:
        return error
    near = error.nearest
    if error.key == "model" and near is None:
        near = nearest_folder(launch.model, source.parent)
    if deployment.path is None:  # no deployment file: a launch of it does not know its line
        return InputError(error.message, file=str(source), nearest=near)
    try:
        content, lines = decode_file(deployment.path, DeploymentFile)
        number = next(number for number, one in enumerate(content.models) if one.name == launch.name)
    except (InputError, StopIteration):  # it is no longer as it was read
        return InputError(error.message, file=str(source), nearest=near)
    return lines.error(error.message, _path(error.key, number, content.models[number].args or {}), nearest=near)


def _path(key: str, number: int, args: dict[str, object]) -> YamlPath:
    """As the file spells an argument: -tp, max_model_len."""
    where, _, name = key.partition(".")
    if where != "args":
        return ("models", number, *key.split(".", 1))
    word = next((word for word in args if canonical_name(word)[0] == name), None)
    return ("models", number) if word is None else ("models", number, "args", word)


def nearest_folder(written: str, folder: Path) -> str | None:
    """A path like `written`, with the first part of it that is not there put right; None: nothing is near."""
    path = folder / Path(written).expanduser()
    missing = path
    while not os.path.lexists(missing.parent) and missing.parent != missing:
        missing = missing.parent
    try:
        with os.scandir(missing.parent) as found:
            names = [one.name for one in itertools.islice(found, _MOST_NEIGHBOURS) if one.is_dir()]
    except OSError:
        return None
    near = nearest_word(missing.name, sorted(names))
    parts, behind = Path(written).parts, len(path.parts) - len(missing.parts)
    if near is None or behind >= len(parts):
        return None
    return str(Path(*parts[: len(parts) - behind - 1], near, *parts[len(parts) - behind :]))
