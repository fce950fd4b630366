"""Which load stage a message begins, and which numbers it carries. The wordings are data: data/stages.yaml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine_probe.events import STAGES, Event, StageEntered, StageLeft
from engine_probe.logs.records import read_line
from engine_probe.strict_yaml import decode_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.facts import Value

_NUMBER = re.compile(r"-?[\d,]+(?P<fraction>\.\d+)?")


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A real message, and the facts that it must yield."""

    line: str
    facts: dict[str, bool | int | float | str] = {}


class Marker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One wording. `stage` is entered by it; without one it only carries numbers."""

    log: str
    versions: str
    samples: list[Sample]
    stage: str | None = None
    facts: dict[str, str] = {}
    """Fact name → the pattern's named group that holds it."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    markers: list[Marker]


@dataclass(frozen=True)
class Wordings:
    """All markers, tried in the order of the file."""

    markers: tuple[Marker, ...]

    @cached_property
    def _compiled(self) -> tuple[tuple[Marker, re.Pattern[str]], ...]:
        return tuple((marker, re.compile(marker.log, re.MULTILINE)) for marker in self.markers)

    def stage_of(self, message: str) -> str | None:
        """The stage that `message` begins (or shows to be under way), None when it says nothing of stages."""
        for marker, pattern in self._compiled:
            if marker.stage is not None and pattern.search(message):
                return marker.stage
        return None

    def facts_in(self, message: str) -> dict[str, Value]:
        """Every number and name that `message` carries, by fact name."""
        found: dict[str, Value] = {}
        for marker, pattern in self._compiled:
            match = pattern.search(message) if marker.facts else None
            if match is not None:
                found |= {
                    fact: _value(match[group]) for fact, group in marker.facts.items() if match[group] is not None
                }
        return found

    def fact_names(self) -> frozenset[str]:
        """Names of all facts that some marker can yield."""
        return frozenset(fact for marker in self.markers for fact in marker.facts)


def read_wordings(path: Path | None = None) -> Wordings:
    """The markers of `path` (the package's own file by default).

    Raises InputError when a pattern does not compile or does not do with its samples what they say.
    """
    path = path or Path(__file__).parent / "data" / "stages.yaml"
    content, lines = decode_file(path, _File)
    for number, marker in enumerate(content.markers):
        problem = _problem(marker)
        if problem is not None:
            raise lines.error(problem, ("markers", number))
    return Wordings(tuple(content.markers))


def _problem(marker: Marker) -> str | None:
    """What is wrong with one marker, in words; None when it is sound."""
    return _problem_of_shape(marker) or _problem_of_samples(marker)


def _problem_of_shape(marker: Marker) -> str | None:
    if marker.stage is not None and marker.stage not in STAGES:
        return f"no such stage: {marker.stage}; stages are {', '.join(STAGES)}"
    if not marker.samples:
        return f"the pattern {marker.log!r} has no sample"
    try:
        pattern = re.compile(marker.log, re.MULTILINE)
    except re.error as error:
        return f"the pattern {marker.log!r} does not compile: {error}"
    if missing := set(marker.facts.values()) - set(pattern.groupindex):
        return f"the pattern {marker.log!r} has no group {sorted(missing)[0]}"
    return None


def _problem_of_samples(marker: Marker) -> str | None:
    alone = Wordings((marker,))
    pattern = re.compile(marker.log, re.MULTILINE)
    for sample in marker.samples:
        if not pattern.search(sample.line):
            return f"the pattern {marker.log!r} does not match its sample {sample.line!r}"
        if (found := alone.facts_in(sample.line)) != sample.facts:
            return f"the sample {sample.line!r} yields {found}, not {sample.facts}"
    return None


def _value(text: str) -> Value:
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    plain = text.replace(",", "")
    return float(plain) if number["fraction"] else int(plain)


class StageTracker:
    """Follows one load. Stages come in any order; one that comes again goes on counting where it stopped."""

    def __init__(self, wordings: Wordings, model: str | None) -> None:
        self._wordings = wordings
        self._model = model
        self._current: str | None = None
        self._entered_at = 0.0
        self._seconds: dict[str, float] = {}

    @property
    def current(self) -> str | None:
        return self._current

    def feed(self, message: str, time: float) -> list[Event]:
        """What `message` changes: mostly nothing, else the stage left and the stage entered.

        `message` is a record's message, or a line as it was printed, prefixes and all.
        """
        if "\n" not in message:
            message = read_line(message).message
        stage = self._wordings.stage_of(message)
        if stage is None and self._current is None:
            stage = STAGES[0]
        return self.enter(stage, time) if stage is not None else []

    def enter(self, stage: str, time: float) -> list[Event]:
        """Enter `stage` without a message, such as `serving` when the server answers."""
        if stage == self._current:
            return []
        left = self.finish(time, completed=True)
        self._current, self._entered_at = stage, time
        return [*left, StageEntered(stage=stage, model=self._model, time=time)]

    def finish(self, time: float, completed: bool) -> list[Event]:
        """The load is over, in the stage it is in."""
        if self._current is None:
            return []
        stage, self._current = self._current, None
        total = self._seconds.get(stage, 0.0) + max(0.0, time - self._entered_at)
        self._seconds[stage] = total
        return [StageLeft(stage=stage, seconds=total, completed=completed, model=self._model, time=time)]

    def seconds(self) -> Mapping[str, float]:
        """Seconds of every stage left so far, all its visits together."""
        return dict(self._seconds)
