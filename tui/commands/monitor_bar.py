"""A GPU's memory as a bar of signs: what is what, and the words that say the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from playbooks.alert import number
from playbooks.alerts_memory import held_by_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine_probe.hardware.gpus import Gpu
    from engine_probe.hardware.reading import Reading, Server


@dataclass(frozen=True)
class Signs:
    """One sign for each purpose, in the order in which a model's memory is drawn."""

    weights: str = "█"
    kv_pool: str = "▓"
    rest: str = "▒"
    not_known: str = "░"
    others: str = "╳"
    free: str = "·"


UNICODE = Signs()
ASCII = Signs("#", "=", "-", "+", "x", ".")
WORDS = {
    "weights": "weights",
    "kv_pool": "KV pool",
    "rest": "graphs and rest",
    "not_known": "a model's, not known for what",
    "others": "others",
    "free": "free",
}


@dataclass(frozen=True)
class Share:
    """A run of the bar; `sign` names a field of `Signs`."""

    sign: str
    size_gib: float


def shares_of(gpu: Gpu, reading: Reading) -> list[Share]:
    """What is used, model by model, then what belongs to none of them. Without a known use there is none."""
    used = number(gpu.used_gib)
    if used is None:
        return []
    shares = [
        share
        for server in reading.servers
        if server.state != "orphan"
        for share in _of_server(server, gpu.index, reading)
    ]
    rest = used - sum(share.size_gib for share in shares)
    return [*shares, Share("others", rest)] if rest > 0 else shares


def _of_server(server: Server, index: int, reading: Reading) -> Iterable[Share]:
    for split in server.memory:
        weights, pool = number(split.weights_gib), number(split.kv_pool_gib)
        if split.gpu == index and weights is not None and pool is not None:
            yield Share("weights", weights)
            yield Share("kv_pool", pool)
            if (rest := number(split.rest_gib)) is not None:
                yield Share("rest", rest)
            return
    if (held := held_by_gpu(server, reading.processes).get(index)) is not None:
        yield Share("not_known", held)


def drawn(shares: Sequence[Share], total_gib: float, width: int, signs: Signs) -> str:
    """`width` signs. Each run ends where its sum ends, so that rounding never adds up."""
    text, sum_gib = "", 0.0
    for share in shares:
        sum_gib += max(share.size_gib, 0.0)
        end = min(round(sum_gib / total_gib * width), width) if total_gib > 0 else 0
        text += getattr(signs, share.sign) * (end - len(text))
    return text + signs.free * (width - len(text))


def legend(bars: Iterable[str], signs: Signs) -> str:
    """The words of the signs that occur."""
    seen = set("".join(bars))
    return "   ".join(f"{getattr(signs, name)} {word}" for name, word in WORDS.items() if getattr(signs, name) in seen)
