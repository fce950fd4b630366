"""Writes the parts of ARCHITECTURE.md that come from the code, between their markers; `--check` only compares.

python docs/generate.py [--check]
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path

from engine_probe import events

PAGE = Path(__file__).parent.parent / "ARCHITECTURE.md"


def event_table() -> str:
    """One row an event kind: its meaning and its own keys, from engine_probe/events.py."""
    common = {field.name for field in dataclasses.fields(events.Event)}
    rows = ["| `event` | means | keys beside `event`, `time`, `model` |", "|---|---|---|"]
    for kind in events.Event.__subclasses__():
        meaning = " ".join((inspect.getdoc(kind) or "").split())
        keys = ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind) if field.name not in common)
        rows.append(f"| `{kind.event}` | {meaning} | {keys} |")
    return "\n".join(rows)


def generated(text: str) -> str:
    """The page with every generated part made anew."""
    for name, content in {"events": event_table()}.items():
        start, end = f"<!-- generated: {name} -->", "<!-- end -->"
        pattern = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
        text, count = pattern.subn(lambda _found, part=f"{start}\n{content}\n{end}": part, text)
        if count != 1:
            raise SystemExit(f"{PAGE.name}: {start} … {end} is wanted once, found {count} times")
    return text


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    fresh = generated(text)
    if "--check" not in sys.argv:
        PAGE.write_text(fresh, encoding="utf-8")
    elif fresh != text:
        raise SystemExit(f"{PAGE.name} is not what the code says: run python docs/generate.py")


if __name__ == "__main__":
    main()
