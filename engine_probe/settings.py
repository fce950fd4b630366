"""The settings file `config.yaml`: which engine to use, and what the managed engine is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from engine_probe.engine_file import EngineFile, engine_spec
from engine_probe.locations import find_locations
from engine_probe.strict_yaml import decode_text, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.launch import EngineSpec

FILE_NAME = "config.yaml"


@dataclass(frozen=True)
class ManagedSettings:
    """None: the console's own choice."""

    requirement: str | None = None
    """What pip installs instead of the pinned build: a requirement, or a wheel's path or URL."""
    index_url: str | None = None
    """A further package index, asked only when pip as configured does not find the CPU build of torch."""
    python: str | None = None
    """The Python that the engine's venv is made with."""


@dataclass(frozen=True)
class Settings:
    """`path` is where the file is, or would be."""

    path: Path
    engine: EngineSpec | None = None
    managed: ManagedSettings = ManagedSettings()


class _ManagedFile(msgspec.Struct, forbid_unknown_fields=True):
    requirement: str | None = None
    index_url: str | None = None
    python: str | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    engine: EngineFile | None = None
    managed: _ManagedFile | None = None


def read_settings() -> Settings:
    """The person's settings; all defaults when there is no file. Raises InputError with file and line."""
    path = find_locations().config / FILE_NAME
    if not path.exists():
        return Settings(path)
    text = read_text(path)
    if not any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
        return Settings(path)
    content, lines = decode_text(text, str(path), _File)
    return Settings(path, engine_spec(content.engine, ("engine",), lines), _managed(content.managed))


def _managed(managed: _ManagedFile | None) -> ManagedSettings:
    if managed is None:
        return ManagedSettings()
    return ManagedSettings(managed.requirement, managed.index_url, managed.python)
