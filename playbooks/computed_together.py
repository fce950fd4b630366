"""Facts about models that share main memory: what their KV caches ask for together, and what each could have.

On a CPU the KV cache is main memory, all of it touched at the start. No vLLM knows of another one's: that they fit
together nobody checks but the kernel. Half of the room is kept for weights, activations and the processes themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.facts import Known
from playbooks.computing import Computed, MissingInputError, known, number

if TYPE_CHECKING:
    from playbooks.conditions import Lookup

_MIB, _GIB = 2**20, 2**30
_SHARE_FOR_POOLS = 0.5
_LEAST_MIB = 16


def _killed_for_memory(lookup: Lookup) -> Known:
    """Only what was counted is known: a log by itself tells of a kill, not of its reason."""
    kills = lookup("host.oom_kills")
    is_counted = isinstance(kills, Known) and isinstance(kills.value, int) and kills.value > 0
    return Known(is_counted, "computed", "host.oom_kills" if is_counted else "no kill for memory was counted")


def _pools_overfill(lookup: Lookup) -> Known:
    """Only where it was measured: else it is not said."""
    share, count = lookup("memory.pools_share_of_room"), lookup("neighbours.count")
    is_over = isinstance(share, Known) and float(share.value) > _SHARE_FOR_POOLS
    has_others = isinstance(count, Known) and int(count.value) > 0
    on_host = lookup("memory.is_on_host")
    is_killed = bool(_killed_for_memory(lookup).value) and isinstance(on_host, Known) and bool(on_host.value)
    return Known(is_over and has_others and is_killed, "computed", "memory.pools_share_of_room, host.oom_kills")


def _pools_share(lookup: Lookup) -> tuple[float, str]:
    pools = number(lookup, "memory.pool_now_bytes") + number(lookup, "neighbours.pool_bytes")
    room_gib = number(lookup, "host.room_gib")
    return round(pools / _GIB / room_gib, 3), f"{pools / _GIB:.2f} GiB of pools in {room_gib:g} GiB"


def _fair_pool(lookup: Lookup) -> tuple[float, str]:
    count = number(lookup, "neighbours.count") + 1
    room_gib = number(lookup, "host.room_gib")
    each_mib = int(room_gib * 1024 * _SHARE_FOR_POOLS / count)
    return _at_least(each_mib), f"half of {room_gib:g} GiB, shared out among {count:g} models"


def _above_fair(lookup: Lookup) -> tuple[str, str]:
    fair, origin = _fair_pool(lookup)
    pools = lookup("neighbours.pools")
    pairs = [pair.rpartition("=") for pair in str(pools.value).split()] if isinstance(pools, Known) else []
    names = [name for name, _, size in pairs if int(size) > fair]
    if not names:
        raise MissingInputError("no other model asks for more than its share")
    return " ".join(names), f"more than {fair:,} bytes: {origin}"


def _pool_beside(lookup: Lookup) -> tuple[float, str]:
    room_gib, theirs = number(lookup, "host.room_gib"), number(lookup, "neighbours.pool_bytes")
    rest_mib = int(room_gib * 1024 * _SHARE_FOR_POOLS - theirs / _MIB)
    return _at_least(rest_mib), f"half of {room_gib:g} GiB, less {theirs / _GIB:.2f} GiB of the others"


def _at_least(size_mib: int) -> int:
    if size_mib < _LEAST_MIB:
        raise MissingInputError("the others leave nothing of half the room")
    return size_mib * _MIB


COMPUTED: tuple[Computed, ...] = (
    Computed(
        "host.killed_for_memory",
        "killed for memory",
        "",
        "the kernel counted a kill for memory in the load's control group",
        _killed_for_memory,
    ),
    Computed(
        "memory.pools_overfill_room",
        "the KV caches of all are too much together",
        "",
        "a process was killed for memory, and the KV caches that the models set take more than half of what there was",
        _pools_overfill,
    ),
    Computed(
        "memory.pools_share_of_room",
        "KV caches of all models, of the room",
        "",
        "the KV caches that all models set by hand, divided by the main memory that there was for them",
        known(_pools_share),
    ),
    Computed(
        "memory.fair_pool_bytes",
        "equal KV cache for each model",
        "bytes",
        "KV cache of each model where all share half of the main memory that there was for them",
        known(_fair_pool),
    ),
    Computed(
        "memory.neighbours_above_fair",
        "other models whose KV cache is more than an equal share",
        "",
        "their names, separated by spaces",
        known(_above_fair),
    ),
    Computed(
        "memory.pool_beside_neighbours_bytes",
        "KV cache beside the other models",
        "bytes",
        "what the KV caches of the others leave of half of the main memory that there was for all",
        known(_pool_beside),
    ),
)
