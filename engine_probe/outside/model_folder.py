"""The folder that holds the files of a launch's model, where this host can change them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from engine_probe.engine import Engine
    from engine_probe.launch import Launch


def model_folder(launch: Launch, base: Path, engine: Engine | None) -> Path:
    """`base`: what the deployment's paths are relative to. Raises InputError."""
    if engine is not None and not engine.is_local:
        raise InputError(f"{engine.label} runs elsewhere: the files that it reads are not changed from here")
    folder = base / Path(launch.model).expanduser()
    if not folder.is_dir():
        raise InputError(f"{launch.model} is no folder of this host: its files cannot be changed here")
    return folder.absolute()
