"""Facts about quantization and about the engine's release that follow from others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown, Value
from playbooks.computing import Computed, MissingInputError, known

if TYPE_CHECKING:
    from playbooks.conditions import Answer, Lookup

_OTHER_NAMES = {"half": "float16", "float": "float32", "bf16": "bfloat16"}
_NO_WORDS = ("", "auto", "None")


def _release_number(lookup: Lookup) -> tuple[float, str]:
    version = lookup("engine.vllm_version")
    if isinstance(version, Unknown):
        raise MissingInputError(f"vLLM's release is unknown: {version.reason}")
    found = re.match(r"v?(\d+)\.(\d+)", str(version.value)) if isinstance(version, Known) else None
    if found is None:
        raise MissingInputError("vLLM's release is not known")
    return int(found[1]) * 100 + int(found[2]), f"vLLM {found[1]}.{found[2]}"


def _text(lookup: Lookup, name: str) -> str | None:
    answer = lookup(name)
    value: Value | None = answer.value if isinstance(answer, Known) else None
    return None if value is None or str(value) in _NO_WORDS else str(value)


def _usual_name(dtype: str) -> str:
    name = dtype.removeprefix("torch.").lower()
    return _OTHER_NAMES.get(name, name)


def _dtype_that_works(lookup: Lookup) -> tuple[str, str]:
    """The checkpoint's own type where the method takes it, else the first that it takes."""
    supported = _text(lookup, "supported_dtypes")
    if supported is None:
        raise MissingInputError("the message does not say which types the method takes")
    words = re.findall(r"(?:torch\.)?(\w+)", supported)
    types = [name for name in map(_usual_name, words) if name in ("float16", "bfloat16", "float32")]
    if not types:
        raise MissingInputError(f"the message names no type that vLLM can compute in: {supported}")
    own = _text(lookup, "model.dtype") or ""
    if _usual_name(own) in types:
        return _usual_name(own), "the checkpoint's own type, which the method takes"
    return types[0], "the first type that the message names"


def _override_without_config(lookup: Lookup) -> Answer:
    """As --hf-overrides takes it."""
    method = lookup("model.quant_method")
    if not isinstance(method, Known):
        return Unknown("config.json describes no quantization")
    return Known('{"quantization_config": null}', "computed", f"config.json says {method.value}")


COMPUTED: tuple[Computed, ...] = (
    Computed(
        "engine.release_number",
        "vLLM's release as a number",
        "",
        "major x 100 + minor of vLLM's release, to compare with: 32 for 0.32.0",
        known(_release_number),
    ),
    Computed(
        "quantization.dtype_that_works",
        "type that the quantization takes",
        "",
        "the dtype to load this checkpoint with, of those that its quantization method takes",
        known(_dtype_that_works),
    ),
    Computed(
        "quantization.override_without_config",
        "override without the quantization",
        "",
        "--hf-overrides that takes the quantization_config of config.json away",
        _override_without_config,
    ),
)
