"""A plan's changes written to its file, each as a revision, and all of them taken back at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.revisions import undo_revision, write_revision

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine_probe.launch import Deployment
    from engine_probe.revisions import Revision
    from tui.plan_whatif import Changed


@dataclass(frozen=True)
class Saved:
    """Revisions that belong together, oldest first; at least one."""

    path: Path
    revisions: tuple[Revision, ...]

    @property
    def before(self) -> Deployment:
        return self.revisions[0].before

    @property
    def after(self) -> Deployment:
        return self.revisions[-1].after


def save(deployment: Deployment, changes: Sequence[Changed]) -> Saved:
    """`deployment` as it was read from its file. Raises InputError, and then the file is as it was."""
    path = deployment.path
    if path is None:
        raise InputError("these models came from no file: there is none to change")
    revisions: list[Revision] = []
    try:
        for change in changes:
            before = revisions[-1].after if revisions else deployment
            revisions.append(write_revision(path, before, change.launch, change.key, change.value))
    except InputError:
        _take_back(path, revisions)
        raise
    return Saved(path, tuple(revisions))


def undo(saved: Saved) -> Deployment:
    """The file has the bytes it had before; what was kept beside it is gone. Raises InputError."""
    _take_back(saved.path, saved.revisions)
    return saved.before


def _take_back(path: Path, revisions: Sequence[Revision]) -> None:
    for revision in reversed(revisions):
        undo_revision(path, revision)
