"""The three folders that the console may write to: settings, kept state, and what can be made again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = "vllm-console"


class Locations(NamedTuple):
    """Folders that may not exist yet; `writable` makes one."""

    config: Path
    state: Path
    cache: Path


def find_locations(env: Mapping[str, str] | None = None) -> Locations:
    """The folders by the XDG base directory rules: a variable that is unset, empty or no absolute path is ignored."""
    variables = os.environ if env is None else env
    return Locations(
        config=_base(variables, "XDG_CONFIG_HOME", ".config") / FOLDER,
        state=_base(variables, "XDG_STATE_HOME", ".local/state") / FOLDER,
        cache=_base(variables, "XDG_CACHE_HOME", ".cache") / FOLDER,
    )


def writable(folder: Path) -> Path:
    """Make `folder` with its parents; raise InputError when it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(_unwritable(folder, error.strerror or str(error))) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(_unwritable(folder, "permission denied"))
    return folder


def _base(variables: Mapping[str, str], name: str, fallback: str) -> Path:
    value = variables.get(name, "")
    if value and Path(value).is_absolute():
        return Path(value)
    return _home(variables, name) / fallback


def _home(variables: Mapping[str, str], name: str) -> Path:
    if variables.get("HOME"):
        return Path(variables["HOME"])
    try:
        return Path.home()
    except RuntimeError as error:
        raise InputError(f"no home folder is known (HOME is not set): set {name} to a folder of yours") from error


def _unwritable(folder: Path, why: str) -> str:
    return (
        f"cannot write to {folder}: {why}. "
        "Set XDG_CONFIG_HOME, XDG_STATE_HOME or XDG_CACHE_HOME to a folder that you can write to"
    )
