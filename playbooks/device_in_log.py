"""The kind of device that a log is of, where the log leaves no doubt: `cuda`, `cpu`, or what vLLM calls others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.facts import Known

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine_probe.logs.records import Record

_TOLD = re.compile(
    r"\bdevice_config=(?:DeviceConfig\(\w+='?)?(?P<config>[a-z]{2,8})\b|etected platform (?P<platform>[a-z]{2,8})\b"
)
"""v1/engine/core.py and platforms/__init__.py, 0.6.4 on."""
_OF_CUDA = ("CUDA out of memory", "CUDA error", "device cuda:", "Current platform cuda")
_OF_CPU = ("VLLM_CPU_KVCACHE_SPACE", "CPU KV cache size")


def device_printed(records: Iterable[Record], file: str) -> Known | None:
    """None: nothing tells it. What vLLM says itself counts before what its messages give away."""
    given_away = None
    for record in records:
        origin = f"{file}:{record.first_line}"
        for text in _texts(record):
            if found := _TOLD.search(text) if "device_config" in text or "platform" in text else None:
                return Known(found["config"] or found["platform"], "parsed", origin)
            device = "cpu" if any(map(text.__contains__, _OF_CPU)) else None
            device = device or ("cuda" if any(map(text.__contains__, _OF_CUDA)) else None)
            given_away = given_away or (Known(device, "parsed", origin) if device else None)
    return given_away


def _texts(record: Record) -> Iterator[str]:
    yield record.message
    for chain in record.chains:
        yield from (one.message for one in chain)
