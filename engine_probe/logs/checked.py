"""The tables of patterns that are known to be good: nothing is tried on their samples again at every start.

`data/checked.json` is made by docs/generate.py, which checks the tables. It holds a digest of each, and what its
patterns need (literals.py, first_signs.py). A table that was changed since is checked when it is read.
"""

from __future__ import annotations

import json
import re
import zlib
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from engine_probe.literals import has_any

DATA = Path(__file__).parent / "data"
CHECKED = DATA / "checked.json"


class Pattern:
    """A pattern of a table. `literals`: see literals.py; empty also where they were not looked for."""

    def __init__(self, source: str, literals: tuple[str, ...] = ()) -> None:
        self.source = source
        self.literals = literals

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Made when it is first wanted. Raises re.error."""
        return re.compile(self.source)

    def is_in(self, text: str, plain: str) -> bool:
        """`plain`: the plain form (literals.py) of `text`."""
        if self.literals and not has_any(self.literals, plain):
            return False
        return self.compiled.search(text) is not None


def digest_of(content: bytes) -> str:
    """Tells one content of a table from another."""
    return f"{len(content)}-{zlib.crc32(content):08x}"


def literals_of_checked(name: str, content: bytes) -> list[tuple[str, ...]] | None:
    """Of each pattern of the table, in its order; None where this content is not known to be good."""
    known = _known().get(name)
    if known is None or known["digest"] != digest_of(content):
        return None
    return [tuple(literals) for literals in known["literals"]]


def first_signs_of_checked(name: str) -> list[str]:
    """Of each pattern of a table that `literals_of_checked` knows."""
    return [str(signs) for signs in _known().get(name, {}).get("first_signs", ())]


@lru_cache(maxsize=1)
def _known() -> dict[str, Any]:
    """Empty where the file is missing or cannot be read: then all is checked."""
    try:
        found = json.loads(CHECKED.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
