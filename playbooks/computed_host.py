"""Facts about who holds a GPU's memory, from the numbers that vLLM and torch print when there is too little."""

from __future__ import annotations

import contextlib
import math
import re
from typing import TYPE_CHECKING

from engine_probe.facts import Known
from playbooks.computing import Computed, MissingInputError, first_number, known, number
from playbooks.releases import release_fits

if TYPE_CHECKING:
    from playbooks.conditions import Lookup

_UNITS_IN_GIB = {"B": 2**-30, "bytes": 2**-30, "KiB": 2**-20, "MiB": 2**-10, "GiB": 1.0, "TiB": 1024.0}
_SIZE = re.compile(r"([\d.]+) ?(\w+)")
_IN_USE = re.compile(r"(this process|Process \d{1,18}) has (\d{1,18}(?:\.\d{1,18})? \w+) memory in use")
_ITSELF = "this process"
# What one engine holds beside torch's own pool: context, NCCL, cuBLAS. 0.5 GiB alone, up to 2.1 with NCCL on an H100.
_USUAL_CONTEXT_GIB = 0.5
_MOST_BESIDE_THE_POOL_GIB = 8.0


def _size_gib(lookup: Lookup, name: str) -> float:
    """GiB of a size as torch prints it: `118.00 MiB`."""
    answer = lookup(name)
    found = _SIZE.fullmatch(str(answer.value)) if isinstance(answer, Known) else None
    if found is None or found[2] not in _UNITS_IN_GIB:
        raise MissingInputError(f"the message does not say the {name.replace('_', ' ')}")
    return float(found[1]) * _UNITS_IN_GIB[found[2]]


def _text_gib(text: str) -> float:
    number_text, unit = text.split()
    return float(number_text) * _UNITS_IN_GIB.get(unit, math.nan)


def _own_gib(lookup: Lookup, capacity_gib: float) -> float:
    """What this process holds: as said, else the listed process that fits torch's own pool, else that pool.

    In a container torch does not know its own pid on the host, so that it lists itself as `Process N`. One that holds
    far more than the pool is a neighbour: the context, NCCL and libraries do not take so much.
    """
    pool_gib = _pool_gib(lookup)
    listed = _listed(lookup)
    said = [size for who, size in listed if who == _ITSELF]
    if said and said[0] <= capacity_gib:  # WSL says 17179869184 GiB
        return said[0]
    most_gib = min(capacity_gib, pool_gib + _MOST_BESIDE_THE_POOL_GIB)
    fitting = [size for _, size in listed if pool_gib - 0.01 <= size <= most_gib]
    return min(fitting) if fitting else pool_gib + _USUAL_CONTEXT_GIB


def _listed(lookup: Lookup) -> list[tuple[str, float]]:
    answer = lookup("processes")
    listed = _IN_USE.findall(str(answer.value)) if isinstance(answer, Known) else []
    return [(who, _text_gib(size)) for who, size in listed]


def listed_others(lookup: Lookup, known_others: frozenset[int]) -> dict[int, float]:
    """GiB by the pid of each process in torch's message but this one, which may be listed as one of them."""
    listed = _listed(lookup)
    others = {int(who.split()[1]): size for who, size in listed if who != _ITSELF}
    if len(others) < len(listed):
        return others
    certain = {pid: size for pid, size in others.items() if pid in known_others}
    try:
        own_gib = _own_gib(lookup, _size_gib(lookup, "capacity_size"))
    except MissingInputError:
        return certain
    own = next((pid for pid, size in others.items() if size == own_gib and pid not in certain), None)
    return {pid: size for pid, size in others.items() if pid != own}


def _pool_gib(lookup: Lookup) -> float:
    if isinstance(lookup("reserved_size"), Known):
        return _size_gib(lookup, "reserved_size")
    unallocated = _size_gib(lookup, "unallocated_size") if isinstance(lookup("unallocated_size"), Known) else 0.0
    return _size_gib(lookup, "allocated_size") + unallocated


def _oom_capacity_gib(lookup: Lookup) -> tuple[float, str]:
    return _size_gib(lookup, "capacity_size"), "torch's message"


def _oom_others_gib(lookup: Lookup) -> tuple[float, str]:
    capacity_gib = _size_gib(lookup, "capacity_size")
    used_gib = capacity_gib - _size_gib(lookup, "free_size")
    return max(0.0, round(used_gib - _own_gib(lookup, capacity_gib), 2)), "torch's message: in use, less this process"


def _oom_others_share(lookup: Lookup) -> tuple[float, str]:
    others_gib, origin = _oom_others_gib(lookup)
    return round(others_gib / _size_gib(lookup, "capacity_size"), 3), origin


def _oom_missing_gib(lookup: Lookup) -> tuple[float, str]:
    missing = _size_gib(lookup, "tried_size") - _size_gib(lookup, "free_size")
    return max(0.0, round(missing, 2)), "torch's message: tried to allocate, less what was free"


def _taken_gib(lookup: Lookup) -> tuple[float, str]:
    return round(number(lookup, "total_gib") - number(lookup, "free_gib"), 2), "vLLM's message: total less free"


def _taken_share(lookup: Lookup) -> tuple[float, str]:
    taken, origin = _taken_gib(lookup)
    return round(taken / number(lookup, "total_gib"), 3), origin


def _utilization_that_fits(lookup: Lookup) -> tuple[float, str]:
    """The check is free >= utilization x total (v1/worker/utils.py request_memory), so it is rounded down."""
    if isinstance(lookup("oom.others_gib"), Known):
        total_gib = number(lookup, "oom.capacity_gib")
        free_gib = total_gib - number(lookup, "oom.others_gib")
    else:
        free_gib = first_number(lookup, "free_gib", "gpu.free_before_launch_gib")
        total_gib = first_number(lookup, "total_gib", "gpu.total_gib")
    fits = math.floor(free_gib / total_gib * 100) / 100
    if fits < 0.01:
        raise MissingInputError(f"only {free_gib:.2f} of {total_gib:g} GiB are free: no share fits")
    return fits, f"{free_gib:.2f} GiB of {total_gib:g} GiB not held by others, rounded down"


def _weights_card_gib(lookup: Lookup) -> tuple[float, str]:
    weights, share = number(lookup, "weights.gib"), number(lookup, "memory.utilization_now")
    if share <= 0:
        raise MissingInputError("the share is 0")
    return round(weights / share, 2), f"{weights:g} GiB of weights at a share of {share:g}"


def _utilization_with_headroom(lookup: Lookup) -> tuple[float, str]:
    """At least 0.05 less; more where torch's message says how much was missing."""
    now = number(lookup, "memory.utilization_now")
    less = 0.05
    with contextlib.suppress(MissingInputError):
        less = max(less, (_oom_missing_gib(lookup)[0] + _USUAL_CONTEXT_GIB) / _size_gib(lookup, "capacity_size"))
    lower = math.floor(round((now - less) * 100, 6)) / 100
    if lower <= 0:
        raise MissingInputError("more was missing than the whole share")
    return lower, f"{now:g}, less {less:.2f} of the GPU"


def _utilization_beside_neighbours(lookup: Lookup) -> tuple[float, str]:
    total = number(lookup, "neighbours.utilization_sum")
    own = number(lookup, "memory.utilization_now")
    rest = math.floor(round((own - (total - 0.95)) * 100, 6)) / 100
    if rest <= 0:
        raise MissingInputError("the other models alone take the whole GPU")
    return rest, f"{total:g} asked for by all, 0.95 shared out"


def _fair_utilization(lookup: Lookup) -> tuple[float, str]:
    count = number(lookup, "neighbours.count")
    if count < 1:
        raise MissingInputError("no other model shares this GPU")
    return math.floor(95 / (count + 1)) / 100, f"0.95 shared out among {count + 1:g} models"


def _fair_own_utilization(lookup: Lookup) -> tuple[float, str]:
    """From V1 in 0.6.6 to 0.8.5 what neighbours hold is taken off the budget: it must cover them too."""
    fair, origin = _fair_utilization(lookup)
    version = lookup("engine.vllm_version")
    if isinstance(version, Known) and release_fits(str(version.value), ">=0.6.6,<0.9"):
        share = min(0.95, round(fair * (number(lookup, "neighbours.count") + 1), 2))
        return share, f"{origin}, and theirs, which vLLM {version.value} counts too"
    return fair, origin


def _strangers_gib(lookup: Lookup) -> tuple[float, str]:
    used, own = number(lookup, "gpu.used_by_others_gib"), number(lookup, "gpu.neighbours_gib")
    return max(0.0, round(used - own, 2)), "what is used on this GPU less what known models hold"


def _utilization_for_weights(lookup: Lookup) -> tuple[float, str]:
    """Raises MissingInputError where the card is too small for it."""
    missing_gib = 1 - first_number(lookup, "pool_gib", "kv.available_gib")
    now, total_gib = number(lookup, "memory.utilization_now"), first_number(lookup, "total_gib", "gpu.total_gib")
    needed = math.ceil(round((now + missing_gib / total_gib) * 100, 6)) / 100
    if needed > 0.95:
        raise MissingInputError(f"it would take {needed:g} of this GPU")
    return needed, f"{now:g} and {missing_gib:.2f} GiB more of {total_gib:g} GiB"


def _blocks_needed(lookup: Lookup) -> tuple[float, str]:
    length = first_number(lookup, "engine.max_model_len", "launch.max_model_len")
    block = number(lookup, "launch.block_size", unset=16)
    return math.ceil(length / block) + 1, f"{length:g} tokens in blocks of {block:g}, one held back"


def _fewer_seqs(lookup: Lookup) -> tuple[float, str]:
    now = first_number(lookup, "dummy_requests", "launch.max_num_seqs")
    return max(1, int(now) // 2), f"half of {now:g}"


def _fewer_batched_tokens(lookup: Lookup) -> tuple[float, str]:
    now = number(lookup, "launch.max_num_batched_tokens")
    return max(256, int(now) // 2), f"half of {now:g}"


def _swap_that_fits(lookup: Lookup) -> tuple[float, str]:
    """vLLM warns above 0.4 of host memory and refuses above 0.7; the space is per GPU (config.py, 0.5.5 to 0.10.2)."""
    gpus = number(lookup, "launch.tensor_parallel_size", unset=1)
    total = number(lookup, "host_gib")
    return math.floor(0.4 * total / gpus), f"0.4 of {total:g} GiB of host memory, over {gpus:g} GPUs"


def _kv_whole_gib_that_fits(lookup: Lookup) -> tuple[float, str]:
    """Half of what is free: the CPU backend touches all of it at the start."""
    if not _is_on_host(lookup).value:
        raise MissingInputError("it is no engine of the CPU backend")
    free = number(lookup, "free_gib")
    fits = math.floor(free / 2)
    if fits < 1:
        raise MissingInputError(f"{free:g} GiB are free: not one whole GiB would be safe")
    return fits, f"half of {free:g} GiB free, in whole GiB"


def _share_of_the_host(lookup: Lookup) -> tuple[float, str]:
    free, total = number(lookup, "free_gib"), number(lookup, "total_gib")
    share = math.floor(free / total * 50) / 100
    if share < 0.01:
        raise MissingInputError(f"only {free:g} of {total:g} GiB are free")
    return share, f"half of {free:g} GiB free of {total:g} GiB"


def _is_on_host(lookup: Lookup) -> Known:
    """What only the CPU backend says, or is told."""
    for name in ("node", "host.node_total_gib", "launch.env.VLLM_CPU_KVCACHE_SPACE"):
        if isinstance(lookup(name), Known):
            return Known(value=True, source="computed", origin=name)
    return Known(value=False, source="computed", origin="nothing of the CPU backend was said")


def _kv_bytes_that_fit(lookup: Lookup) -> tuple[float, str]:
    try:
        whole, origin = _kv_whole_gib_that_fits(lookup)
        return int(whole * 2**30), origin
    except MissingInputError:
        capacity = first_number(lookup, "oom.capacity_gib", "gpu.total_gib")
    size_gib = 0.9 * capacity - number(lookup, "weights.gib") - 2
    if size_gib <= 0:
        raise MissingInputError("the weights leave nothing")
    return int(size_gib * 1024) * 2**20, "0.9 of the GPU, less the weights and 2 GiB for activations"


COMPUTED: tuple[Computed, ...] = (
    Computed("gpu.taken_gib_at_start", "taken at start", "GiB", "memory taken before vLLM began", known(_taken_gib)),
    Computed("gpu.taken_share_at_start", "share taken at start", "", "the same, of the total", known(_taken_share)),
    Computed("oom.capacity_gib", "memory of the GPU", "GiB", "size of the GPU that ran out", known(_oom_capacity_gib)),
    Computed("oom.others_gib", "held by others", "GiB", "of that GPU, held by other processes", known(_oom_others_gib)),
    Computed("oom.others_share", "share held by others", "", "the same, of the total", known(_oom_others_share)),
    Computed("oom.missing_gib", "missing", "GiB", "what the allocation was short of", known(_oom_missing_gib)),
    Computed(
        "memory.utilization_that_fits",
        "gpu-memory-utilization that fits what is free",
        "",
        "largest gpu-memory-utilization that passes the check at start",
        known(_utilization_that_fits),
    ),
    Computed(
        "memory.weights_card_gib",
        "card on which the share covers the weights",
        "GiB",
        "weights divided by gpu-memory-utilization: on a smaller card the share cannot do",
        known(_weights_card_gib),
    ),
    Computed(
        "memory.utilization_with_headroom",
        "gpu-memory-utilization with head-room",
        "",
        "gpu-memory-utilization now, less what was missing",
        known(_utilization_with_headroom),
    ),
    Computed(
        "memory.utilization_beside_neighbours",
        "gpu-memory-utilization beside the other models",
        "",
        "what is left for this model when all on the GPU share 0.95",
        known(_utilization_beside_neighbours),
    ),
    Computed(
        "memory.fair_utilization",
        "equal share of the GPU for each model",
        "",
        "gpu-memory-utilization of each where the models on the GPU share 0.95 alike",
        known(_fair_utilization),
    ),
    Computed(
        "memory.fair_own_utilization",
        "equal share of the GPU for this model",
        "",
        "the same for this model, which starts last: with what its release counts of the others",
        known(_fair_own_utilization),
    ),
    Computed(
        "gpu.strangers_gib",
        "GPU memory that no known model holds",
        "GiB",
        "what processes hold on that GPU that are no model's",
        known(_strangers_gib),
    ),
    Computed(
        "memory.utilization_for_weights",
        "gpu-memory-utilization that covers the weights",
        "",
        "gpu-memory-utilization now, and what vLLM measured as missing",
        known(_utilization_for_weights),
    ),
    Computed(
        "memory.blocks_needed", "blocks for one full request", "blocks", "fewest KV cache blocks", known(_blocks_needed)
    ),
    Computed("memory.fewer_seqs", "fewer sequences", "", "half of max-num-seqs", known(_fewer_seqs)),
    Computed(
        "memory.fewer_batched_tokens",
        "fewer tokens a step",
        "tokens",
        "half of max-num-batched-tokens",
        known(_fewer_batched_tokens),
    ),
    Computed(
        "memory.swap_that_fits_gib", "swap space that fits", "GiB", "swap-space vLLM accepts", known(_swap_that_fits)
    ),
    Computed("memory.is_on_host", "runs on the CPU backend", "", "the KV cache is host memory", _is_on_host),
    Computed(
        "memory.share_of_the_host",
        "share of the host that fits",
        "",
        "gpu-memory-utilization for half of the host's free memory",
        known(_share_of_the_host),
    ),
    Computed(
        "memory.kv_whole_gib_that_fits",
        "KV cache that fits the node",
        "GiB",
        "KV cache for the free host memory, in whole GiB",
        known(_kv_whole_gib_that_fits),
    ),
    Computed(
        "memory.kv_bytes_that_fit",
        "KV cache that fits",
        "bytes",
        "KV cache for the memory there is",
        known(_kv_bytes_that_fit),
    ),
)
