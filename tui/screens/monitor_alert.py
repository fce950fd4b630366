"""An alert in full: what is wrong, what can be done, and what the playbook knows that explains it."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import structs

from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from engine_probe.launch import Launch
from playbooks.diagnosis_report import change_in_words
from playbooks.evidence_host import HostState, host_facts
from playbooks.filling import fill, needed
from playbooks.library import find, load_library
from playbooks.monitor_json import as_object
from tui.widgets.clean_text import clean
from tui.widgets.words import lines, part, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.content import Content

    from engine_probe.facts import Fact
    from engine_probe.hardware.reading import Reading
    from playbooks.alert import Alert
    from playbooks.library import Loaded
    from playbooks.schema import Fix

_INDEX = re.compile(r"\d+")


def read_playbook(name: str) -> Loaded | str:
    """The playbook, or why it cannot be read. For a thread: a person's own playbooks are YAML, which is slow."""
    try:
        return find(load_library(), name)
    except InputError as trouble:
        return str(trouble)


def draw_alert(
    alert: Alert, playbook: Loaded | str | None, width: int, facts: Mapping[str, Fact] = MappingProxyType({})
) -> Content:
    """`facts` fill in what the playbook's fixes name."""
    rows = [
        *wrapped(clean(alert.text), width),
        part(""),
        part("What to do", "bold"),
        *wrapped(clean(alert.what_to_do), width, 2),
    ]
    if isinstance(playbook, str):
        rows += [part(""), *wrapped(f"Its playbook cannot be read: {clean(playbook)}", width, style="$warning")]
    elif playbook is not None:
        rows += [part(""), *_playbook_rows(playbook, width, facts)]
    return lines(rows)


def facts_of(alert: Alert, reading: Reading) -> Mapping[str, Fact]:
    """What the reading tells of the host, and of the GPU that the alert is about."""
    gpus = tuple(int(number) for number in _INDEX.findall(alert.about)) if alert.about.startswith("GPU") else ()
    launch = Launch(alert.about, "", gpus=gpus[:1]) if gpus else None
    return host_facts(HostState(as_object(reading, ()), "this host, now"), launch)


def _change(fix: Fix, facts: Mapping[str, Fact]) -> str:
    """What is not known is said in words."""
    known = {key: _filled(value, facts) if isinstance(value, str) else value for key, value in fix.set.items()}
    by_hand = None if fix.by_hand is None else _filled(fix.by_hand, facts)
    return change_in_words(structs.replace(fix, set=known, by_hand=by_hand))


def _filled(text: str, facts: Mapping[str, Fact]) -> str:
    wanted = needed(text)

    def lookup(name: str) -> Fact:
        fact = facts.get(name, Unknown("it is not known here"))
        return Known(f"{{{name}}}", "computed", "") if isinstance(fact, Unknown) and name in wanted else fact

    return fill(text, lookup, readable=True)


def _playbook_rows(one: Loaded, width: int, facts: Mapping[str, Fact]) -> list[Content]:
    spec = one.spec
    rows = [part(clean(spec.title), "bold"), *wrapped(" ".join(spec.summary.split()), width, 2)]
    rows += [part(""), part("Likely because", "bold")]
    rows += [row for claim in spec.hypotheses for row in wrapped(f"– {claim.claim}", width, 2)]
    rows += [part(""), part("Fixes", "bold")]
    for fix in spec.fixes:
        rows += wrapped(f"– {fix.id}: {clean(_change(fix, facts))}; risk {fix.risk}", width, 2)
    rows += [part(""), *wrapped(f"vllm-console playbooks show {one.id}", width, 2, "$quiet")]
    return rows
