"""Does what a fix wants outside the deployment file, and takes it back: files of a model, packages of the engine."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from engine_probe.outside import file_change, hub, package_change, pip_words
from engine_probe.outside.file_change import FileChange
from engine_probe.outside.keys import HUB, REMOVE, FilesKey, checked_outside, outside_key
from engine_probe.outside.model_folder import model_folder
from engine_probe.outside.package_change import PackageChange
from engine_probe.outside.work import Work
from engine_probe.redact import mask
from playbooks.context import launch_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine_probe.engine import Engine
    from engine_probe.facts import Fact
    from playbooks.effects import WriteRevision

OutsideChange = FileChange | PackageChange


@dataclass(frozen=True)
class Made:
    """`told`: what is changed and how to go back, a line each; `facts`: what is so now."""

    changes: tuple[OutsideChange, ...]
    told: tuple[str, ...]
    facts: Mapping[str, Fact] = field(default_factory=dict)


def make(
    effect: WriteRevision,
    engine: Engine | None,
    sources: Sequence[str],
    note: Callable[[tuple[OutsideChange, ...]], None],
    work: Work,
    lock: Callable[[Path], None] = lambda _folder: None,
) -> Made:
    """`note` is called with all changes of this step before each act, `lock` with the folder before all.

    Raises InputError and OSError; undone then.
    """
    key = outside_key(effect.key)
    value = checked_outside(effect.key, effect.value)
    if isinstance(key, FilesKey):
        return _make_files(effect, key.names, value, engine, sources, note, work, lock)
    if engine is None:
        raise InputError(f"{effect.key} cannot be changed: this session has no engine")
    planned = package_change.planned(engine, effect.key, value)
    change = package_change.apply(planned, lambda one: note((one,)), work)
    now = package_change.versions(change, Work())
    return Made((change,), _told_of_package(change, now), _facts(change, now))


def _make_files(
    effect: WriteRevision,
    names: tuple[str, ...],
    source: str,
    engine: Engine | None,
    sources: Sequence[str],
    note: Callable[[tuple[OutsideChange, ...]], None],
    work: Work,
    lock: Callable[[Path], None],
) -> Made:
    from playbooks.evidence_folder import folder_facts  # noqa: PLC0415 -- it reads files of many kinds

    launch = launch_named(effect.before, effect.launch)
    base = effect.before.path.parent if effect.before.path is not None else Path()
    folder = model_folder(launch, base, engine)
    lock(folder)
    planned = [file_change.planned(folder, name, source) for name in names]
    done: list[FileChange] = []
    try:
        for one, name in zip(planned, names, strict=True):
            fetch = None
            if source.startswith(HUB):
                fetch = _fetch(engine, source, name, launch.env, work)
            done.append(file_change.place(one, lambda now: note((*done, now)), work, fetch))
    except BaseException:
        for one in reversed(done):
            file_change.put_back(one)
        raise
    return Made(tuple(done), tuple(line for one in done for line in _told_of_file(one)), folder_facts(folder, sources))


def _fetch(engine: Engine | None, source: str, name: str, env: Mapping[str, str], work: Work) -> Callable[[Path], Path]:
    if engine is None:
        raise InputError(f"{source} cannot be asked: this session has no engine, whose huggingface_hub would fetch it")
    return lambda folder: hub.fetch(engine, source, name, folder, env, work)


def _told_of_file(change: FileChange) -> tuple[str, ...]:
    target = shlex.quote(str(change.target))
    if change.kept is None:
        told = (f"{change.target} is new, from {change.source}", f"to go back: rm {target}")
    else:
        kept = shlex.quote(str(change.kept))
        done = "moved away" if change.source == REMOVE else f"replaced by that of {change.source}"
        said = f"{change.target} is {done}; as it was: {change.kept}"
        told = (said, f"to go back: mv -f {kept} {target}")
    return tuple(map(mask, told))


def _told_of_package(change: PackageChange, now: Mapping[str, str]) -> tuple[str, ...]:
    before = change.versions
    differ = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    said = ", ".join(f"{name} {before.get(name, 'not installed')} → {now.get(name, 'removed')}" for name in differ)
    kept = f"; as it was: {change.archive}" if change.archive else ""
    back = [
        pip_words.shown(change.engine, pip_words.pip_words(name, before.get(name, "remove"), is_there=True))
        for name in differ
    ]
    return tuple(
        map(mask, (f"packages of {change.engine.label}: {said}{kept}", *(f"to go back: {one}" for one in back)))
    )


def _facts(change: PackageChange, now: Mapping[str, str]) -> dict[str, Fact]:
    gone = {name: Unknown("it is not installed any more") for name in change.versions if name not in now}
    origin = "the engine's packages"
    return {f"packages.{name}": Known(version, "measured", origin) for name, version in now.items()} | {
        f"packages.{name}": reason for name, reason in gone.items()
    }


def take_back(change: OutsideChange) -> None:
    """Raises InputError and OSError."""
    if isinstance(change, FileChange):
        file_change.put_back(change)
    else:
        package_change.take_back(change, Work())


def of_json(content: dict[str, object]) -> OutsideChange:
    """Raises KeyError, TypeError and ValueError where it is none."""
    if content.get("kind") == "file":
        return file_change.change_of_json(content)
    if content.get("kind") != "package":
        raise ValueError("neither a file nor a package is named")
    return package_change.change_of_json(content)
