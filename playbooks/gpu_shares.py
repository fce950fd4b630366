"""Which share of a card's total memory an engine asks for: as its command says, else its release's default."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_FLAG = "gpu-memory-utilization"
_OTHER_WAYS = ("config", "kv-cache-memory-bytes")
"""A file that may set the share; the KV cache in bytes, with which the share says little (0.10.2 on)."""


def default_share(version: str | None) -> float | None:
    """vllm/config/cache.py: 0.9, from 0.20 on 0.92. None where the release is not known."""
    parts = tuple(int(part) for part in (version or "").split(".")[:2] if part.isdigit())
    if not parts:
        return None
    return 0.92 if parts >= (0, 20) else 0.9


def share_of(argv: Sequence[str], version: str | None) -> float | None:
    """Between 0 and 1; None where the command does not tell."""
    share = default_share(version)
    for place, one in enumerate(argv):
        if not one.startswith("--"):
            continue
        name, has_value, value = one[2:].partition("=")
        name = name.replace("_", "-")
        if name in _OTHER_WAYS:
            return None
        if name == _FLAG:
            share = _fraction(value if has_value else "".join(argv[place + 1 : place + 2]))
    return share


def _fraction(value: str) -> float | None:
    try:
        share = float(value)
    except ValueError:
        return None
    return share if 0 < share <= 1 else None
