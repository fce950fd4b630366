"""Wordings of vLLM that tell a load stage or carry numbers, read from a table and checked on its samples."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
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


def read_markers(path: Path) -> list[Marker]:
    """The markers of a table such as data/stages.tsv, whose head says how a row is read.

    Raises InputError, with the line, when a pattern does not compile or does not do with its samples what they say.
    """
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
    return markers


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


def _value(text: str) -> Value:
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    plain = text.replace(",", "")
    return float(plain) if number["fraction"] else int(plain)
