"""The tables of patterns that are known to be good: nothing is tried on their samples again at every start.

`data/checked.json` is made by docs/generate.py, which checks the tables. It holds a digest of each, and the literals of
its patterns (literals.py). A table that was changed since is checked when it is read, and has no literals until then.
"""

from __future__ import annotations

import json
import zlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DATA = Path(__file__).parent / "data"
CHECKED = DATA / "checked.json"


def digest_of(content: bytes) -> str:
    """Tells one content of a table from another."""
    return f"{len(content)}-{zlib.crc32(content):08x}"


def literals_of_checked(name: str, content: bytes) -> list[tuple[str, ...]] | None:
    """Of each pattern of the table, in its order; None where this content is not known to be good."""
    known = _known().get(name)
    if known is None or known["digest"] != digest_of(content):
        return None
    return [tuple(literals) for literals in known["literals"]]


def checked_text(tables: Mapping[str, Iterable[tuple[str, ...]]]) -> str:
    """The content of `checked.json`: of each table that was checked, the literals of its patterns."""
    rows = [
        f"{json.dumps(name)}: "
        + json.dumps({"digest": digest_of((DATA / name).read_bytes()), "literals": list(literals)})
        for name, literals in tables.items()
    ]
    return "{\n" + ",\n".join(rows) + "\n}\n"


@lru_cache(maxsize=1)
def _known() -> dict[str, Any]:
    """Empty where the file is missing or cannot be read: then all is checked."""
    try:
        found = json.loads(CHECKED.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
