"""Facts about a flag that a message names, from the table of all releases' flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.errors import nearest_word
from engine_probe.facts import Known, Unknown
from engine_probe.flags import Flag, flag_table
from playbooks.computing import Computed

if TYPE_CHECKING:
    from playbooks.conditions import Answer, Lookup


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


def _argument_at_fault(lookup: Lookup) -> Answer:
    """The first argument that a message names and the launch sets: a fix may take it away."""
    named: list[str] = []
    for name in ("argument", "next_argument", "flag"):
        answer = lookup(name)
        if isinstance(answer, Known):
            word = str(answer.value).lstrip("-").replace("_", "-")
            flag = _flag_in_table(word)
            named.append(word if flag is None else flag.name)
            if isinstance(lookup(f"launch.{named[-1].replace('-', '_')}"), Known):
                return Known(named[-1], "computed", "the message")
    return Unknown(f"the launch does not set --{named[0]}" if named else "no message names the argument")


COMPUTED: tuple[Computed, ...] = (
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
    Computed(
        "config.argument_at_fault",
        "argument at fault",
        "",
        "the argument that the message names, where the launch sets it",
        _argument_at_fault,
    ),
)
