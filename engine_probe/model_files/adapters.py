"""A LoRA adapter's folder: its configuration, and its tensors against it (peft's adapter_config.json)."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.model_files.headers import NoHeaderError, read_header

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.model_files.headers import TensorPlace

_LORA_A = re.compile(r"\.(?P<module>[^.]+)\.lora_A(?:\.[^.]+)?\.weight$")
_LORA_B = re.compile(r"\.lora_B(?:\.[^.]+)?\.weight$")
_LORA_A_END = re.compile(r"\.lora_A(?:\.[^.]+)?\.weight$")
_WEIGHT = re.compile(r"\.weight$")
_MATRIX = 2
_PREFIX = re.compile(r"^base_model\.model\.")
_STEP_BYTES = 1 << 20
_LORA = ("lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_magnitude_vector")
_LARGEST_JSON_BYTES = 32 << 20


@dataclass(frozen=True)
class Adapter:
    """What it says of itself; None: not said. `modules`: of the tensors, as last parts of names."""

    rank: int | None
    base_model: str | None
    target_modules: tuple[str, ...]
    uses_dora: bool
    bias: str
    modules: frozenset[str] = frozenset()
    full_weights: int = 0
    """Tensors that are no LoRA factors: whole weights, as `modules_to_save` brings them."""
    trouble: str | None = None
    """Why its tensors could not be looked at."""


def read_adapter(folder: Path) -> Adapter:
    """Raises ValueError with a sentence where the folder holds no adapter."""
    path = folder / "adapter_config.json"
    if not path.is_file():
        raise ValueError(f"there is no adapter_config.json in {folder}")
    try:
        if path.stat().st_size > _LARGEST_JSON_BYTES:
            raise ValueError("it is too large for JSON")
        config = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds no JSON object")
    return _adapter(config, folder)


@dataclass(frozen=True)
class Doubt:
    """Why an adapter cannot do what it was trained for: `zero`, `names` (none is one of the model's) or `shapes`."""

    kind: str
    text: str


def doubt_about(folder: Path, base: Mapping[str, tuple[int, ...]]) -> Doubt | None:
    """Of an adapter beside the weights of its base, shapes by name; None: nothing speaks against it.

    What cannot be read tells nothing: vLLM refuses that by itself.
    """
    file = folder / "adapter_model.safetensors"
    try:
        header = read_header(file)
        outputs = {name: place for name, place in header.tensors.items() if _LORA_B.search(name)}
        if not outputs:
            return None
        with file.open("rb") as content:
            if all(_is_zero(content.fileno(), header.data_offset, place) for place in outputs.values()):
                return Doubt("zero", f"all of its {len(outputs)} B matrices are zero")
    except (NoHeaderError, OSError):
        return None
    inputs = {name: place.shape for name, place in header.tensors.items() if _LORA_A_END.search(name)}
    return _against(inputs, {name: place.shape for name, place in outputs.items()}, base)


def _against(
    inputs: Mapping[str, tuple[int, ...]], outputs: Mapping[str, tuple[int, ...]], base: Mapping[str, tuple[int, ...]]
) -> Doubt | None:
    """A (rank × inputs) and B (outputs × rank) against the base's matrices (outputs × inputs)."""
    wanted = {_place(_WEIGHT.sub("", name)): shape for name, shape in base.items() if len(shape) == _MATRIX}
    a = {_place(_LORA_A_END.sub("", name)): shape for name, shape in inputs.items()}
    b = {_place(_LORA_B.sub("", name)): shape for name, shape in outputs.items()}
    if wanted and not any(one in wanted for one in b):
        return Doubt("names", f"none of its {len(b)} modules is one of this model, such as {min(b)}")
    for module in (one for one in b if one in wanted and one in a):
        width, height = a[module][-1], b[module][0]
        rows, columns = wanted[module]
        if (height, width) != (rows, columns):
            text = f"{module} of it is made for {height:,} × {width:,}, and the model has {rows:,} × {columns:,}"
            return Doubt("shapes", text)
    return None


def _place(name: str) -> str:
    """A module's name from the layers on, without what wrappers put before: `layers.0.mlp.up_proj`."""
    name = _PREFIX.sub("", name)
    before, found, rest = name.rpartition("layers.")
    return found + rest if found else before + rest


def _is_zero(file: int, offset: int, place: TensorPlace) -> bool:
    for start in range(place.start, place.end, _STEP_BYTES):
        content = os.pread(file, min(_STEP_BYTES, place.end - start), offset + start)
        if content.strip(b"\0"):
            return False
    return True


def _adapter(config: Mapping[str, Any], folder: Path) -> Adapter:
    targets = config.get("target_modules")
    rank, base = config.get("r"), config.get("base_model_name_or_path")
    names, trouble = _tensor_names(folder / "adapter_model.safetensors")
    return Adapter(
        rank=rank if isinstance(rank, int) else None,
        base_model=base if isinstance(base, str) else None,
        target_modules=tuple(map(str, targets)) if isinstance(targets, list) else (targets,) if targets else (),
        uses_dora=bool(config.get("use_dora")),
        bias=str(config.get("bias", "none")),
        modules=frozenset(found["module"] for name in names if (found := _LORA_A.search(name))),
        full_weights=sum(1 for name in names if not any(part in name for part in _LORA)),
        trouble=trouble,
    )


def _tensor_names(file: Path) -> tuple[tuple[str, ...], str | None]:
    if not file.exists():
        return (), f"there is no {file.name}"
    try:
        header = read_header(file)
    except NoHeaderError as error:
        return (), f"{file.name} {error}"
    except OSError as error:
        return (), f"{file.name} cannot be read: {error.strerror or error}"
    cut = f"{file.name} is cut: {header.missing_bytes:,} bytes are missing" if header.missing_bytes else None
    return tuple(header.tensors), cut
