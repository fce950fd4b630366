"""Which load stage a message tells, and which numbers it carries. The wordings are data: data/stages.tsv."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from engine_probe.literals import has_any, plain
from engine_probe.logs.checked import DATA
from engine_probe.logs.markers import Marker, read_markers
from engine_probe.logs.versions import is_in, read_releases_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from engine_probe.facts import Value

_FIRST_WORD = re.compile(r"\^([A-Za-z#]+) ")
_MOST_LINES = 60

Found = tuple[Marker, re.Match[str]]
"""A marker and where a message has it."""


class Wordings:
    """All markers, tried in the order of the file."""

    def __init__(self, markers: Iterable[Marker]) -> None:
        self.markers = tuple(markers)

    @cached_property
    def _by_first_word(self) -> dict[str, list[int]]:
        """Numbers of the markers whose messages all begin with one word, by that word."""
        found: dict[str, list[int]] = {}
        for number, word in enumerate(self._first_words):
            if word is not None:
                found.setdefault(word, []).append(number)
        return found

    @cached_property
    def _by_literal(self) -> list[tuple[str, int]]:
        """Of the markers whose messages may begin with any word: what one must hold, and its number."""
        others = (number for number, word in enumerate(self._first_words) if word is None)
        return [(literal, number) for number in others for literal in self.markers[number].literals or ("",)]

    @cached_property
    def _first_words(self) -> list[str | None]:
        return [first_word_of(marker.source) for marker in self.markers]

    def matches(self, message: str) -> Iterator[Found]:
        """Every marker that `message` has, with where it stands."""
        first_words = {line.split(" ", 1)[0] for line in message.split("\n", _MOST_LINES)[:_MOST_LINES]}
        known, text = self._by_first_word, plain(message)
        numbers = [number for word in sorted(first_words & known.keys()) for number in known[word]]
        numbers += dict.fromkeys([number for literal, number in self._by_literal if literal in text])
        for number in numbers:
            marker = self.markers[number]
            if marker.literals and not has_any(marker.literals, text):
                continue
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
        return None if marker is None or version is None else may_be_silent(marker, version)


def may_be_silent(marker: Marker, version: str) -> bool:
    """Whether ranks 1..n may be past what `marker` tells without a word."""
    if marker.layer in ("frontend", "engine"):
        return True
    return any(is_in(release, marker.quiet or "") for release in read_releases_for(version))


def read_wordings(path: Path | None = None) -> Wordings:
    """The markers of `path` (the package's own file by default). Raises InputError, with the line."""
    return Wordings(read_markers(path or DATA / "stages.tsv"))


def first_word_of(source: str) -> str | None:
    """The word that every message of this pattern begins with; None where there is none."""
    word = _FIRST_WORD.match(source)
    return None if word is None or ("|" in source and "|" in _outside_groups(source)) else word[1]


def _outside_groups(source: str) -> str:
    """The pattern without what stands in parentheses: an alternative there does not change the first word."""
    depth, kept = 0, []
    for index, sign in enumerate(source):
        is_escaped = index > 0 and source[index - 1] == "\\"
        depth += (sign == "(" and not is_escaped) - (sign == ")" and not is_escaped)
        if depth == 0:
            kept.append(sign)
    return "".join(kept)
