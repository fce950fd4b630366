"""What is kept of the tables of patterns once they were checked, so that no start checks them again (checked.py)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine_probe.first_signs import first_signs_of
from engine_probe.literals import literals_of
from engine_probe.logs.checked import DATA, digest_of
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.ending_words import read_ending_words
from engine_probe.logs.markers import read_markers
from engine_probe.logs.shapes import read_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence


def checked_text() -> str:
    """The content of `checked.json`. Every table is checked: raises InputError or ValueError where one is wrong."""
    tables = {
        "stages.tsv": [one.source for one in read_markers(DATA / "stages.tsv", recheck=True)],
        "formats.tsv": [one.source for one in read_shapes((DATA / "formats.tsv").read_text(encoding="utf-8"))],
        "endings.tsv": [one.source for _, one in read_ending_words(recheck=True).patterns],
        "wrappers.tsv": [one.source for one in read_wrappers(recheck=True).known],
    }
    rows = [f"{json.dumps(name)}: {json.dumps(_row(name, patterns))}" for name, patterns in tables.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _row(name: str, patterns: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"digest": digest_of((DATA / name).read_bytes())}
    found["literals"] = [literals_of(pattern) for pattern in patterns]
    if name == "formats.tsv":  # the only ones that are matched at the start of a line
        found["first_signs"] = [first_signs_of(pattern) for pattern in patterns]
    return found
