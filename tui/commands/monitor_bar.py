"""A GPU's memory as a bar of signs: what is what, and the words that say the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """A run of the bar; `sign` names a field of `Signs`, `owner` is the pid of the model's server."""

    sign: str
    size_gib: float
    owner: int | None = None


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
    if rest <= 0:
        return _no_more_than(used, shares)
    return [*shares, Share("others" if gpu.processes_unavailable is None else "not_known", rest)]


def _no_more_than(used_gib: float, shares: list[Share]) -> list[Share]:
    """A log says what was planned, the driver what is held: a bar is as long as the latter."""
    told_gib = sum(share.size_gib for share in shares)
    scale = used_gib / told_gib if told_gib > 0 else 0.0
    return [replace(share, size_gib=share.size_gib * scale) for share in shares]


def _of_server(server: Server, index: int, reading: Reading) -> Iterable[Share]:
    held = held_by_gpu(server, reading.processes).get(index)
    split = next((one for one in server.memory if one.gpu == index), None)
    weights, pool, rest = (
        (number(split.weights_gib), number(split.kv_pool_gib), number(split.rest_gib)) if split else (None, None, None)
    )
    known = [("weights", weights), ("kv_pool", pool)]
    if weights is not None and pool is not None:
        known.append(("rest", rest))
    elif held is not None:
        known.append(("not_known", held - (weights or 0.0) - (pool or 0.0)))
    for sign, size_gib in known:
        if size_gib is not None and size_gib >= 0:
            yield Share(sign, size_gib, server.pid)


def cells_of(shares: Sequence[Share], total_gib: float, width: int) -> list[int]:
    """How many of `width` cells each run takes. It ends where its sum ends, so that rounding never adds up."""
    cells: list[int] = []
    sum_gib = 0.0
    for share in shares:
        sum_gib += max(share.size_gib, 0.0)
        end = round(min(sum_gib / total_gib, 1.0) * width) if total_gib > 0 else 0
        cells.append(end - sum(cells))
    return cells


def drawn(shares: Sequence[Share], total_gib: float, width: int, signs: Signs) -> str:
    """`width` signs."""
    runs = zip(shares, cells_of(shares, total_gib, width), strict=True)
    text = "".join(getattr(signs, share.sign) * cells for share, cells in runs)
    return text + signs.free * (width - len(text))


def legend(bars: Iterable[str], signs: Signs) -> str:
    """The words of the signs that occur."""
    seen = set("".join(bars))
    return "   ".join(f"{getattr(signs, name)} {word}" for name, word in WORDS.items() if getattr(signs, name) in seen)
