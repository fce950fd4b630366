"""Facts about folders near those of the launch: the model or adapter that was meant, a whole or a plain copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.errors import nearest_word
from engine_probe.facts import Known, Unknown
from playbooks.facts_of_evidence import NEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine_probe.facts import Fact
    from engine_probe.launch import Launch

_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size")
_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
_MOST_BESIDE = 2000
_ORIGIN = "the folders beside it"


def near_facts(launch: Launch, base: Path, folder: Path, sources: Sequence[str] = ()) -> dict[str, Fact]:
    """All of `NEAR`. `folder` is the model's; `sources` are folders that hold whole files, as a person gave them."""
    given = [Path(one).expanduser() for one in sources if not one.startswith("hub:")]
    facts: dict[str, Fact] = {"files.model_nearby": _model_nearby(folder), "files.plain_model_nearby": _plain(folder)}
    if not launch.lora:
        none = Unknown("the launch names no adapter")
        return facts | {row[0]: none for row in NEAR if row[0].startswith("adapter.")}
    name, place = _at_fault(launch, base)
    facts["adapter.name"] = Known(name, "declared", "the launch")
    facts["adapter.path"] = Known(str(place), "declared", "the launch")
    facts["adapter.whole_copy"] = _adapter_copy(place, given)
    facts["adapter.base_nearby"] = _base_nearby(place, folder)
    return facts


def _at_fault(launch: Launch, base: Path) -> tuple[str, Path]:
    """The first adapter that cannot be read, else the first."""
    places = {name: base / Path(path).expanduser() for name, path in launch.lora.items()}
    broken = (name for name, place in places.items() if not _is_whole_adapter(place))
    name = next(broken, next(iter(places)))
    return name, places[name]


def _model_nearby(folder: Path) -> Fact:
    if folder.is_dir():
        return Unknown("the folder that the launch names is there")
    return _nearest(folder, lambda one: (one / "config.json").is_file(), "model")


def _adapter_copy(place: Path, given: Sequence[Path]) -> Fact:
    for one in (*given, *(one / place.name for one in given)):
        if one.name == place.name and _is_whole_adapter(one) and not _is_same(one, place):
            return Known(str(one), "measured", "the folders that were given")
    if (place / "adapter_config.json").is_file():
        return Unknown("no folder was given that holds another copy of the adapter (--files-from DIR)")
    return _nearest(place, _is_whole_adapter, "adapter")


def _base_nearby(place: Path, folder: Path) -> Fact:
    from engine_probe.model_files.adapters import read_adapter  # noqa: PLC0415 -- most launches name no adapter

    try:
        wanted = read_adapter(place).base_model
    except ValueError as error:
        return Unknown(str(error))
    if not wanted:
        return Unknown(f"{place / 'adapter_config.json'} names no base model")
    name = wanted.rstrip("/").rpartition("/")[2]
    for one in (Path(wanted).expanduser(), folder.parent / name, place.parent / name):
        if one.is_absolute() and one != folder and (one / "config.json").is_file():
            return Known(str(one), "measured", _ORIGIN)
    return Unknown(f"{wanted}, the adapter's base, is not on this host")


def _plain(folder: Path) -> Fact:
    mine = _config(folder)
    if "quantization_config" not in mine:
        return Unknown("the model itself is not quantized, as far as its config.json says")
    wanted = {key: mine.get(key) for key in _SIZES}
    for one in _beside(folder):
        other = _config(one)
        is_like = bool(other) and {key: other.get(key) for key in _SIZES} == wanted
        if is_like and "quantization_config" not in other and any(one.glob("*.safetensors")):
            return Known(str(one), "measured", _ORIGIN)
    return Unknown("no unquantized model of these sizes lies beside it")


def _config(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _nearest(place: Path, is_one: Callable[[Path], bool], what: str) -> Fact:
    found = {one.name: one for one in _beside(place) if is_one(one)}
    near = nearest_word(place.name, tuple(found))
    if near is None:
        return Unknown(f"no {what} of a near name lies in {place.parent}")
    return Known(str(found[near]), "measured", _ORIGIN)


def _beside(place: Path) -> Iterator[Path]:
    try:
        found = sorted(one for one in place.parent.iterdir() if one != place)[:_MOST_BESIDE]
    except OSError:
        return
    yield from (one for one in found if one.is_dir())


def _is_same(one: Path, other: Path) -> bool:
    from engine_probe.outside.whole_copies import same_content  # noqa: PLC0415 -- as above

    return all(same_content(one / name, other / name) for name in _ADAPTER_FILES)


def _is_whole_adapter(place: Path) -> bool:
    from engine_probe.model_files.adapters import read_adapter  # noqa: PLC0415 -- as above

    try:
        return read_adapter(place).trouble is None
    except ValueError:
        return False
