"""Sizes of a step that contradict each other: vLLM refuses them before it looks at a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.flags import parse_version
from engine_probe.memory.limits import WhyNot, too_few_tokens

if TYPE_CHECKING:
    from engine_probe.memory.accounting import Asked
    from engine_probe.memory.accounting_rules import Rules
    from engine_probe.memory.accounting_values import Batch

_CHUNKS_ALWAYS_UNTIL = (0, 12)
"""Before, V1 read prompts of models that generate in chunks whatever was asked (engine/arg_utils.py, 0.8 to 0.11)."""
_CHUNKS_BY_ITSELF = 32768
"""V0 did so above this length (engine/arg_utils.py, 0.6.4 to 0.10)."""


def refused_batch(asked: Asked, rules: Rules, batch: Batch) -> WhyNot | None:
    """What config/scheduler.py says of the sizes as this release fills them in (verify_max_model_len)."""
    tokens, max_len = batch.tokens, asked.max_len
    if tokens < max_len and asked.values.tokens and not asked.values.fits_length and _in_one_piece(asked, rules):
        text = f"max-num-batched-tokens {tokens} is below max-model-len {max_len}, and prompts are not read in chunks"
        return WhyNot("batched-tokens-below-model-len", text)
    if tokens < batch.seqs:
        return too_few_tokens(tokens, batch.seqs, "" if asked.values.tokens else ", as this release sets it,")
    return None


def _in_one_piece(asked: Asked, rules: Rules) -> bool:
    """False where it is not known: a model that only embeds is left to vLLM."""
    chunks = asked.values.chunked_prefill
    if rules.engine == "V0":
        return chunks is False or (chunks is None and asked.max_len <= _CHUNKS_BY_ITSELF)
    release = parse_version(asked.version) if asked.version else None
    return chunks is False and (release is None or release[:2] >= _CHUNKS_ALWAYS_UNTIL)
