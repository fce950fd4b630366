"""Facts from a model's folder: what its config.json declares and what the audit of its files finds."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from engine_probe.model_files.audit import audit
from engine_probe.model_files.finite import not_finite
from engine_probe.model_files.shapes import mismatches
from engine_probe.model_files.siblings import lacking
from playbooks.evidence_copies import copy_facts
from playbooks.facts_of_evidence import MODEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from engine_probe.facts import Fact, Value
    from engine_probe.model_files.audit import Audit, Kind, Trouble
    from engine_probe.model_files.whole import WholeRead

_DAMAGED: tuple[Kind, ...] = (
    "truncated",
    "empty",
    "lfs-pointer",
    "web-page",
    "not-json",
    "no-header",
    "unreadable",
    "wrong-size",
)
_QUANTIZATION_FILES = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")


def folder_facts(folder: Path, sources: Sequence[str] = ()) -> dict[str, Fact]:
    """`model.*` and `files.*`. `sources`: where whole files may be. Raises OSError where the folder cannot be read."""
    found = audit(folder)
    bad = tuple(not_finite(found.folder, found.headers))
    odd_files = tuple(dict.fromkeys(one.file for one in bad))
    return _config_facts(found) | _audit_facts(found, len(bad)) | copy_facts(found, sources, odd_files)


def whole_facts(folder: Path, read: WholeRead, facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """What reading every byte tells beside `facts`, those of the folder, whose own trouble comes first."""
    origin = f"{folder}, every byte read, {read.compared} files compared with their digests"
    found: dict[str, Fact] = {"files.read_share": Known(round(read.share, 3), "measured", origin)}
    trouble = facts.get("files.trouble")
    is_wrong = bool(read.wrong) or isinstance(facts.get("files.damaged_file"), Known)
    if is_wrong or read.why_not is None:
        found["files.bytes_are_right"] = Known(not is_wrong, "measured", origin)
    if read.wrong and isinstance(trouble, Known) and trouble.value == "none found":
        name, text = read.wrong[0]
        found["files.trouble"] = Known(f"{name} {text}", "measured", origin)
    if read.wrong and not isinstance(facts.get("files.damaged_file"), Known):
        found["files.damaged_file"] = Known(read.wrong[0][0], "measured", origin)
    return found


def _config_facts(found: Audit) -> dict[str, Fact]:
    origin = str(found.folder / "config.json")
    if found.config is None:
        return {row[0]: Unknown(f"{origin} is not there or holds no JSON object") for row in MODEL}
    config = _inner(found.config)
    quant = found.config.get("quantization_config")
    quant = quant if isinstance(quant, dict) else {}
    rope = config.get("rope_scaling") or config.get("rope_parameters")
    rope = rope if isinstance(rope, dict) else {}
    values: dict[str, object] = {
        "model.type": found.config.get("model_type"),
        "model.architectures": " ".join(map(str, found.config.get("architectures") or ())),
        "model.num_attention_heads": config.get("num_attention_heads"),
        "model.hidden_size": config.get("hidden_size"),
        "model.intermediate_size": config.get("intermediate_size"),
        "model.vocab_size": config.get("vocab_size"),
        "model.quant_method": quant.get("quant_method"),
        "model.quant_group_size": quant.get("group_size", quant.get("q_group_size")),
        "model.rope_type": rope.get("rope_type", rope.get("type")),
        "model.has_remote_code": bool(found.config.get("auto_map")),
        "model.transformers_version": found.config.get("transformers_version"),
    }
    return {
        name: Known(value, "declared", origin)
        if isinstance(value, (bool, int, float, str)) and value != ""
        else Unknown(f"{origin} does not say")
        for name, value in values.items()
    }


def _inner(config: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) and inner else config


def _audit_facts(found: Audit, bad: int) -> dict[str, Fact]:
    origin = str(found.folder)
    damaged, missing = found.of_kind(*_DAMAGED), found.of_kind("missing")
    odd = list(mismatches(found.config, found.headers)) if found.config is not None else []
    trouble = next(iter(found.troubles), None)
    told = _sentence(trouble) if trouble else odd[0].text if odd else ""
    values: dict[str, Value] = {
        "files.trouble": told or "none found",
        "files.missing_shards": len(missing),
        "files.lfs_pointers": len(found.of_kind("lfs-pointer")),
        "files.not_finite": bad,
        "files.has_tokenizer": found.has_tokenizer,
    }
    facts: dict[str, Fact] = {name: Known(value, "measured", origin) for name, value in values.items()}
    facts["files.damaged_file"] = (
        Known(damaged[0].file, "measured", origin) if damaged else Unknown("no file of the folder looks damaged")
    )
    facts["files.missing_tensors"] = _missing_tensors(found)
    facts["files.free_gib"] = _free_gib(found.folder)
    facts["files.tensor_types"] = _tensor_types(found)
    return facts


def _missing_tensors(found: Audit) -> Fact:
    """Tensors that one layer lacks and its neighbours have; that none shows so does not prove that none is missing."""
    lost = list(lacking(name for header in found.headers.values() for name in header.tensors))
    if not lost:
        return Unknown("the names show none, and the model's class was not asked")
    return Known(len(lost), "measured", f"{found.folder} lacks {lost[0]}")


def _free_gib(folder: Path) -> Fact:
    try:
        return Known(round(shutil.disk_usage(folder).free / 2**30, 2), "measured", str(folder))
    except OSError as error:
        return Unknown(f"{folder} cannot be asked: {error.strerror or error}")


def _tensor_types(found: Audit) -> Fact:
    """Unknown where another file than config.json describes a quantization, as ModelOpt and AutoGPTQ write it."""
    other = next((name for name in _QUANTIZATION_FILES if (found.folder / name).exists()), None)
    types = sorted({place.dtype for header in found.headers.values() for place in header.tensors.values()})
    if other is not None or not types:
        return Unknown(f"{other} describes them" if other else "no safetensors file could be read")
    return Known(" ".join(types), "measured", str(found.folder))


def _sentence(trouble: Trouble) -> str:
    return f"{trouble.file} {trouble.text}"
