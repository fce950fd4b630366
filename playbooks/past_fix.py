"""The fix that a past case came to, with its value: what `replay CASE` applies where the same cause is found again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.errors import InputError, nearest_word
from engine_probe.redact import MASKED
from playbooks import verifying

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.recorded import PastCase
    from playbooks.session import FixOption, Session

_OF_THIS_HOST = ("files.", "deployment.")
"""Keys whose value is a place, or names of models: the playbook fills it in anew."""


@dataclass(frozen=True)
class PastFix:
    """`value` None: the playbook's own, filled in from what is found."""

    cause: str
    fix: str
    value: str | None
    file: Path | None
    """The deployment of the case."""


def fix_of_case(past: PastCase, fix: str | None = None) -> PastFix:
    """The verified fix, or the one named. Raises InputError where there is none."""
    name, session = past.folder.name, past.session
    if session is None:
        raise InputError(f"case {name} cannot be replayed: {past.trouble or 'nothing happened in it'}")
    option = _chosen(session, name, fix)
    cause = verifying.cause_of_fix(session, option.id).id
    path = past.recording.taken[0].session.deployment.path
    return PastFix(cause, option.id, _value(option), path)


def _chosen(session: Session, name: str, fix: str | None) -> FixOption:
    if fix is not None:
        found = next((one for one in session.fixes if one.id == fix), None)
        if found is None:
            ids = tuple(one.id for one in session.fixes)
            raise InputError(f"case {name} has no fix {fix!r}", allowed=ids, nearest=nearest_word(fix, ids))
        return found
    verified = next((one for one in session.fixes if one.outcome == "verified"), None)
    if verified is None:
        way = f"; its cause can be replayed by name: {session.causes[0].id}" if session.causes else ""
        raise InputError(f"case {name} has no verified fix to replay ({session.verdict or 'not finished'}){way}")
    return verified


def _value(option: FixOption) -> str | None:
    """Steps are computed together, from what is found here; a secret was never kept."""
    if option.steps or option.key.startswith(_OF_THIS_HOST) or MASKED in option.new_value:
        return None
    return option.new_value
