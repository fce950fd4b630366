"""Facts about the arguments and variables of a launch that follow from others and from the table of flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.errors import nearest_word
from engine_probe.facts import Known, Unknown
from engine_probe.flags import Flag, flag_table
from playbooks.computing import Computed, MissingInputError, known, number

if TYPE_CHECKING:
    from playbooks.conditions import Answer, Lookup

_ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_FIRST_INTERNAL_PORT, _PORTS_EACH, _INTERNAL_PORTS = 20_000, 100, 30_000
_API_PORT = 8000


def _segments_are_expandable(lookup: Lookup) -> Answer:
    for variable in _ALLOCATOR_VARIABLES:
        answer = lookup(f"launch.env.{variable}")
        if isinstance(answer, Unknown):
            return answer
        if isinstance(answer, Known):
            is_on = "expandable_segments:true" in str(answer.value).lower().replace(" ", "")
            return Known(is_on, "computed", f"{variable} of the launch")
    return Unknown("the launch does not set PYTORCH_CUDA_ALLOC_CONF; the container or shell may")


def _own_start_port(lookup: Lookup) -> tuple[float, str]:
    """Engines of one host have different API ports, so that what is made from them differs as well."""
    api_port = int(number(lookup, "launch.port", unset=_API_PORT))
    start = _FIRST_INTERNAL_PORT + api_port * _PORTS_EACH % _INTERNAL_PORTS
    return start, f"{_PORTS_EACH} ports for each port of an API, from the API's port {api_port}"


def _block_size_that_fits(lookup: Lookup) -> tuple[float, str]:
    """The next one up, so that fewer and larger blocks are made, never a size below the kernel's unit."""
    asked, unit = int(number(lookup, "block_size")), int(number(lookup, "block_multiple"))
    if unit <= 0:
        raise MissingInputError("the message names no size that the backend supports")
    return max(unit, -(-asked // unit) * unit), f"the next multiple of {unit}, which the backend wants"


def _flag_asked(lookup: Lookup) -> str | None:
    answer = lookup("flag")
    return str(answer.value).lstrip("-").replace("_", "-") if isinstance(answer, Known) else None


def _flag_in_table(name: str) -> Flag | None:
    table = flag_table()
    full = table.names.get(name) or table.names.get(name.removeprefix("no-"))
    return table.flags[full] if full is not None else None


_NO_FLAG = Unknown("no message names the flag")


def _flag_was_removed(lookup: Lookup) -> Answer:
    name = _flag_asked(lookup)
    if name is None:
        return _NO_FLAG
    flag = _flag_in_table(name)
    if flag is None:
        return Known(value=False, source="computed", origin=f"no release up to {flag_table().releases[-1]} has it")
    origin = f"releases {flag.first} to {flag.last} have --{flag.name}"
    return Known(flag.last != flag_table().releases[-1], "computed", origin)


def _flag_last_release(lookup: Lookup) -> Answer:
    name = _flag_asked(lookup)
    flag = None if name is None else _flag_in_table(name)
    if flag is None:
        return _NO_FLAG if name is None else Unknown(f"no release that was read has --{name}")
    return Known(flag.last, "computed", "the table of flags")


def _nearest_flag(lookup: Lookup) -> Answer:
    """Among the flags of the newest release: what is gone helps nobody."""
    name = _flag_asked(lookup)
    if name is None:
        return _NO_FLAG
    newest = flag_table().releases[-1]
    nearest = nearest_word(name, [flag.name for flag in flag_table().flags.values() if flag.last == newest])
    return Unknown(f"no flag looks like --{name}") if nearest is None else Known(nearest, "computed", "by spelling")


COMPUTED: tuple[Computed, ...] = (
    Computed(
        "config.segments_are_expandable",
        "expandable segments",
        "",
        "the launch turns on expandable_segments of PyTorch's allocator",
        _segments_are_expandable,
    ),
    Computed(
        "config.own_start_port",
        "first internal port for this engine",
        "",
        "a VLLM_PORT that no other engine of the host is given",
        known(_own_start_port),
    ),
    Computed(
        "config.block_size_that_fits",
        "block size that fits",
        "tokens",
        "next block size that the attention backend supports",
        known(_block_size_that_fits),
    ),
    Computed(
        "config.flag_was_removed",
        "flag is gone from newer releases",
        "",
        "the flag in the message was in an older release and is in the newest no more",
        _flag_was_removed,
    ),
    Computed(
        "config.flag_last_release",
        "last release with the flag",
        "",
        "the newest release read that has the flag in the message",
        _flag_last_release,
    ),
    Computed(
        "config.nearest_flag",
        "flag that looks alike",
        "",
        "the flag of the newest release spelt most alike",
        _nearest_flag,
    ),
)
