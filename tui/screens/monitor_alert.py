"""An alert in full: what is wrong, what can be done, and what the playbook knows that explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from playbooks.library import find, load_library
from tui.widgets.clean_text import clean
from tui.widgets.words import lines, part, wrapped

if TYPE_CHECKING:
    from textual.content import Content

    from playbooks.alert import Alert
    from playbooks.library import Loaded


def read_playbook(name: str) -> Loaded | str:
    """The playbook, or why it cannot be read. For a thread: a person's own playbooks are YAML, which is slow."""
    try:
        return find(load_library(), name)
    except InputError as trouble:
        return str(trouble)


def draw_alert(alert: Alert, playbook: Loaded | str | None, width: int) -> Content:
    rows = [
        *wrapped(clean(alert.text), width),
        part(""),
        part("What to do", "bold"),
        *wrapped(clean(alert.what_to_do), width, 2),
    ]
    if isinstance(playbook, str):
        rows += [part(""), *wrapped(f"Its playbook cannot be read: {clean(playbook)}", width, style="$warning")]
    elif playbook is not None:
        rows += [part(""), *_playbook_rows(playbook, width)]
    return lines(rows)


def _playbook_rows(one: Loaded, width: int) -> list[Content]:
    spec = one.spec
    rows = [part(clean(spec.title), "bold"), *wrapped(" ".join(spec.summary.split()), width, 2)]
    rows += [part(""), part("Likely because", "bold")]
    rows += [row for claim in spec.hypotheses for row in wrapped(f"– {claim.claim}", width, 2)]
    rows += [part(""), part("Fixes", "bold")]
    for fix in spec.fixes:
        change = ", ".join(f"{key} = {value}" for key, value in fix.set.items()) or f"in {len(fix.steps)} steps"
        rows += wrapped(f"– {fix.id}: {change}; risk {fix.risk}", width, 2)
    rows += [part(""), *wrapped(f"vllm-console playbooks show {one.id}", width, 2, "$quiet")]
    return rows
