"""A plain model's linear layers as GPTQ packs them, with random bits: it loads, and the kernels decide the rest."""

from __future__ import annotations

import json
import random
import re
from array import array
from typing import TYPE_CHECKING

from playbooks.lab.safetensors_file import Tensor, read_tensors, write_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LINEAR = re.compile(r"model\.layers\.\d+\.(?:self_attn|mlp)\.\w+_proj\.weight$")
_BITS, _PACKED = 4, 8
_HALF_OF_A_TENTH = b"\x66\x2a"  # 0.05 in float16


def quantize_gptq(folder: Path, group_size: int) -> None:
    """4 bits, eight values in each int32, a scale for each group of inputs."""
    path = folder / "model.safetensors"
    dice = random.Random(5)  # noqa: S311 - not a secret
    tensors: dict[str, Tensor] = {}
    for name, one in read_tensors(path).items():
        tensors |= dict(_packed(name, one, group_size, dice)) if _LINEAR.match(name) else {name: one}
    write_tensors(path, tensors)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    quantization = {"quant_method": "gptq", "bits": _BITS, "group_size": group_size, "desc_act": False, "sym": True}
    (folder / "config.json").unlink()
    content = config | {"quantization_config": quantization, "torch_dtype": "float16"}
    (folder / "config.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _packed(name: str, one: Tensor, group_size: int, dice: random.Random) -> Iterator[tuple[str, Tensor]]:
    outputs, inputs = one.shape
    groups = inputs // group_size
    stem = name.removesuffix("weight")
    yield stem + "qweight", Tensor("I32", (inputs // _PACKED, outputs), dice.randbytes(4 * inputs // _PACKED * outputs))
    yield stem + "qzeros", Tensor("I32", (groups, outputs // _PACKED), b"\x77" * (4 * groups * outputs // _PACKED))
    yield stem + "scales", Tensor("F16", (groups, outputs), _HALF_OF_A_TENTH * (groups * outputs))
    yield stem + "g_idx", Tensor("I32", (inputs,), array("i", (n // group_size for n in range(inputs))).tobytes())
