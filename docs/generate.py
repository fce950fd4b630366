"""Writes what comes from other files: parts of ARCHITECTURE.md, the playbooks' schema and their compiled form, and
which tables of patterns are good.

`--check` only compares.

python docs/generate.py [--check]
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path

from experiment_pages import experiment_page
from playbook_pages import playbook_page

from engine_probe import events
from engine_probe.logs.checked import CHECKED
from engine_probe.logs.checking import checked_text
from playbooks.compiled import COMPILED, compiled_text
from playbooks.library import library_folder, own_library
from playbooks.load import schema_json
from playbooks.told import KINDS

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


def told_table() -> str:
    """One row a kind of what `replay --json` prints beside events of the probe, from playbooks/told.py."""
    rows = ["| `event` | means | keys beside `event`, `time`, `model` |", "|---|---|---|"]
    rows += [f"| `{one.event}` | {one.means} | {', '.join(f'`{key}`' for key in one.keys)} |" for one in KINDS]
    return "\n".join(rows)


def generated(text: str) -> str:
    """The page with every generated part made anew."""
    for name, content in {"events": event_table(), "told": told_table()}.items():
        start, end = f"<!-- generated: {name} -->", "<!-- end -->"
        pattern = re.compile(re.escape(start) + ".*?" + re.escape(end), re.DOTALL)
        text, count = pattern.subn(lambda _found, part=f"{start}\n{content}\n{end}": part, text)
        if count != 1:
            raise SystemExit(f"{PAGE.name}: {start} … {end} is wanted once, found {count} times")
    return text


def wanted() -> dict[Path, str]:
    """Every generated file with the content that it should have."""
    return {
        PAGE: generated(PAGE.read_text(encoding="utf-8")),
        library_folder().parent / "schema.json": schema_json(),
        Path(__file__).parent / "playbooks.md": playbook_page(own_library()),
        Path(__file__).parent / "experiments.md": experiment_page(own_library()),
        CHECKED: checked_text(),
        COMPILED: compiled_text((one.entry, one.spec) for one in own_library()),
    }


def main() -> None:
    for path, text in wanted().items():
        is_same = path.is_file() and path.read_text(encoding="utf-8") == text
        if "--check" in sys.argv and not is_same:
            raise SystemExit(f"{path.name} is not what its sources say: run python docs/generate.py")
        if not is_same:
            fresh = path.with_suffix(".new")
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(path)


if __name__ == "__main__":
    main()
