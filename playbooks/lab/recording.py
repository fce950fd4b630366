"""Writes into a playbook's `tested` what a run of the lab has proved; every other character of the file stays."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

from engine_probe.facts import Known
from playbooks.library import find

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from playbooks.library import Loaded
    from playbooks.session import Session

_BLOCK = re.compile(r"^tested:\n(?:  - .*\n)*", re.MULTILINE)
_UNKNOWN = "unknown"


def record(sessions: Iterable[Session], library: tuple[Loaded, ...], today: date | None = None) -> list[Path]:
    """The playbooks that were changed. A healthy session proves no fix. Raises OSError for a library that is fixed."""
    changed = []
    for session in sessions:
        if session.applied_fix is None or session.verdict is None or not session.causes:
            continue
        path = find(library, session.causes[0].id).path
        text = path.read_text(encoding="utf-8")
        vllm, device = _word(session, "engine.vllm_version"), _word(session, "engine.device")
        new = with_test(text, vllm, device, session.applied_fix, session.verdict, today or date.today())  # noqa: DTZ011
        if new != text:
            path.write_text(new, encoding="utf-8")
            changed.append(path)
    return changed


def with_test(text: str, vllm: str, device: str, fix: str, outcome: str, day: date) -> str:
    """The playbook's text with this run; an older one of the same fix on the same engine gives way to it."""
    same = f"  - {{vllm: {vllm}, device: {device}, date: "
    line = f"{same}{day.isoformat()}, fix: {fix}, outcome: {outcome}}}\n"
    found = _BLOCK.search(text)
    if found is None:
        return f"{text.rstrip()}\n\ntested:\n{line}"
    kept = [one for one in found[0].splitlines(keepends=True) if not (one.startswith(same) and f" fix: {fix}," in one)]
    at = next((n for n, one in enumerate(found[0].splitlines(keepends=True)) if one not in kept), len(kept))
    return text[: found.start()] + "".join([*kept[:at], line, *kept[at:]]) + text[found.end() :]


def _word(session: Session, name: str) -> str:
    fact = session.facts.get(name)
    return str(fact.value) if isinstance(fact, Known) else _UNKNOWN
