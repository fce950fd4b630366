"""The words of the standard checks: what is expected of many requests at once, and what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.events import BurstAnswered
    from playbooks.session import Proof

_GIB = 2**30
_LEAST_GROWTH_GIB = 0.25
_GROWTH_SHARE = 0.05
"""Memory may move by this much: the first requests fill caches and pools."""


def adapter_title(name: str) -> str:
    return f"adapter {name}"


def burst_expected(proof: Proof) -> str:
    if not proof.concurrent:
        return "a load test"
    return f"{proof.concurrent} at once for {proof.burst_seconds:g} s: all answered, memory does not grow"


def models_measured(served: Sequence[str], missing: Sequence[str]) -> str:
    listed = f"lists {', '.join(served)}"
    return f"{listed}; not {', '.join(missing)}" if missing else listed


def burst_measured(answer: BurstAnswered) -> str:
    parts = [f"{answer.answered:,} answered"]
    if answer.failed:
        parts.append(f"{answer.failed:,} failed" + (f" ({answer.errors[0]['text']})" if answer.errors else ""))
    if answer.p50_seconds is not None and answer.max_seconds is not None:
        parts.append(f"{answer.p50_seconds:.2f} s in the middle, {answer.max_seconds:.2f} s at most")
    if answer.tokens_per_second is not None:
        parts.append(f"{answer.tokens_per_second:,.0f} tokens a second")
    return "; ".join([*parts, *_memory_words(answer)])


def _memory_words(answer: BurstAnswered) -> list[str]:
    found = []
    for name, first, last in _memories(answer):
        found.append(f"{name} memory {first / _GIB:.2f} → {last / _GIB:.2f} GiB")
    return found or ["too short to tell how memory moves"]


def _memories(answer: BurstAnswered) -> list[tuple[str, int, int]]:
    pairs = (
        ("host", answer.rss_first_bytes, answer.rss_last_bytes),
        ("GPU", answer.gpu_first_bytes, answer.gpu_last_bytes),
    )
    return [(name, first, last) for name, first, last in pairs if first is not None and last is not None]


def grown(answer: BurstAnswered) -> str | None:
    """What has grown by more than it may, in words; None: nothing has."""
    for name, first, last in _memories(answer):
        allowed = max(_LEAST_GROWTH_GIB * _GIB, _GROWTH_SHARE * first)
        if last - first > allowed:
            return f"{name} memory grew by {(last - first) / _GIB:.2f} GiB"
    return None
