"""The peak of temporary tensors in vLLM's profile run: forward pass or sampler, with workspaces and encoder cache.

Shapes read in v1/worker/gpu_model_runner.py (profile_run, _dummy_sampler_run) and layers/fused_moe, 0.11.2 to 0.19.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.memory.estimates import Estimate

if TYPE_CHECKING:
    from engine_probe.memory.accounting_rules import Rules
    from engine_probe.memory.accounting_values import Batch, Values
    from engine_probe.memory.model import ModelShape

_GIB = 2**30
_FORWARD_FIXED_GIB = 0.08
_ENCODER_SPREAD_GIB = 0.2
"""Images are profiled too; many or large ones take more than that (5 points with a vision tower: up to 0.13)."""
_IMAGE_GIB_OF_V0 = 0.3
"""One log: 36.6 GiB with 128 requests (Llama-3.2-11B-Vision)."""
_SMALL_SAMPLER_BYTES = 14.75
"""FlashInfer's, and the one in Triton: logits, their copy in float32, probabilities, random numbers."""
_SAMPLER_BYTES_OF_16_BIT_LOGITS = 2
_SMS = 132
"""Multiprocessors of an H100: the Triton sampler keeps a line of the vocabulary for each."""


@dataclass(frozen=True)
class Activation:
    """In GiB. `peak` is inside the budget; `sampler` is what the warm-up after the capture needs once more."""

    peak: Estimate
    sampler: Estimate
    stranded: Estimate
    """What torch keeps after the profile run in blocks that nothing fits into."""


@dataclass(frozen=True)
class Worker:
    """Which GPU it has, and whether it runs the first and the last pipeline stage."""

    family: str
    is_first: bool
    is_last: bool


def activation_of(values: Values, shape: ModelShape, rules: Rules, batch: Batch, worker: Worker) -> Activation:
    """The peak, and what of it comes back or stays."""
    width = 4 if (values.dtype or shape.dtype) in ("float32", "float") else 2
    workspace = 0.0 if _repacks_experts(shape, worker.family) else _workspace(values, shape, batch, width)
    hidden = batch.tokens * shape.hidden_size * width / _GIB
    encoder = hidden if shape.has_vision and worker.is_first else 0.0
    forward = _forward(values, shape, batch, width) + workspace + encoder
    sampler = _sampler(values, shape, rules, batch, width) if worker.is_last else _nothing()
    beside = (hidden if worker.is_last else 0.0) + workspace + encoder
    offset, spread = rules.activation_offset_gib, rules.activation_spread_gib
    images = _images_gib(shape, rules, batch) if worker.is_first else 0.0
    peak = Estimate(
        max(forward, sampler.value + beside) + offset,
        max(0.5 * forward, max(forward, sampler.low + beside) + offset - spread),
        max(forward, sampler.high + beside) + offset + spread + images,
        f"computed: profile run of {batch.tokens} tokens and {batch.seqs} requests ({rules.name})",
    )
    return Activation(peak, sampler, _stranded(values, shape, rules, batch, width, family=worker.family))


def _images_gib(shape: ModelShape, rules: Rules, batch: Batch) -> float:
    """At most: V1 profiles one batch of images, V0 one for every request (multimodal/profiling.py, 0.7.3)."""
    if not shape.has_vision:
        return 0.0
    return _IMAGE_GIB_OF_V0 * batch.seqs if rules.engine == "V0" else _ENCODER_SPREAD_GIB


def _forward(values: Values, shape: ModelShape, batch: Batch, width: int) -> float:
    """Input, output and the two halves of the widest matrix: 50 logs, median 0.02 GiB beside it."""
    inner = shape.intermediate_size / values.parallel.tp
    return batch.tokens * width * 3 * (inner + shape.hidden_size) / _GIB + _FORWARD_FIXED_GIB


def _sampler(values: Values, shape: ModelShape, rules: Rules, batch: Batch, width: int) -> Estimate:
    """Of the whole vocabulary on each rank: logits are gathered before sampling."""
    if shape.is_encoder_only:
        return _nothing()
    entries = min(batch.seqs, batch.tokens) * shape.vocab_size / _GIB
    wide = width - _SAMPLER_BYTES_OF_16_BIT_LOGITS
    size = rules.sampler_bytes
    if values.flashinfer_sampler and size.value > _SMALL_SAMPLER_BYTES:
        size = Estimate(_SMALL_SAMPLER_BYTES, 14.0, 16.0, "declared: VLLM_USE_FLASHINFER_SAMPLER")
    return Estimate(
        (size.value + wide) * entries, (size.low + wide) * entries, (size.high + wide) * entries, size.source
    )


def _workspace(values: Values, shape: ModelShape, batch: Batch, width: int) -> float:
    """Two buffers of the fused experts and their output (layers/fused_moe/modular_kernel.py)."""
    if not shape.experts or not shape.experts_per_token:
        return 0.0
    inner = shape.expert_intermediate_size / (1 if values.parallel.expert_parallel else values.parallel.tp)
    rows = batch.tokens * shape.experts_per_token
    routed = rows * (max(2 * inner, shape.hidden_size) + inner)
    return (routed + batch.tokens * shape.hidden_size) * width / _GIB


def _repacks_experts(shape: ModelShape, family: str) -> bool:
    """MXFP4 on Hopper runs Triton kernels that allocate by themselves, beside vLLM's workspace (oracle/mxfp4.py)."""
    return shape.quantization == "mxfp4" and bool(shape.experts) and family == "hopper"


def _stranded(values: Values, shape: ModelShape, rules: Rules, batch: Batch, width: int, *, family: str) -> Estimate:
    """Small tensors that stay are cut out of freed big blocks, which then cannot be given back nor taken for big ones.

    vLLM says so itself and splits no block from 0.25 on (v1/worker/gpu_worker.py, determine_available_memory, 0.25.1).
    Printed as the free memory before less that after the profile run, weights and non-torch memory.
    """
    entries = min(batch.seqs, batch.tokens) * shape.vocab_size / _GIB
    low, value, high = 0.0, rules.stranded_bytes * entries, rules.stranded_high_bytes * entries
    source = f"declared: {rules.evidence}"
    if rules.stranded_bytes and _repacks_experts(shape, family):
        inner = 2 * shape.expert_intermediate_size / values.parallel.tp
        gate_and_up = batch.tokens * shape.experts_per_token * inner * width / _GIB
        value = 8 * entries + gate_and_up + _SMS * shape.vocab_size * 4 / _GIB
        low, high = 0.9 * value, 1.1 * value
        source = "computed: logits twice, rows of the experts, lines of the sampler (2.01, 1.82 for 2.02, 1.83 printed)"
    return Estimate(value, low, high, source)


def _nothing() -> Estimate:
    return Estimate(0.0, 0.0, 0.0, "computed: no sampler on this rank")
