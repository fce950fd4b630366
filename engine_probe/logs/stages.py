"""Which load stage a message tells, and which numbers it carries. The wordings are data: data/stages.tsv."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.events import STAGES, Event, StageEntered, StageLeft
from engine_probe.logs.lines import read_line
from engine_probe.logs.versions import is_in, read_releases_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine_probe.facts import Value

ROLES = ("start", "progress", "end", "note", "error")
_NUMBER = re.compile(r"-?\d[\d,]{0,30}(?P<fraction>\.\d+)?")
_FIRST_WORD = re.compile(r"\^([A-Za-z#]+) ")
_TAG = re.compile(r"\[[^\]]{1,60}\] ")
_MOST_LINES = 60
_COLUMNS = 8


@dataclass(frozen=True)
class Marker:
    """One wording. `stage` None: it only carries numbers. `layer` None: a shared module prints it."""

    pattern: re.Pattern[str]
    releases: str
    stage: str | None = None
    role: str = "progress"
    then: str | None = None
    """The stage that begins when this one ends with the message."""
    layer: str | None = None
    quiet: str | None = None
    """Releases in which ranks 1..n may never print it."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """The pattern's named group → the fact that it tells."""
    texts: frozenset[str] = frozenset()
    """Facts that stay text though they look like numbers, such as a release."""

    @property
    def enters(self) -> str | None:
        """The stage that a load is in once this was printed; None where it does not tell."""
        return None if self.role in ("note", "error") else self.then or self.stage

    def facts_in(self, match: re.Match[str]) -> dict[str, Value]:
        return {
            fact: self.value_of(fact, match[group]) for group, fact in self.facts.items() if match[group] is not None
        }

    def value_of(self, fact: str, text: str) -> Value:
        return text if fact in self.texts else _value(text)


Found = tuple[Marker, re.Match[str]]
"""A marker and where a message has it."""


@dataclass(frozen=True)
class Wordings:
    """All markers, tried in the order of the file."""

    markers: tuple[Marker, ...]

    @cached_property
    def _by_first_word(self) -> tuple[dict[str, list[Marker]], list[Marker]]:
        """Markers whose messages all begin with one word, by that word, and those that may begin with any."""
        by_word: dict[str, list[Marker]] = {}
        others: list[Marker] = []
        for marker in self.markers:
            source = marker.pattern.pattern
            word = _FIRST_WORD.match(source) if "|" not in _outside_groups(source) else None
            if word is None:
                others.append(marker)
            else:
                by_word.setdefault(word[1], []).append(marker)
        return by_word, others

    def matches(self, message: str) -> Iterator[Found]:
        """Every marker that `message` has, with where it stands."""
        by_word, others = self._by_first_word
        first_words = {line.split(" ", 1)[0] for line in message.split("\n", _MOST_LINES)[:_MOST_LINES]}
        candidates = [marker for word in sorted(first_words & by_word.keys()) for marker in by_word[word]]
        for marker in (*candidates, *others):
            match = marker.pattern.search(message)
            if match is not None:
                yield marker, match

    def marker_of(self, message: str) -> Marker | None:
        """The marker that tells the stage of `message`: one that enters a stage before one that only belongs to it."""
        return self.best_of(self.matches(message))

    @staticmethod
    def best_of(matches: Iterable[Found]) -> Marker | None:
        """Of what `matches` gave, the marker that tells the stage."""
        found = [marker for marker, _ in matches if marker.stage is not None]
        return next((marker for marker in found if marker.enters is not None), found[0] if found else None)

    def stage_of(self, message: str) -> str | None:
        """The stage that `message` belongs to, None when it says nothing of stages."""
        marker = self.marker_of(message)
        return None if marker is None else marker.stage

    def facts_in(self, message: str) -> dict[str, Value]:
        """Every number and name that `message` carries, by fact name."""
        found: dict[str, Value] = {}
        for marker, match in self.matches(message):
            found |= marker.facts_in(match)
        return found

    def fact_names(self) -> frozenset[str]:
        """Names of all facts that some marker can yield."""
        return frozenset(fact for marker in self.markers for fact in marker.facts.values())

    def means_nothing_of_other_ranks(self, message: str, version: str | None) -> bool | None:
        """Whether ranks 1..n may be past `message` without a word, so that their silence means nothing.

        False: in this release every rank prints it. None: not a known message, or the release is not known.
        """
        marker = self.marker_of(message)
        if marker is None or version is None:
            return None
        if marker.layer in ("frontend", "engine"):
            return True
        return any(is_in(release, marker.quiet or "") for release in read_releases_for(version))


def read_wordings(path: Path | None = None) -> Wordings:
    """The markers of `path` (the package's own file by default).

    Raises InputError, with the line, when a pattern does not compile or does not do with its samples what they say.
    """
    path = path or Path(__file__).parent / "data" / "stages.tsv"
    markers: list[Marker] = []
    unproved = 0
    for number, row in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if row.startswith("#") or not row.strip():
            continue
        try:
            if row.startswith("\t"):
                _check_sample(markers, row.split("\t")[1:])
                unproved = 0
                continue
            if unproved:
                raise ValueError("the wording above has no sample")
            markers.append(_marker_of(row.split("\t")))
            unproved = number
        except ValueError as error:
            raise InputError(str(error), file=str(path), line=number) from None
    if unproved:
        raise InputError("the wording has no sample", file=str(path), line=unproved)
    return Wordings(tuple(markers))


def _marker_of(columns: list[str]) -> Marker:
    if len(columns) != _COLUMNS:
        raise ValueError(
            f"has {len(columns)} columns, not {_COLUMNS}: stage role then releases layer pattern facts quiet"
        )
    stage, role, then, releases, layer, source, facts, quiet = (None if one == "-" else one for one in columns)
    for name in (stage, then):
        if name is not None and name not in STAGES:
            raise ValueError(f"no such stage: {name}; stages are {', '.join(STAGES)}")
    if role not in ROLES:
        raise ValueError(f"no such role: {role}; roles are {', '.join(ROLES)}")
    try:
        pattern = re.compile(source or "", re.MULTILINE)
    except re.error as error:
        raise ValueError(f"the pattern {source!r} does not compile: {error}") from None
    groups, texts = {}, set()
    for pair in (facts or "").split():
        fact, _, group = pair.partition("=")
        group, _, kind = group.partition(":")
        if kind == "text":
            texts.add(fact)
        if group not in pattern.groupindex:
            raise ValueError(f"the pattern {source!r} has no group {group}")
        groups[group] = fact
    return Marker(pattern, releases or "", stage, role, then, layer, quiet, groups, frozenset(texts))


def _check_sample(markers: list[Marker], columns: list[str]) -> None:
    if not markers:
        raise ValueError("a sample without a wording above it")
    marker, text = markers[-1], columns[0]
    match = marker.pattern.search(text)
    if match is None:
        raise ValueError(f"the pattern {marker.pattern.pattern!r} does not match its sample {text!r}")
    pairs = (pair.partition("=") for pair in " ".join(columns[1:]).split())
    wanted = {fact: marker.value_of(fact, value) for fact, _, value in pairs}
    if (found := marker.facts_in(match)) != wanted:
        raise ValueError(f"the sample {text!r} yields {found}, not {wanted}")


def _outside_groups(source: str) -> str:
    """The pattern without what stands in parentheses: an alternative there does not change the first word."""
    depth, kept = 0, []
    for index, sign in enumerate(source):
        is_escaped = index > 0 and source[index - 1] == "\\"
        depth += (sign == "(" and not is_escaped) - (sign == ")" and not is_escaped)
        if depth == 0:
            kept.append(sign)
    return "".join(kept)


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

        `message` is a record's message, or a line as it was printed, prefixes and all. `serving` is never entered
        by a message: only an answer proves it.
        """
        if "\n" not in message:
            message = read_line(message).message
        marker = self._wordings.marker_of(message)
        stage = None if marker is None else marker.enters
        if marker is not None and stage == "serving":
            stage = marker.stage
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
