"""One file from the hub, fetched by the engine's own huggingface_hub: its settings, its token, its mirror."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.outside.engine_script import WATCH
from engine_probe.outside.keys import hub_place
from engine_probe.outside.running import run_words
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.engine import Engine
    from engine_probe.outside.work import Work

_MIB = 2**20
# huggingface_hub keeps what is half fetched under .cache of the folder.
_CODE = (
    WATCH
    + """
import sys
from huggingface_hub import hf_hub_download
repo, name, revision, folder = sys.argv[1:]
print(hf_hub_download(repo_id=repo, filename=name, revision=revision or None, local_dir=folder))
"""
)
_OFFLINE = ("offline", "connection", "resolve", "couldn't connect", "max retries", "localentrynotfound", "timed out")


def fetch(engine: Engine, source: str, name: str, folder: Path, env: Mapping[str, str], work: Work) -> Path:
    """The file in `folder`. `env`: the launch's, which may name a mirror. Raises InputError."""
    place = hub_place(source)
    if not engine.is_local:
        raise InputError(f"{engine.label} runs elsewhere: what it fetches from the hub is not on this host")
    if env.get("HF_HUB_OFFLINE", os.environ.get("HF_HUB_OFFLINE", "0")).lower() in ("1", "true", "yes", "on"):
        raise InputError(f"{name} of {place.repo} cannot be fetched: HF_HUB_OFFLINE is set, the hub is not to be asked")
    words = engine.argv("-c", _CODE, place.repo, name, place.revision or "", str(folder))
    quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

    def told() -> str:
        return f"fetching {name} of {place.repo}: {_bytes_in(folder) / _MIB:,.0f} MiB"

    ended = run_words(words, told, work, {**os.environ, **env, **quiet})
    found = folder / name
    if ended.exit_code != 0 or not found.is_file():
        raise InputError(f"{name} of {place.repo} cannot be fetched: {_reason(ended.text)}")
    return found


def _bytes_in(folder: Path) -> int:
    return sum(one.lstat().st_size for one in folder.rglob("*") if one.is_file())


def _reason(text: str) -> str:
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "huggingface_hub said nothing")
    is_offline = any(word in text.lower() for word in _OFFLINE)
    return ("the hub cannot be reached: " if is_offline else "") + quoted(last.strip(), 300)
