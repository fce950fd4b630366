"""The session of a kept case that a playbook is drafted from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from playbooks.kept_cases import find_case
from playbooks.recorded import past_case

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.session import Session


def session_of_case(state: Path, name: str) -> Session:
    """How the case ended. Raises InputError where there is no such case, or it recorded no session."""
    case = find_case(state, name)
    if case.diagnosis is not None:
        raise InputError(f"case {name} is a diagnosis, and has no session: begin one with `vllm-console wizard LOG`")
    past = past_case(case.folder)
    if past.session is None:
        raise InputError(f"case {name} cannot be read: {past.trouble or 'it had not begun'}")
    return past.session
