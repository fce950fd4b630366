"""A LoRA adapter's folder: its configuration, and its tensors against it (peft's adapter_config.json)."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.model_files.headers import NoHeaderError, read_header

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from engine_probe.model_files.headers import TensorPlace

_LORA_A = re.compile(r"\.(?P<module>[^.]+)\.lora_A(?:\.[^.]+)?\.weight$")
_LORA_B = re.compile(r"\.lora_B(?:\.[^.]+)?\.weight$")
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


def without_effect(folder: Path, modules: Collection[str]) -> str | None:
    """Why an adapter cannot change an answer: its B matrices are zero, or none of its modules is one of `modules`.

    None: nothing speaks against it, or its tensors cannot be read.
    """
    file = folder / "adapter_model.safetensors"
    try:
        header = read_header(file)
        pairs = [(name, place) for name, place in header.tensors.items() if _LORA_B.search(name)]
        if not pairs:
            return None
        with file.open("rb") as content:
            if all(_is_zero(content.fileno(), header.data_offset, place) for _, place in pairs):
                return f"all of its {len(pairs)} B matrices are zero"
    except (NoHeaderError, OSError):
        return None
    wanted = {_PREFIX.sub("", _LORA_B.sub("", name)) for name, _ in pairs}
    if modules and not any(_last_parts(one) in {_last_parts(two) for two in modules} for one in wanted):
        return f"none of its {len(wanted)} modules is one of this model, such as {min(wanted)}"
    return None


def _last_parts(name: str) -> str:
    """From the layers on, without what a wrapper puts before: `layers.0.mlp.up_proj`."""
    before, found, rest = name.partition("layers.")
    return found + rest if found else before.rpartition(".")[2]


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
