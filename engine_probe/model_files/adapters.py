"""A LoRA adapter's folder: its configuration, and its tensors against it (peft's adapter_config.json)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.model_files.headers import NoHeaderError, read_header

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LORA_A = re.compile(r"\.(?P<module>[^.]+)\.lora_A(?:\.[^.]+)?\.weight$")
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
