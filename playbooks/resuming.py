"""A case that was cut off (kill -9, power, a lost connection), or left undecided, goes on from its last finished step.

found = resumable(state, deployment, prints, context)   # after unverified.take_back, on the file as it is now
found.words                                             # what it goes on from
session = found.session                                 # in the phase `deciding`, nothing running; None: found.stale
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.redact import MASKED
from playbooks import verifying
from playbooks.case import EVENTS, CaseFolder
from playbooks.case_file import open_kept
from playbooks.context import with_progress
from playbooks.diagnose import step
from playbooks.effects import RevisionUndone
from playbooks.fingerprints import changed, kept_fingerprints
from playbooks.fixing import fixes_of
from playbooks.kept_cases import REPORT
from playbooks.owning import is_alive
from playbooks.rebuilding import read_recording

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine_probe.launch import Deployment
    from playbooks.context import Context
    from playbooks.rebuilding import Recording
    from playbooks.session import Session

_OVER = ("healthy", "stopped", "cannot run")
"""Verdicts after which there is nothing to go on with: what was loaded is looked at again."""
_UNDECIDED = (": stopped", ": not verified")
"""How the first line of a report ends where the case can go on."""
_CUT_IN = {
    "observing": "while it loaded the models to see what is wrong",
    "deciding": "between two steps",
    "experimenting": "in an experiment",
    "writing": "while it wrote a change",
    "verifying": "while it verified",
    "undoing": "while it took back",
    "finishing": "before its report was written",
}
_MARKS = (b'{"event":"begun"', b'{"event":"resumed"', b'{"event":"left"')


@dataclass(frozen=True)
class Unfinished:
    """A case without a report, whose console is gone. `file`: the deployment's."""

    case: CaseFolder
    file: Path


@dataclass(frozen=True)
class Resumable:
    """`session` None: it cannot go on, because of `stale`."""

    case: CaseFolder
    words: str
    session: Session | None = None
    stale: str | None = None


def unfinished(state: Path, file: Path | None = None, *, undecided: bool = False) -> Unfinished | None:
    """The newest case (of `file` where that is given), if it was cut off. Older ones do not count any more.

    With `undecided` also one that was left before a fix held.
    """
    wanted = str(file.resolve()) if file is not None else None
    for folder in sorted((state / "cases").glob("*"), reverse=True):
        content = _first_line(folder)
        of = content.get("file")
        if not isinstance(of, str) or wanted not in (None, of):
            continue
        has_ended = (folder / REPORT).exists()
        is_closed = not (undecided and is_undecided(folder)) if has_ended else is_alive(_owner(folder))
        is_over = is_closed or not Path(of).is_file()
        return None if is_over else Unfinished(CaseFolder(folder), Path(of))
    return None


def is_undecided(folder: Path) -> bool:
    """The case ended, and its report says that nothing was decided: somebody left it, or no fix has held so far."""
    try:
        with (folder / REPORT).open(encoding="utf-8", errors="replace") as lines:
            return lines.readline().rstrip().endswith(_UNDECIDED)
    except OSError:
        return False


def still_runs(folder: Path) -> bool:
    """A console works on that case now: it was not cut off."""
    return is_alive(_owner(folder))


def resumable(state: Path, deployment: Deployment, prints: Mapping[str, str], context: Context) -> Resumable | None:
    """The case on this deployment that was cut off; None where there is none, or it had finished no step."""
    if deployment.path is None:
        return None
    found = unfinished(state, deployment.path)
    return resumable_case(found.case, deployment, prints, context) if found is not None else None


def resumable_case(
    case: CaseFolder, deployment: Deployment, prints: Mapping[str, str], context: Context
) -> Resumable | None:
    """The same of one case. None: it had finished no step."""
    recording = read_recording(case.path, context)
    last = _last_finished(recording, context, deployment.digest)
    ended = recording.session
    if last is None or ended is None or last.verdict in _OVER:
        return None
    is_left = ended.progress.phase == "done"
    cut = f"case {case.name} was {'left undecided' if is_left else 'cut off ' + _where(ended)}"
    stale = _why_stale(case, last, deployment, prints)
    if stale is not None:
        return Resumable(case, f"{cut}; all begins anew, because {stale}", stale=stale)
    session = _at_rest(last, ended, deployment, context)
    return Resumable(case, f"{cut}; it goes on from there: {_known(session)}", session)


def _last_finished(recording: Recording, context: Context, digest: str | None) -> Session | None:
    """The last session that waited for a decision; a fix whose check had failed already is one that did not hold.

    Where there is one with the file as it is now, that: a proved fix may have been taken back all the same, because
    its console was killed before it could note that the fix stays.
    """
    rested = [one.session for one in recording.taken if one.session.progress.phase == "deciding"]
    ended = recording.session
    if ended is not None and ended.applied_fix is not None and ended.progress.before is not None:
        phase = ended.progress.phase
        if phase == "undoing" or (phase == "verifying" and verifying.broken(ended.checks)):
            rested.append(
                step(with_progress(ended, phase="undoing"), RevisionUndone(ended.progress.before), context)[0]
            )
    as_it_is = [one for one in rested if one.deployment.digest == digest]
    return (as_it_is or rested)[-1] if rested else None


def _where(session: Session) -> str:
    phase = session.progress.phase
    fix = f" {session.applied_fix}" if session.applied_fix is not None and phase in ("verifying", "undoing") else ""
    return _CUT_IN.get(phase, "") + fix


def _why_stale(case: CaseFolder, session: Session, deployment: Deployment, prints: Mapping[str, str]) -> str | None:
    if session.deployment.digest != deployment.digest:
        return f"{deployment.path} has changed since"
    others = changed(kept_fingerprints(case.path), prints)
    return f"{' and '.join(others)} changed since" if others else None


def _at_rest(session: Session, ended: Session, deployment: Deployment, context: Context) -> Session:
    """Nothing runs any more, and the deployment is the real one: in a recording its secrets are masked."""
    session = with_progress(
        replace(session, deployment=deployment, running=None),
        open=(), up=(), queue=(), loading=None, aside={}, restarting=(), stopping=False, before=None, files=None,
        requests=(), asking=(), trials=(), numbers=(), attempt=0, experiment=None, packages_changed=False,
        load_number=max(session.progress.load_number, ended.progress.load_number),
    )  # fmt: skip
    if any(MASKED in text for one in session.fixes for text in (one.new_value, *(two.new_value for two in one.steps))):
        session = replace(session, fixes=fixes_of(session, context))
    return session


def _known(session: Session) -> str:
    """What need not be done again."""
    words = []
    if session.causes:
        words.append(f"found in {session.model}: {session.causes[0].id}")
    elif session.verdict == "unexplained":
        words.append(f"no playbook explains {session.model}")
    failed = [one.id for one in session.fixes if one.outcome == "did not hold"]
    verified = [one.id for one in session.fixes if one.outcome == "verified"]
    words += [f"{name} did not hold and is not tried again" for name in failed]
    words += [f"{name} is verified" for name in verified]
    return "; ".join(words)


def _first_line(folder: Path) -> dict[str, Any]:
    try:
        with open_kept(folder / EVENTS) as stream:
            return _object(stream.readline())
    except OSError:
        return {}


def _owner(folder: Path) -> dict[str, Any]:
    """Who began it, or went on with it last; empty where that console has left it."""
    last: dict[str, Any] = {}
    for line in _marks(folder):
        last = _object(line) or last
    return last


def _marks(folder: Path) -> Iterator[bytes]:
    try:
        with open_kept(folder / EVENTS) as stream:
            yield from (line for line in stream if line.startswith(_MARKS))
    except OSError:
        return


def _object(line: bytes) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except ValueError:
        return {}
    return content if isinstance(content, dict) and content.get("event") in ("begun", "resumed", "left") else {}
