"""Where a launch's model lies here: its folder, or what the Hugging Face cache holds of a hub id. No network."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.paths import is_there
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from engine_probe.launch import Launch

_LONGEST_REF_BYTES = 200


def model_folder(launch: Launch) -> Path:
    """A folder, or a GGUF file. Raises InputError where the host has none of them."""
    path = Path(launch.model).expanduser()
    if is_there(path):
        return path
    looks_like_hub_id = launch.model.count("/") <= 1 and not launch.model.startswith((".", "/", "~"))
    if not looks_like_hub_id:
        raise InputError(f"{launch.name}: there is no model at {quoted(launch.model, 200)}", key="model")
    cached = _cached(launch)
    if cached is not None:
        return cached
    raise InputError(
        f"{launch.name}: {quoted(launch.model, 200)} is no folder here, and the Hugging Face cache does not hold it; "
        "a plan needs at least its config.json: name a folder that holds it",
        key="model",
    )


def _cached(launch: Launch) -> Path | None:
    """The snapshot that the revision names, else main's (huggingface_hub's layout of the cache)."""
    repository = _cache(launch) / f"models--{launch.model.replace('/', '--')}"
    revision = str(launch.arg("revision") or "main")
    if os.sep in revision and ".." in revision:
        return None
    commit = revision
    with suppress(OSError, ValueError):
        named = repository / "refs" / revision
        if named.is_file() and named.stat().st_size <= _LONGEST_REF_BYTES:
            commit = named.read_text(encoding="ascii").strip()
    folder = repository / "snapshots" / commit
    return folder if is_there(folder / "config.json") else None


def _cache(launch: Launch) -> Path:
    env = {**os.environ, **launch.env}
    download = launch.arg("download-dir")
    if isinstance(download, str):
        return Path(download).expanduser()
    if env.get("HF_HUB_CACHE"):
        return Path(env["HF_HUB_CACHE"]).expanduser()
    home = env.get("HF_HOME") or str(Path(env.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(home).expanduser() / "hub"
