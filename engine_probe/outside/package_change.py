"""One package of an engine is installed, changed or removed by pip, and what was there is put back.

What pip will replace is kept as it is in an archive in the engine's own environment: the way back needs no network.
"""

from __future__ import annotations

import json
import re
import shlex
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine_probe.engine import Engine
from engine_probe.errors import InputError
from engine_probe.outside import engine_script
from engine_probe.outside.keys import PACKAGES, REMOVE, checked_outside
from engine_probe.outside.pip_words import pip_words, plain_name, shown, wanted
from engine_probe.outside.running import run_words
from engine_probe.outside.work import Work
from engine_probe.quoting import quoted
from engine_probe.redact import names_a_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ANSWER = "vllm_console_answer "
_WOULD = re.compile(r"^Would install (?P<what>.+)$", re.MULTILINE)
_PLANNED = re.compile(r"(?P<name>\S+?)-(?P<version>\d[^\s-]*)$")


@dataclass(frozen=True)
class PackageChange:
    """`versions` and `half_removed` are the environment's before; `archive` what was installed of `names`."""

    engine: Engine
    name: str
    value: str
    names: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    archive: str | None = None
    half_removed: tuple[str, ...] = ()
    is_begun: bool = False

    def as_json(self) -> dict[str, Any]:
        """Secrets of the engine's environment are left out: the way back needs none."""
        env = {name: value for name, value in self.engine.env.items() if not names_a_secret(name)}
        return {
            "kind": "package",
            "prefix": list(self.engine.prefix),
            "label": self.engine.label,
            "joined_by_shell": self.engine.joined_by_shell,
            "env": env,
            "name": self.name,
            "value": self.value,
            "names": list(self.names),
            "versions": dict(self.versions),
            "archive": self.archive,
            "half_removed": list(self.half_removed),
            "is_begun": self.is_begun,
        }


def change_of_json(content: dict[str, Any]) -> PackageChange:
    """Raises KeyError, TypeError and ValueError where it is none."""
    label, archive = content["label"], content["archive"]
    texts = [*content["prefix"], label, content["name"], content["value"], *content["names"], *content["half_removed"]]
    maps = [content["env"], content["versions"]]
    if not all(isinstance(one, str) for one in (*texts, *([] if archive is None else [archive]))):
        raise TypeError("texts are wanted")
    if not all(isinstance(one, dict) and all(isinstance(value, str) for value in one.values()) for one in maps):
        raise TypeError("texts by names are wanted")
    if not content["prefix"] or not label:
        raise ValueError("no engine is named")
    engine = Engine(tuple(content["prefix"]), label, "a note", content["env"], bool(content["joined_by_shell"]))
    return PackageChange(
        engine,
        content["name"],
        content["value"],
        tuple(content["names"]),
        dict(content["versions"]),
        archive,
        tuple(content["half_removed"]),
        bool(content["is_begun"]),
    )


def planned(engine: Engine, key: str, value: str) -> PackageChange:
    """Nothing is done yet. Raises InputError for what is no package or version."""
    value = checked_outside(key, value)
    return PackageChange(engine, key.removeprefix(PACKAGES), value)


def apply(change: PackageChange, note: Callable[[PackageChange], None], work: Work) -> PackageChange:
    """Keep what is there, then let pip work. `note` is called before pip is. Raises InputError, and undoes it then."""
    there = versions(change, work)
    is_there = plain_name(change.name) in there
    if there.get(plain_name(change.name)) == change.value:
        raise InputError(f"{change.name} {change.value} is that already: nothing to change")
    if change.value == REMOVE and not is_there:
        raise InputError(f"{change.name} is not installed in {change.engine.label}: there is nothing to remove")
    words = pip_words(change.name, change.value, is_there=is_there)
    names = (plain_name(change.name), *(() if is_there else _would_change(change, words, work)))
    change = _kept(replace(change, names=tuple(dict.fromkeys(names))), work)
    note(change)
    try:
        _pip(change, words, work)
        if versions(change, work) == dict(change.versions):
            there_now = change.versions.get(plain_name(change.name))
            raise InputError(f"{change.name} {there_now} is that already: nothing to change")
    except BaseException:
        take_back(change, Work())  # `work` may be stopped
        raise
    return change


def take_back(change: PackageChange, work: Work) -> None:
    """What was installed is there again, however far pip came. Raises InputError."""
    if not change.is_begun:
        return
    given = {
        "names": change.names,
        "versions": change.versions,
        "archive": change.archive,
        "half": change.half_removed,
    }
    answer = _ask(change, engine_script.RESTORE, (json.dumps(given),), "putting the packages back", work)
    left = answer.get("left") or {}
    if left:
        said = ", ".join(f"{name} {version or 'is gone'}" for name, version in sorted(left.items())[:5])
        raise InputError(f"the packages of {change.engine.label} are not as they were: {said}")


def _kept(change: PackageChange, work: Work) -> PackageChange:
    name = f"{plain_name(change.name)}-{uuid.uuid4().hex[:8]}"
    answer = _ask(change, engine_script.KEEP, (name, *change.names), "keeping what is installed", work)
    return replace(
        change,
        versions=answer["versions"],
        archive=answer["archive"],
        half_removed=tuple(answer["half"]),
        is_begun=True,
    )


def _would_change(change: PackageChange, words: Sequence[str], work: Work) -> tuple[str, ...]:
    """Names of all that pip would install beside it, so that these are kept too."""
    text = _pip(change, ("install", "--dry-run", *words[1:]), work)
    found = _WOULD.search(text)
    plans = (_PLANNED.match(word) for word in (found["what"].split() if found else ()))
    return tuple(plain_name(one["name"]) for one in plans if one)


def versions(change: PackageChange, work: Work) -> dict[str, str]:
    """By plain name, as they are now. Raises InputError."""
    answer = _ask(change, engine_script.VERSIONS, (), "reading the engine's packages", work)
    return dict(answer["versions"])


def _pip(change: PackageChange, words: Sequence[str], work: Work) -> str:
    command = change.engine.argv("-c", engine_script.PIP, *words)
    ended = run_words(command, lambda: f"pip {words[0]} {words[-1]}", work)
    if ended.exit_code != 0:
        if "No module named pip" in ended.text:
            raise InputError(_no_pip(change, change.engine.python))
        raise InputError(f"{shown(change.engine, words)} failed: {_reason(ended.text)}")
    return ended.text


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return quoted((errors or lines or ["pip said nothing"])[-1], 300)


def _no_pip(change: PackageChange, python: str) -> str:
    by_uv = f"uv pip install --python {shlex.quote(python)} {shlex.quote(wanted(change.name, change.value))}"
    if change.value == REMOVE:
        by_uv = f"uv pip uninstall --python {shlex.quote(python)} {change.name}"
    made = f"{shlex.quote(python)} -m ensurepip"
    return f"{change.engine.label} has no pip. With {made} it gets one; or by hand: {by_uv}"


def _ask(change: PackageChange, code: str, words: Sequence[str], doing: str, work: Work) -> dict[str, Any]:
    label = change.engine.label
    ended = run_words(change.engine.argv("-c", engine_script.WATCH + code, *words), lambda: doing, work)
    line = next((one for one in ended.text.splitlines() if one.startswith(_ANSWER)), None)
    if line is None:
        raise InputError(f"{label} cannot be asked for its packages: {_reason(ended.text)}")
    answer: dict[str, Any] = json.loads(line.removeprefix(_ANSWER))
    if answer.get("error") == "no-pip":
        raise InputError(_no_pip(change, str(answer["python"])))
    if "error" in answer:
        raise InputError(f"{label}: {quoted(str(answer['error']), 300)}")
    return answer
