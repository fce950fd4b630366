"""What a fix outside the deployment file shows before it is applied: old and new, the commands, and the way back."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from engine_probe.outside.keys import HUB, PACKAGES, REMOVE, FilesKey, hub_place, is_outside, outside_key
from engine_probe.outside.pip_words import pip_words, plain_name
from engine_probe.redact import mask
from playbooks.facts_of_evidence import COPY, KEPT, NOW, WANTED
from playbooks.facts_of_evidence import PACKAGES as PACKAGE_FACTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine_probe.changes import Change as NewValue
    from engine_probe.engine import Engine
    from engine_probe.facts import Fact
    from engine_probe.launch import Deployment
    from playbooks.conditions import Answer, Lookup

WHOLE_COPY, WANTED_VERSION = "files.whole_copy", "packages_unmet.wanted"
_AS_IT_IS = "as it is"
_NOT_INSTALLED, _WHATEVER = "not installed", "what is installed"
NOT_KNOWN = (_AS_IT_IS, _WHATEVER)
"""What is said of the old state where nobody has looked."""
_MOST_SHOWN = 3


class Shown(NamedTuple):
    """Of one key outside the deployment file. `diff` as of a deployment."""

    old: str
    new: str
    what: str
    """`model.safetensors`, `3 files`, `torchvision`."""
    diff: tuple[str, ...]
    commands: tuple[str, ...]
    way_back: tuple[str, ...]


def engine_facts(engine: Engine) -> dict[str, Fact]:
    """How the engine's Python is called, for commands."""
    return {"engine.command": Known(shlex.join(engine.prefix), "declared", engine.label)}


def changed(deployment: Deployment, launch: str | None, key: str, value: NewValue) -> Deployment:
    """As `change`; what lies outside leaves the deployment as it is. Raises InputError."""
    from engine_probe.changes import change  # noqa: PLC0415 -- it reads YAML, and a diagnosis changes nothing

    return deployment if is_outside(key) else change(deployment, launch, key, value)


def lookup_for_key(lookup: Lookup, key: str) -> Lookup:
    """`files.whole_copy` is that of the files that `key` names, `packages_unmet.wanted` that of its package."""
    if not is_outside(key):
        return lookup
    try:
        named = outside_key(key)
    except InputError:
        return lookup

    def answer(name: str) -> Answer:
        if name == WHOLE_COPY and isinstance(named, FilesKey):
            return _copy_of(lookup, named.names)
        if name == WANTED_VERSION and not isinstance(named, FilesKey):
            return _wanted_of(lookup, named.name)
        return lookup(name)

    return answer


def _wanted_of(lookup: Lookup, package: str) -> Answer:
    """Which version vLLM asks for, where the one that is there is another."""
    found, count = lookup(f"{WANTED}{plain_name(package)}"), lookup("packages_unmet.count")
    if isinstance(found, Known) or not isinstance(count, Known):
        return found if isinstance(found, Known) else count
    return Unknown(f"vLLM's own requirements are met by the {package} that is there, or do not name it")


def _copy_of(lookup: Lookup, names: tuple[str, ...]) -> Answer:
    """Of several files the one place that has them all."""
    found: list[Known] = []
    for name in names:
        one = lookup(f"{COPY}{name}")
        if not isinstance(one, Known):
            folder = lookup("files.folder")
            if isinstance(folder, Unknown):
                return folder
            is_told = isinstance(one, Unknown) and "give the folder" in one.reason
            return one if is_told else Unknown(_nothing_known(name))
        found.append(one)
    places = {one.value for one in found}
    if len(places) > 1:
        return Unknown(f"whole copies of {', '.join(names)} are known, in different places: give the one to take")
    return found[0]


def _nothing_known(name: str) -> str:
    return f"no whole copy of {name} is known: give the folder that holds one, --files-from DIR"


def wants_source(key: str, value: str, lookup: Lookup) -> bool:
    """It cannot be applied only because nobody has said where whole files are: a person may."""
    if not key.startswith("files.") or "?" in key:
        return False
    folder = lookup("files.folder")
    return value == "?" and isinstance(folder, Known)


def shown(key: str, value: str, facts: Mapping[str, Fact]) -> Shown:
    """Everything that is said of it. Raises InputError for a key that cannot be."""
    named = outside_key(key)
    value = mask(value)
    return _of_files(named.names, value, facts) if isinstance(named, FilesKey) else _of_package(key, value, facts)


def shown_by(key: str, value: str, lookup: Lookup) -> Shown:
    """The same by a look-up. Raises InputError."""
    named = outside_key(key)
    names = ["files.folder", "engine.command"]
    if isinstance(named, FilesKey):
        names += [prefix + name for name in named.names for prefix in (NOW, KEPT)]
    else:
        names += [f"{PACKAGE_FACTS}{plain_name(named.name)}", "packages_unmet.count"]
    answers = {name: lookup(name) for name in names}
    return shown(key, value, {name: answer for name, answer in answers.items() if isinstance(answer, Known)})


def _of_files(names: tuple[str, ...], value: str, facts: Mapping[str, Fact]) -> Shown:
    new = "moved away" if value == REMOVE else f"from {value}"
    states = [_text(facts, f"{NOW}{name}", _AS_IT_IS) for name in names]
    lines: list[str] = []
    commands: list[str] = []
    way_back: list[str] = []
    for name, state in zip(names, states, strict=True):
        lines += [f"-  files.{name}: {state}", f"+  files.{name}: {new}"]
        commands += _replacing(name, value, state, facts)
        way_back += _putting_back(name, state, facts)
    old = states[0] if len(set(states)) == 1 else "; ".join(states[:_MOST_SHOWN])
    what = names[0] if len(names) == 1 else f"{len(names)} files ({_listed(names)})"
    return Shown(old, new, what, tuple(lines), tuple(commands), tuple(reversed(way_back)))


def _listed(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _folder(facts: Mapping[str, Fact]) -> str:
    return _text(facts, "files.folder", "DIR")


def _replacing(name: str, value: str, state: str, facts: Mapping[str, Fact]) -> Iterator[str]:
    target = PurePath(_folder(facts), name)
    temporary = target.with_name(f".{target.name}.vllm-console")
    if value == REMOVE:
        yield shlex.join(("mv", str(target), _kept(target, facts, name)))
        return
    if value.startswith(HUB):
        place = hub_place(value)
        revision = ("--revision", place.revision) if place.revision else ()
        folder = f"{temporary}.d"
        yield shlex.join(("hf", "download", place.repo, name, *revision, "--local-dir", folder))
        yield shlex.join(("mv", str(PurePath(folder, name)), str(temporary)))
    else:
        is_file = PurePath(value).name == target.name
        yield shlex.join(("cp", "-L", value if is_file else str(PurePath(value, name)), str(temporary)))
    if state != "not there":
        yield shlex.join(("mv", str(target), _kept(target, facts, name)))
    yield shlex.join(("mv", str(temporary), str(target)))


def _putting_back(name: str, state: str, facts: Mapping[str, Fact]) -> Iterator[str]:
    target = PurePath(_folder(facts), name)
    if state == "not there":
        yield shlex.join(("rm", str(target)))
    else:
        yield shlex.join(("mv", "-f", _kept(target, facts, name), str(target)))


def _kept(target: PurePath, facts: Mapping[str, Fact], name: str) -> str:
    return _text(facts, f"{KEPT}{name}", f"{target}.r1")


def _of_package(key: str, value: str, facts: Mapping[str, Fact]) -> Shown:
    name = key.removeprefix(PACKAGES)
    there = facts.get(f"{PACKAGE_FACTS}{plain_name(name)}")
    is_read = isinstance(facts.get("packages_unmet.count"), Known) or isinstance(there, Known)
    is_there = isinstance(there, Known) or not is_read
    old = str(there.value) if isinstance(there, Known) else _NOT_INSTALLED if is_read else _WHATEVER
    new = "removed" if value == REMOVE else value
    if isinstance(there, Known):
        way_back = _pip(facts, pip_words(name, str(there.value), is_there=True))
    elif is_read:
        way_back = _pip(facts, pip_words(name, REMOVE, is_there=True))
    else:
        way_back = _pip(facts, pip_words(name, "0", is_there=True)).replace("==0", "==VERSION")
    commands = (_pip(facts, pip_words(name, value, is_there=is_there)),)
    return Shown(old, new, name, (f"-  {key}: {old}", f"+  {key}: {new}"), commands, (way_back,))


def _pip(facts: Mapping[str, Fact], words: tuple[str, ...]) -> str:
    return mask(f"{_text(facts, 'engine.command', 'python')} -m pip {shlex.join(words)}")


def _text(facts: Mapping[str, Fact], name: str, instead: str) -> str:
    fact = facts.get(name)
    return str(fact.value) if isinstance(fact, Known) else instead
