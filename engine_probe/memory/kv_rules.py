"""How a vLLM release divides memory into blocks, as data (data/kv_rules.tsv)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

Version = tuple[int, int, int]


@dataclass(frozen=True)
class KvRules:
    """One row; the file says what its columns mean."""

    since: Version
    has_groups: bool
    growth_percent: int
    tokens: Literal["blocks", "groups", "concurrency"]
    concurrency: Literal["tokens", "blocks"]
    needed: Literal["layers", "groups"]
    keeps_null_block: bool
    batches_in_flight: int
    chunked_groups: bool
    caches_states: bool
    kept_states: Mapping[str, int]


def kv_rules(version: str | None) -> KvRules:
    """Of a version; None or one that is no version: the newest known."""
    rows = _rows()
    parsed = _version(version) if version else None
    if parsed is None:
        return rows[-1]
    return next((row for row in reversed(rows) if row.since <= parsed), rows[0])


def _version(text: str) -> Version | None:
    found = re.match(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


@cache
def _rows() -> tuple[KvRules, ...]:
    text = resources.files("engine_probe.memory").joinpath("data/kv_rules.tsv").read_text(encoding="utf-8")
    return tuple(_row(line.split("\t")) for line in text.splitlines() if line and not line.startswith("#"))


def _row(words: list[str]) -> KvRules:
    since = _version(words[0])
    assert since is not None
    return KvRules(
        since,
        words[1] == "1",
        int(words[2]),
        cast("Literal['blocks', 'groups', 'concurrency']", words[3]),
        cast("Literal['tokens', 'blocks']", words[4]),
        cast("Literal['layers', 'groups']", words[5]),
        words[6] == "1",
        int(words[7]),
        words[8] == "1",
        words[9] == "1",
        {kind: int(count) for kind, count in (word.split("=") for word in words[10].split())},
    )
