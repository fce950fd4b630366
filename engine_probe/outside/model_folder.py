"""The folder that holds the files of a launch's model: as it is named, or the hub's cache of a repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.engine import Engine
    from engine_probe.launch import Launch


def model_folder(launch: Launch, base: Path, engine: Engine | None) -> Path:
    """`base`: what the deployment's paths are relative to. Raises InputError where no file can be changed here."""
    if engine is not None and not engine.is_local:
        raise InputError(f"{engine.label} runs elsewhere: the files that it reads are not changed from here")
    folder = base / Path(launch.model).expanduser()
    if folder.is_dir():
        return folder.absolute()
    cached = cached_snapshot(launch, os.environ, base)
    if cached is None:
        raise InputError(f"{launch.model} is no folder of this host, nor in the hub's cache: nothing can be changed")
    return cached


def cached_snapshot(launch: Launch, environ: Mapping[str, str], base: Path = Path()) -> Path | None:
    """Where the hub's cache of this host has the revision that the launch names; None: it has not, or a folder counts.

    huggingface_hub, constants.py and file_download.py: refs/main holds the name of the folder in snapshots.
    """
    if launch.model.count("/") > 1 or launch.model.startswith((".", "~", "/")):
        return None
    if (base / launch.model).is_dir():
        return None
    repo = _cache(launch, {**environ, **launch.env}) / f"models--{launch.model.replace('/', '--')}"
    revision = str(launch.args.get("revision") or "main")
    try:
        name = (repo / "refs" / revision).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        name = revision
    folder = repo / "snapshots" / name
    return folder.absolute() if folder.is_dir() else None


def _cache(launch: Launch, env: Mapping[str, str]) -> Path:
    told = launch.args.get("download-dir") or env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE")
    if told:
        return Path(str(told)).expanduser()
    home = env.get("HF_HOME") or os.path.join(env.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")  # noqa: PTH118
    return Path(home).expanduser() / "hub"
