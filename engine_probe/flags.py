"""The flags of `vllm serve` by release, and whether a launch uses one that its engine does not have.

The table is data (data/flags.tsv). An engine's own list, where it is known, decides over the table.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from engine_probe.errors import nearest_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.launch import Launch

Version = tuple[int, ...]
_VERSION = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,3})(?:\.?(rc|post|dev|a|b)(\d{0,9}))?", re.IGNORECASE | re.ASCII)
_RELEASE = re.compile(
    r"v?\d{1,4}(?:\.\d{1,4}){1,3}(?:\.?(?:rc|post|dev|a|b)\d{1,9}){0,2}(?:\+[a-z0-9.]{1,40})?", re.IGNORECASE | re.ASCII
)
_SUFFIX_ORDER = {"dev": -4, "a": -3, "b": -2, "rc": -1, None: 0, "post": 1}


class Flag(NamedTuple):
    """One row of the table; its header says how each column is read."""

    name: str
    first: str
    last: str
    values: Literal["switch", "on", "1", "?", "+", "append"]
    type: Literal["bool", "int", "float", "size", "json", "text"]
    default: str
    aliases: tuple[tuple[str, str], ...]


class FlagTable(NamedTuple):
    """All flags that any release read had. `names` maps every form without its dashes to the long name."""

    releases: tuple[str, ...]
    flags: Mapping[str, Flag]
    names: Mapping[str, str]


class FlagProblem(NamedTuple):
    """A flag that the engine will refuse (error), or that this table is too old to know (note)."""

    name: str
    kind: Literal["unknown", "removed", "added later", "not known here"]
    severity: Literal["error", "note"]
    text: str
    nearest: str | None = None


@cache
def flag_table() -> FlagTable:
    """The table, read once."""
    lines = (Path(__file__).parent / "data" / "flags.tsv").read_text(encoding="utf-8").splitlines()
    releases: tuple[str, ...] = ()
    flags: dict[str, Flag] = {}
    for line in lines:
        if line.startswith("# releases:"):
            releases = tuple(line.removeprefix("# releases:").split())
        elif line and not line.startswith("#"):
            flag = _flag(line)
            flags[flag.name] = flag
    names = {name: name for name in flags}
    names.update({form.lstrip("-"): flag.name for flag in flags.values() for form, _ in flag.aliases})
    return FlagTable(releases, flags, names)


def _flag(line: str) -> Flag:
    name, first, last, values, kind, default, aliases = line.split("\t")
    pairs = [alias.split("@") for alias in aliases.split(",") if alias != "-"]
    return Flag(name, first, last, values, kind, default, tuple((form, since) for form, since in pairs))  # type: ignore[arg-type]


def flag_for(name: str) -> Flag | None:
    """The flag of a canonical name; of `compilation-config.mode` that is `compilation-config`."""
    return flag_table().flags.get(name.partition(".")[0])


def parse_version(text: str) -> Version | None:
    """Comparable: 0.6.6.post1 is after 0.6.6, 0.11.2rc1 before 0.11.2, +cpu says nothing. None: no version."""
    match = _VERSION.match(text.strip())
    if match is None:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    suffix = match[2].lower() if match[2] else None
    return (*numbers, *[0] * (4 - len(numbers)), _SUFFIX_ORDER[suffix], int(match[3] or 0))


def is_release(text: str) -> bool:
    """Whether it is a release from its first character to its last, as a person has to write one."""
    return _RELEASE.fullmatch(text) is not None


def check_flags(
    launch: Launch, vllm_version: str | None, engine_flags: frozenset[str] | None = None
) -> list[FlagProblem]:
    """What is wrong with the launch's flags on this engine; an unknown version decides only what no release has."""
    names = [*launch.args, *(["lora-modules"] if launch.lora else [])]
    version = parse_version(vllm_version) if vllm_version else None
    found = [_check(name, launch, version, vllm_version, engine_flags) for name in names]
    return [problem for problem in found if problem is not None]


def _check(
    name: str, launch: Launch, version: Version | None, said: str | None, engine_flags: frozenset[str] | None
) -> FlagProblem | None:
    base = name.partition(".")[0]
    if engine_flags:
        # -O3 was a form of --compilation-config up to 0.11 (vllm/engine/arg_utils.py).
        short_level = base == "optimization-level" and (launch.written_as(base) or "").startswith("-O")
        known = _is_in("compilation-config" if short_level else base, engine_flags)
        return None if known else _missing(base, said or "this engine", version, engine_flags)
    flag = flag_table().flags.get(base)
    newest = parse_version(flag_table().releases[-1])
    if flag is None:
        return _unknown(base, version, said, newest)
    if version is None:
        return None
    state = _state(flag, base, launch, version)
    return _by_table(flag, state, f"vLLM {said}") if state else None


def _is_in(base: str, engine_flags: Iterable[str]) -> bool:
    """argparse also takes the unique beginning of a long name."""
    known = set(engine_flags)
    if base in known or f"no-{base}" in known:
        return True
    starts = {name for name in known if name.startswith(base) and not name.startswith("no-")}
    return len(base) >= 3 and len(starts) == 1


def _state(flag: Flag, base: str, launch: Launch, version: Version) -> Literal["removed", "added later"] | None:
    releases = [parse_version(release) or () for release in flag_table().releases]
    first, last = parse_version(_first_of(flag, base, launch)) or (), parse_version(flag.last) or ()
    if version > last and last != releases[-1] and version >= releases[releases.index(last) + 1]:
        return "removed"
    if version < first and first != releases[0] and version <= releases[releases.index(first) - 1]:
        return "added later"
    return None


def _first_of(flag: Flag, base: str, launch: Launch) -> str:
    """A flag written in an older short form, such as -O3 before --optimization-level, counts from that form on."""
    written = launch.written_as(base)
    for form, since in flag.aliases:
        dashed = form if form.startswith("--") else f"-{form}"
        if written is not None and written.startswith(dashed):
            return since
    return flag.first


def _by_table(flag: Flag, state: Literal["removed", "added later"], engine: str) -> FlagProblem:
    releases = flag_table().releases
    if state == "removed":
        gone = releases[releases.index(flag.last) + 1]
        text = f"--{flag.name} is not in {engine}: last seen in {flag.last}, gone by {gone}"
    else:
        text = f"--{flag.name} is not in {engine}: first seen in {flag.first}"
    return FlagProblem(flag.name, state, "error", text)


def _missing(base: str, said: str, version: Version | None, engine_flags: frozenset[str]) -> FlagProblem:
    engine = f"vLLM {said}" if version else said
    nearest = nearest_word(base, sorted(engine_flags))
    flag = flag_table().flags.get(base)
    if flag is None:
        return FlagProblem(base, "unknown", "error", f"--{base} is no flag of {engine}", nearest)
    newest = flag_table().releases[-1]
    if flag.last != newest:
        return FlagProblem(base, "removed", "error", f"--{base} is not in {engine}: last seen in {flag.last}", nearest)
    first = parse_version(flag.first) or ()
    if version is not None and version < first:
        return FlagProblem(
            base, "added later", "error", f"--{base} is not in {engine}: first seen in {flag.first}", nearest
        )
    return FlagProblem(base, "unknown", "error", f"--{base} is no flag of {engine}", nearest)


def _unknown(base: str, version: Version | None, said: str | None, newest: Version | None) -> FlagProblem | None:
    flags = flag_table().flags
    if _is_in(base, flags):
        return None
    nearest = nearest_word(base, flags)
    if version is not None and newest is not None and version > newest:
        text = f"--{base} is not known to this console, which knows the flags up to vLLM {flag_table().releases[-1]}"
        return FlagProblem(base, "not known here", "note", text, nearest)
    oldest = parse_version(flag_table().releases[0])
    if version is not None and oldest is not None and version < oldest:
        text = f"--{base} is not known to this console, which knows the flags from vLLM {flag_table().releases[0]} on"
        return FlagProblem(base, "not known here", "note", text, nearest)
    where = f"vLLM {said}" if version else f"any vLLM up to {flag_table().releases[-1]}"
    return FlagProblem(base, "unknown", "error", f"--{base} is no flag of {where}", nearest)
