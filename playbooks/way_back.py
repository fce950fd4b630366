"""Which files a fix changes, where they are kept as they were, and how to go back by hand."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.outside.keys import is_outside
from engine_probe.revisions import next_kept
from playbooks.proof import with_own_fault

if TYPE_CHECKING:
    from engine_probe.launch import Deployment
    from playbooks.session import FixOption, Session


def will_change(deployment: Deployment, fix: FixOption | None = None) -> tuple[str, ...]:
    """Before a fix is applied: `FILE will be changed; as it is now it stays as FILE.r1`. Empty without a file.

    Also where the whole of `fix` lies outside that file: what it does is among its commands.
    """
    if deployment.path is None or (fix is not None and lies_outside(fix)):
        return ()
    try:
        kept = next_kept(deployment.path)
    except OSError:  # a folder that cannot be listed: writing will say so
        return (f"{deployment.path} will be changed",)
    return (f"{deployment.path} will be changed; as it is now it stays as {_beside(deployment.path, kept)}",)


def way_on(session: Session) -> str | None:
    """The command that goes on with a case that ended before a fix held, or with what else is wrong; None: nothing."""
    path = session.deployment.path
    if path is None:
        return None
    if session.verdict == "verified" and with_own_fault(session.checks):
        return f"vllm-console wizard --deployment {shlex.quote(str(path))}"
    is_open = session.verdict in ("stopped", "not verified") and session.symptom is not None
    if not is_open or not session.case or session.log_sources:
        return None
    return f"vllm-console wizard --resume {session.case}"


def when_cut_off(session: Session) -> tuple[str, ...]:
    """What a person who interrupts a session has to know: how the file is now, and how it goes on."""
    path = session.deployment.path
    if path is None:
        return ()
    stays = session.verdict == "verified"
    file = is_changed(session) if stays else (f"{path} is as it was before the case",)
    return (*file, *(() if session.symptom is None else ("the same command goes on from the last finished step",)))


def is_changed(session: Session, *, from_anywhere: bool = False) -> tuple[str, ...]:
    """While a fix stays: `FILE is changed; as it was: FILE.r1`, and the command that goes back. Else empty.

    Then the same of what it has changed outside the file.

    `from_anywhere` names the files in full, for a text that is read later and elsewhere.
    """
    path = session.deployment.path
    if session.kept_file is None or path is None:
        return session.outside
    kept = Path(session.kept_file)
    kept = kept if from_anywhere else _beside(path, kept)
    file = changed_file(kept)
    return (
        f"{file} is changed; as it was: {kept}",
        f"to go back: mv {shlex.quote(str(kept))} {shlex.quote(str(file))}",
        *session.outside,
    )


def lies_outside(fix: FixOption) -> bool:
    """All of it: the deployment's file stays as it is."""
    return all(map(is_outside, tuple(one.key for one in fix.steps) or (fix.key,)))


def changed_file(kept: Path) -> Path:
    """The file whose content before is in `kept`: FILE of FILE.r1."""
    return kept.with_suffix("")


def _beside(path: Path, kept: Path) -> Path:
    """`kept` written as `path` was, unless `path` is a link to another file."""
    short = path.with_name(kept.name)
    return short if changed_file(short) == path and short.resolve() == kept.resolve() else kept
