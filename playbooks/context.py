"""What does not change during a session: the playbooks and the wordings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.stages import read_wordings
from playbooks.facts import lookup_for
from playbooks.library import read_library
from playbooks.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from engine_probe.facts import Fact
    from engine_probe.launch import Deployment, Launch
    from engine_probe.logs.covers import Wrappers
    from engine_probe.logs.stages import Wordings
    from playbooks.conditions import Lookup
    from playbooks.library import Loaded
    from playbooks.schema import Playbook
    from playbooks.session import Cause


@dataclass(frozen=True)
class Context:
    """Handed to every step of the state machine."""

    library: tuple[Loaded, ...]
    wordings: Wordings
    wrappers: Wrappers
    left_out: tuple[str, ...] = ()
    """The person's own playbooks that are wrong, and why, one line a file."""

    def playbook(self, name: str) -> Playbook:
        """The playbook of that id, which some cause came from."""
        return next(one.spec for one in self.library if one.id == name)


def read_context(folders: Sequence[Path] = ()) -> Context:
    """All playbooks that are right, and those in `folders`. Raises InputError where one of these is wrong."""
    read = read_library(folders)
    return Context(read.playbooks, read_wordings(), read_wrappers(), read.left_out_words)


def new_session(
    case: str, deployment: Deployment, grade: str, verify_grade: str, facts: Mapping[str, Fact] | None = None
) -> Session:
    """A session that has not begun. `facts` is what is known before any load."""
    model = deployment.models[0].name
    return Session(case, deployment, model, grade, verify_grade, facts=dict(facts or {}))


def launch_named(deployment: Deployment, name: str) -> Launch:
    """The launch of that name, which the session knows to be there."""
    return next(launch for launch in deployment.models if launch.name == name)


def lookup_of(session: Session, cause: Cause | None = None) -> Lookup:
    """A look-up for the session's model, with the facts that `cause` captured."""
    facts = dict(session.facts)
    if cause is not None:
        facts |= captured_of(session, cause.id)
    return lookup_for(launch_named(session.deployment, session.model), facts)


def grade_to_verify(session: Session) -> str:
    """A warm process has imported the packages as they were: once they are others, loads start from nothing."""
    return "cold" if session.progress.packages_changed else session.verify_grade


def captured_of(session: Session, playbook: str) -> dict[str, Fact]:
    """What the wordings of `playbook` captured in the log of the load that was diagnosed."""
    return dict(session.progress.captured.get(playbook, {}))


def with_progress(session: Session, **changes: object) -> Session:
    """The session with some of its progress changed."""
    return replace(session, progress=replace(session.progress, **changes))  # type: ignore[arg-type]
