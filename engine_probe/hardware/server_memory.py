"""Splits what a server holds on each GPU into weights, KV pool and the rest, by what its log has told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.reading import MemorySplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.hardware.server_load import Load
    from engine_probe.hardware.server_where import Holding

_SLACK_GIB = 0.1


@dataclass(frozen=True)
class Told:
    """What the log told, or why it told nothing; `names` are the pids that processes know themselves by."""

    load: Load
    why_nothing: str | None
    names: Mapping[int, int]
    pipeline_parallel: int = 1

    def weights_of(self, pids: Sequence[int]) -> Fact:
        return self._of(pids, self.load.weights, "the weights are not loaded yet, or the log does not say their size")

    def pool_of(self, pids: Sequence[int]) -> Fact:
        return self._of(pids, self.load.pools, "the KV pool is not planned yet, or the log does not say its size")

    def _of(self, pids: Sequence[int], sizes: Mapping[int | None, Known], why_not: str) -> Fact:
        """From 0.11 on only rank 0 prints sizes (vllm/logger.py, scope="local"): those of its peers are the same."""
        if not sizes:
            return Unknown(self.why_nothing or why_not)
        own = [sizes[name] for pid in pids if (name := self.names.get(pid, pid)) in sizes]
        if own:
            return _sum(own)
        if None in sizes:
            return sizes[None]
        if self.pipeline_parallel > 1:
            return Unknown("this rank did not print it, and the ranks of a pipeline differ")
        first = next(iter(sizes.values()))
        return Known(first.value, "computed", f"as of the rank that printed it: {first.origin}")


def split_of(gpu: int, members: Mapping[int, Sequence[Holding]], told: Told) -> MemorySplit:
    """`members`: what each process of the server holds, by its pid."""
    pids = [pid for pid, held in members.items() if any(index == gpu for index, _ in held)]
    used = total_of([size for pid in pids for index, size in members[pid] if index == gpu])
    weights, pool = told.weights_of(pids), told.pool_of(pids)
    return MemorySplit(gpu, used, weights, pool, _rest(used, weights, pool))


def _rest(used: Fact, weights: Fact, pool: Fact) -> Fact:
    for fact in (used, weights, pool):
        if isinstance(fact, Unknown):
            return fact
    assert isinstance(used, Known) and isinstance(weights, Known) and isinstance(pool, Known)
    rest = float(used.value) - float(weights.value) - float(pool.value)
    if rest < -_SLACK_GIB:
        return Unknown("weights and KV pool of the log are more than what is held now")
    return Known(max(0.0, rest), "computed", "what is held − weights − KV pool")


def total_of(sizes: Sequence[Fact]) -> Fact:
    """Unknown as soon as one is."""
    known = [one for one in sizes if isinstance(one, Known)]
    unknown = [one for one in sizes if isinstance(one, Unknown)]
    if unknown:
        return unknown[0]
    return _sum(known) if known else Unknown("it holds nothing here yet")


def _sum(sizes: Sequence[Known]) -> Known:
    if len(sizes) == 1:
        return sizes[0]
    return Known(sum(float(one.value) for one in sizes), sizes[0].source, sizes[0].origin)


def pool_of_all(told: Told, splits: Sequence[MemorySplit], ranks: int, declared_bytes: float | None) -> Fact:
    """The KV pool of a whole server, on its GPUs or in the host's memory."""
    if splits and all(isinstance(one.kv_pool_gib, Known) for one in splits):
        return total_of([one.kv_pool_gib for one in splits])
    printed = list(told.load.pools.values())
    if len(printed) == ranks:
        return _sum(printed)
    if len(printed) == 1 and told.pipeline_parallel == 1:
        return Known(float(printed[0].value) * ranks, "computed", f"{ranks} × {printed[0].origin}")
    if declared_bytes is not None:
        return Known(declared_bytes * ranks / 1024**3, "declared", "the size that its command asks for")
    return told.pool_of(()) if not printed else Unknown("not all ranks printed their size")
