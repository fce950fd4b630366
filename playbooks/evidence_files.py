"""Facts from the model's and the adapters' folders, where these lie on this host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from playbooks.evidence_near import near_facts
from playbooks.facts_of_evidence import FILES, MODEL
from playbooks.model_config import model_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.facts import Fact, Value
    from engine_probe.launch import Launch

_NAMES = tuple(row[0] for row in (*MODEL, *FILES))


def file_facts(
    launch: Launch, base: Path, model_dir: Path | None = None, sources: Sequence[str] = ()
) -> dict[str, Fact]:
    """All of `model.*`, `files.*` and `adapter.*`; unknown with the reason where there is no folder to look at.

    `model_dir` stands for the launch's model, which may be a hub id or a path of another host.
    `sources`: where whole files of the model may be.
    """
    folder = model_dir or base / Path(launch.model).expanduser()
    facts: dict[str, Fact] = dict(model_facts(str(folder)))
    facts |= _adapter_facts(launch, base) | near_facts(launch, base, folder, sources)
    if not folder.is_dir():
        reason = Unknown(f"there is no folder {folder} on this host")
        return dict.fromkeys((name for name in _NAMES if not name.startswith("adapter.")), reason) | facts
    from playbooks.evidence_folder import folder_facts  # noqa: PLC0415 - it reads files of many kinds

    try:
        return facts | folder_facts(folder, sources)
    except OSError as error:
        return dict.fromkeys(_NAMES, Unknown(f"{folder} cannot be read: {error.strerror or error}")) | facts


def _adapter_facts(launch: Launch, base: Path) -> dict[str, Fact]:
    """Of the first adapter that the launch names and that lies here."""
    names = [row[0] for row in FILES if row[0].startswith("adapter.")]
    if not launch.lora:
        return dict.fromkeys(names, Unknown("the launch names no adapter"))
    from engine_probe.model_files.adapters import read_adapter  # noqa: PLC0415 - most launches have none

    name, path = next(iter(launch.lora.items()))
    folder = base / Path(path).expanduser()
    try:
        adapter = read_adapter(folder)
    except ValueError as error:
        there = {"adapter.path_exists": Known(value=False, source="measured", origin=str(folder))}
        return dict.fromkeys(names, Unknown(str(error))) | there
    origin = f"adapter {name}, {folder}"
    values: dict[str, Value | None] = {
        "adapter.rank": adapter.rank,
        "adapter.base_model": adapter.base_model,
        "adapter.target_modules": " ".join(adapter.target_modules) or None,
        "adapter.uses_dora": adapter.uses_dora,
        "adapter.bias": adapter.bias,
        "adapter.path_exists": True,
    }
    return {
        name: Known(value, "declared", origin) if value is not None else Unknown(f"{origin} does not say")
        for name, value in values.items()
    }
