"""The tensors that the model's class wants, from config.json and the engine's transformers, against those in the files.

The class is built without memory (on torch's meta device) and nothing is loaded; of the files only the headers are
read, and a sample of each tensor's numbers.
"""

from __future__ import annotations

import json
import os
import re
import struct
from typing import Any, NamedTuple

from engine_probe.examine.scripts.side import Side, last_line

_LONGEST_HEADER_BYTES = 256 << 20
_SAMPLE_BYTES = 4 << 10
_EXPERT = re.compile(r"\.experts\..*")
_NEVER_SAVED = re.compile(r"rotary_emb\.inv_freq$|position_ids$|masked_bias$|attn\.bias$")
_DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
_FEW = 0.5
"""Where more of the names do not match, the files follow another convention than the class: nothing can be compared."""

Header = dict[str, dict[str, Any]]
Shape = tuple[int, ...]


def read_headers(folder: str) -> dict[str, tuple[Header, int]]:
    """By file: its tensors, and where their bytes begin. Raises ValueError with a sentence."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            try:
                found[name] = _header(os.path.join(folder, name))
            except (ValueError, OSError, struct.error) as error:
                raise ValueError(f"{name} has no header that can be read: {error}") from error
    if not found:
        raise ValueError("there is no safetensors file")
    return found


def _header(path: str) -> tuple[Header, int]:
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > _LONGEST_HEADER_BYTES:
            raise ValueError("it does not begin with the length of a header")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return header, 8 + length


class Wanted(NamedTuple):
    """`shapes` by name of what must be in the files; `optional` may be there: it is tied to another tensor."""

    class_name: str
    shapes: dict[str, Shape]
    optional: set[str]


def wanted(folder: str, overrides: dict[str, Any]) -> Wanted:
    """Of the class that config.json names. Raises ValueError where it is not to be had."""
    import torch
    import transformers

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        content = {**json.load(file), **overrides}
    content.pop("quantization_config", None)  # what is packed is compared by the names of its modules
    kind = str(content.get("model_type", ""))
    names = content.get("architectures") or []
    model_class = next((one for one in (getattr(transformers, str(name), None) for name in names) if one), None)
    if model_class is None:
        raise ValueError(f"transformers {transformers.__version__} has no class {' '.join(map(str, names)) or kind}")
    config = transformers.AutoConfig.for_model(**{**content, "model_type": kind})
    with torch.device("meta"):
        model = model_class(config)
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    inner = config.get_text_config() if hasattr(config, "get_text_config") else config
    skipped = tied if getattr(inner, "tie_word_embeddings", False) else set()
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items() if not _NEVER_SAVED.search(name)}
    needed = {name: shape for name, shape in shapes.items() if name not in skipped}
    return Wanted(model_class.__name__, needed, skipped)


def compare(model: Wanted, there: dict[str, Shape], is_packed: bool) -> tuple[list[str], list[str], list[str]]:
    """Missing, unknown, and of another shape. Of packed checkpoints only modules can be compared.

    Experts may be saved one by one and be one tensor in the class.
    """

    def module(name: str) -> str:
        return _EXPERT.sub(".experts", name.rpartition(".")[0] if is_packed or ".experts." in name else name)

    held = {module(name) for name in there}
    known = {module(name) for name in (*model.shapes, *model.optional)}
    shapes = model.shapes
    missing = [name for name in shapes if module(name) not in held]
    unknown = [name for name in there if module(name) not in known and not _NEVER_SAVED.search(name)]
    odd = [] if is_packed else [name for name in shapes if name in there and there[name] != shapes[name]]
    return missing, unknown, odd


def not_finite(folder: str, headers: dict[str, tuple[Header, int]]) -> list[str]:
    """Tensors of whose sample (at the start, in the middle, at the end) a value is NaN or infinity."""
    import torch

    bad = []
    for name, (header, offset) in headers.items():
        with open(os.path.join(folder, name), "rb") as file:
            for tensor, place in header.items():
                kind = _DTYPES.get(place["dtype"])
                start, end = place["data_offsets"]
                if kind is None or end <= start:
                    continue
                for at in {0, (end - start) // 2 // 8 * 8, max(0, end - start - _SAMPLE_BYTES) // 8 * 8}:
                    size = min(_SAMPLE_BYTES, end - start - at)
                    content = os.pread(file.fileno(), size // 8 * 8 or size, offset + start + at)
                    values = torch.frombuffer(bytearray(content), dtype=getattr(torch, kind)) if content else None
                    if values is not None and not bool(torch.isfinite(values).all()):
                        bad.append(tensor)
                        break
    return bad


def examine(folder: str, overrides: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str], str | None, str]:
    """Facts, reasons, why nothing can be said of the names, and where it comes from."""
    headers = read_headers(folder)
    bad = not_finite(folder, headers)
    facts: dict[str, Any] = {"files.not_finite": len(bad)}
    there = {name: tuple(place["shape"]) for header, _ in headers.values() for name, place in header.items()}
    names = ("files.missing_tensors", "files.unknown_tensors", "files.other_shapes")
    try:
        model = wanted(folder, overrides)
    except Exception as error:  # whatever transformers makes of a config that others wrote
        why = f"the model's class cannot be built: {last_line(str(error))}"
        return facts, dict.fromkeys(names, why), why, folder
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        is_packed = bool(json.load(file).get("quantization_config"))
    missing, unknown, odd = compare(model, there, is_packed)
    if len(missing) > _FEW * len(model.shapes):
        why = f"the files name their tensors in another way than {model.class_name}: {next(iter(there), 'none')}"
        return facts, dict.fromkeys(names, why), why, folder
    facts |= {"files.missing_tensors": len(missing), "files.unknown_tensors": len(unknown)}
    facts["files.other_shapes"] = len(odd)
    told = [f"{what} {found[0]}" for what, found in
            (("lacks", missing), ("has besides", unknown), ("has in another shape", odd), ("has no numbers in", bad))
            if found]  # fmt: skip
    origin = f"{model.class_name} of transformers beside {folder}" + (f", which {'; '.join(told)}" if told else "")
    return facts, {}, None, origin


def main() -> None:
    side = Side()
    folder = str(side.given.get("model") or "")
    if not os.path.isdir(folder):
        side.answer({}, why_not=f"there is no folder {folder} on the engine's side")
        return
    try:
        facts, unknown, why_not, origin = examine(folder, dict(side.given.get("overrides") or {}))
    except (ValueError, OSError) as error:
        side.answer({}, why_not=str(error))
        return
    side.answer(facts, unknown, why_not, origin)


if __name__ == "__main__":
    main()
