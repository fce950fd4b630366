"""`--files-from DIR`: where whole files of a model are, for fixes that restore a damaged one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine_probe.errors import InputError
from engine_probe.outside.keys import HUB, hub_place
from engine_probe.paths import is_there

if TYPE_CHECKING:
    from collections.abc import Callable

_HELP = "A folder with whole files of the model, to restore a damaged one from; again for more."


def files_from_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the option as `files_from`, a tuple."""
    option = click.option("--files-from", "files_from", metavar="DIR", multiple=True, help=_HELP)
    decorated: Callable[..., Any] = option(command)
    return decorated


def checked_sources(given: tuple[str, ...]) -> tuple[str, ...]:
    """In full, so that they mean the same from everywhere. Raises InputError for what is not there."""
    return tuple(map(_checked, given))


def _checked(source: str) -> str:
    if source.startswith(HUB):
        hub_place(source)
        return source
    if not source.strip():
        raise InputError("--files-from '': a folder, a file or hub:ORG/NAME is wanted")
    path = Path(source).expanduser().absolute()
    if not is_there(path):
        raise InputError(f"--files-from {source}: there is no such folder")
    return str(path)
