"""Wordings of vLLM that tell a load stage or carry numbers, read from a table and checked on its samples."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.logs.checked import literals_of_checked
from engine_probe.numbers import number_in
from engine_probe.stage_names import STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.facts import Value

ROLES = ("start", "progress", "end", "note", "error")
_NUMBER = re.compile(r"-?\d[\d,]{0,30}(?P<fraction>\.\d+)?")
_COLUMNS = 8


@dataclass(frozen=True)
class Marker:
    """One wording. `stage` None: it only carries numbers. `layer` None: a shared module prints it."""

    source: str
    """The pattern as it is written."""
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
    literals: tuple[str, ...] = ()
    """See literals.py; empty also where they were not looked for."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first wanted: a log calls for few of them. Raises re.error."""
        return re.compile(self.source, re.MULTILINE)

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


def read_markers(path: Path, *, recheck: bool = False) -> list[Marker]:
    """The markers of a table such as data/stages.tsv, whose head says how a row is read.

    Raises InputError, with the line, when a pattern does not compile or does not do with its samples what they say; of
    a table that is known to be good (checked.py), neither is tried without `recheck`.
    """
    content = path.read_bytes()
    literals = None if recheck else literals_of_checked(path.name, content)
    markers: list[Marker] = []
    unproved = 0
    for number, row in enumerate(content.decode("utf-8").splitlines(), 1):
        if row.startswith("#") or not row.strip():
            continue
        try:
            if row.startswith("\t"):
                if literals is None:
                    _check_sample(markers, row.split("\t")[1:])
                unproved = 0
                continue
            if unproved:
                raise ValueError("the wording above has no sample")
            marker = _marker_of(row.split("\t"), () if literals is None else literals[len(markers)])
            if literals is None:
                _check_pattern(marker)
            markers.append(marker)
            unproved = number
        except ValueError as error:
            raise InputError(str(error), file=str(path), line=number) from None
    if unproved:
        raise InputError("the wording has no sample", file=str(path), line=unproved)
    return markers


def _marker_of(columns: list[str], literals: tuple[str, ...]) -> Marker:
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
    groups, texts = {}, set()
    for pair in (facts or "").split():
        fact, _, group = pair.partition("=")
        group, _, kind = group.partition(":")
        if kind == "text":
            texts.add(fact)
        groups[group] = fact
    return Marker(source or "", releases or "", stage, role, then, layer, quiet, groups, frozenset(texts), literals)


def _check_pattern(marker: Marker) -> None:
    try:
        known = marker.pattern.groupindex
    except re.error as error:
        raise ValueError(f"the pattern {marker.source!r} does not compile: {error}") from None
    for group in marker.facts:
        if group not in known:
            raise ValueError(f"the pattern {marker.source!r} has no group {group}")


def _check_sample(markers: list[Marker], columns: list[str]) -> None:
    if not markers:
        raise ValueError("a sample without a wording above it")
    marker, text = markers[-1], columns[0]
    match = marker.pattern.search(text)
    if match is None:
        raise ValueError(f"the pattern {marker.source!r} does not match its sample {text!r}")
    pairs = (pair.partition("=") for pair in " ".join(columns[1:]).split())
    wanted = {fact: marker.value_of(fact, value) for fact, _, value in pairs}
    if (found := marker.facts_in(match)) != wanted:
        raise ValueError(f"the sample {text!r} yields {found}, not {wanted}")


def _value(text: str) -> Value:
    if _NUMBER.fullmatch(text) is None:
        return text
    value = number_in(text)
    return text if value is None else value
