"""Facts about splitting a model over GPUs that follow from others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from playbooks.computing import MOST_RANKS, Computed, MissingInputError, known, number
from playbooks.conditions import Unset

if TYPE_CHECKING:
    from playbooks.conditions import Lookup


class _Whole(NamedTuple):
    """A width that tensor parallelism cuts into equal parts, each a multiple of `unit`. `name` is for people."""

    name: str
    width: int
    unit: int

    def fits(self, size: int) -> bool:
        return self.width % (size * self.unit) == 0


def _tensor_size_now(lookup: Lookup) -> tuple[float, str]:
    given = not isinstance(lookup("launch.tensor_parallel_size"), Unset)
    origin = "launch.tensor_parallel_size" if given else "vLLM's default"
    return int(number(lookup, "launch.tensor_parallel_size", unset=1)), origin


def _optional(lookup: Lookup, name: str) -> int | None:
    try:
        return int(number(lookup, name))
    except MissingInputError:
        return None


def _wholes(lookup: Lookup, now: int) -> list[_Whole]:
    """What must be cut evenly, as far as it is known; the message of the failed load counts like config.json."""
    found = []
    heads = _optional(lookup, "model.num_attention_heads") or _optional(lookup, "attention_heads")
    if heads is not None:
        found.append(_Whole("attention heads", heads, 1))
    group = _optional(lookup, "model.quant_group_size")
    # A group of -1 is a whole channel: then only the width itself is cut.
    unit = group if group is not None and group > 0 else 1
    inner = _optional(lookup, "model.intermediate_size")
    if inner is not None:
        found.append(_Whole("intermediate size", inner, unit))
    shard, multiple = _optional(lookup, "shard_width"), _optional(lookup, "shard_multiple")
    if shard is not None and multiple is not None:
        found.append(_Whole("width of the layer in the message", shard * now, multiple))
    return found


def _key_value_heads_fit(heads: int | None, size: int) -> bool:
    """Whole heads for each rank, or whole ranks for each head: vLLM copies them then."""
    return heads is None or heads % size == 0 or size % heads == 0


def _tensor_size_that_fits(lookup: Lookup) -> tuple[float, str]:
    """The largest up to the present one.

    Without the number of heads only divisors of the present size are tried: they cut evenly whatever it does.
    """
    now = int(_tensor_size_now(lookup)[0])
    wholes = _wholes(lookup, now)
    if not wholes:
        raise MissingInputError("neither config.json nor the message says what must be divided")
    most = min(now, _optional(lookup, "gpu.count") or now)
    kv_heads = _optional(lookup, "model.num_kv_heads")
    knows_heads = any(whole.name == "attention heads" for whole in wholes)
    if most > MOST_RANKS:
        raise MissingInputError(f"tensor-parallel-size is {most}, more ranks than any group of hosts has")
    sizes = [size for size in range(most, 0, -1) if knows_heads or now % size == 0]
    fitting = (s for s in sizes if all(one.fits(s) for one in wholes) and _key_value_heads_fit(kv_heads, s))
    best = next(fitting, None)
    if best is None:
        raise MissingInputError("no tensor-parallel size divides " + _in_words(wholes) + ", not even 1")
    return best, f"the largest up to {most} that divides {_in_words(wholes)}"


def _in_words(wholes: list[_Whole]) -> str:
    return ", ".join(f"{one.name} {one.width}" + (f" into {one.unit}s" if one.unit > 1 else "") for one in wholes)


def _half_tensor_size(lookup: Lookup) -> tuple[float, str]:
    now = int(_tensor_size_now(lookup)[0])
    if now < 2:
        raise MissingInputError("tensor-parallel-size is 1, which has no half")
    return now // 2 if now % 2 == 0 else 1, f"half of {now}" if now % 2 == 0 else f"{now} has no half, so 1"


def _gpus_of_launch(lookup: Lookup) -> tuple[float, str]:
    stages = number(lookup, "launch.pipeline_parallel_size", unset=1)
    return int(_tensor_size_now(lookup)[0] * stages), "tensor-parallel-size x pipeline-parallel-size"


COMPUTED: tuple[Computed, ...] = (
    Computed(
        "parallel.tensor_size_now",
        "tensor-parallel size now",
        "GPUs",
        "tensor-parallel-size in force",
        known(_tensor_size_now),
    ),
    Computed(
        "parallel.tensor_size_that_fits",
        "tensor-parallel size that fits",
        "GPUs",
        "largest tensor-parallel-size, up to the present one, that divides heads, KV heads and quantization groups",
        known(_tensor_size_that_fits),
    ),
    Computed(
        "parallel.half_tensor_size",
        "half the tensor-parallel size",
        "GPUs",
        "half of tensor-parallel-size, which divides whatever the whole divides",
        known(_half_tensor_size),
    ),
    Computed(
        "parallel.gpus_of_launch",
        "GPUs of one replica",
        "GPUs",
        "tensor-parallel-size x pipeline-parallel-size",
        known(_gpus_of_launch),
    ),
)
