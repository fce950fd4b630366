"""Words of others in a sentence of ours: how a message quotes what it is about."""

from __future__ import annotations

from engine_probe.escapes import safe_lines
from engine_probe.numbers import shortened
from engine_probe.redact import mask


def quoted(text: str, most: int = 80) -> str:
    """At most so many signs, without escapes. Secrets are masked before it is cut: half of one is not known as one."""
    return shortened(mask(safe_lines(text)), most)
