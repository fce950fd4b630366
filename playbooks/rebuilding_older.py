"""The recording of an older release: it kept events and decisions, and not what came of effects.

These are made up for: causes are found once more in load-N.log, by the playbooks that there are now, and a change is
what its key says. That is nearly what happened, and it is said.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine_probe.deployment import change, deployment_text
from engine_probe.errors import InputError, in_words
from engine_probe.events import Ready
from playbooks.case import EVENTS
from playbooks.case_file import opened, text_of
from playbooks.context import new_session, with_progress
from playbooks.effects import (
    Diagnose,
    FilesSeen,
    LookAtFiles,
    ReportWritten,
    RevisionUndone,
    RevisionWritten,
    UndoRevision,
    WriteReport,
    WriteRevision,
)
from playbooks.ended_load import diagnose_load
from playbooks.patterns import to_value
from playbooks.progress import load_log
from playbooks.proof import is_standard
from playbooks.rebuilding import Rebuilding, Recording

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.events import Event
    from engine_probe.launch import Deployment
    from playbooks.context import Context
    from playbooks.decisions import Decision
    from playbooks.effects import Done, Effect

OLDER = "an older release kept it without its results: causes are found once more in its logs"


def older_recording(folder: Path, lines: list[bytes], context: Context) -> Recording:
    """As far as it goes. Its `trouble` is never None."""
    try:
        deployment = _deployment(folder)
    except (InputError, OSError) as error:
        return Recording(
            folder, (), None, f"an older release kept it, and its deployment cannot be read: {in_words(error)}"
        )
    rebuilding = _Older(folder, context)
    grade = _grade(lines)
    rebuilding.begin_at(new_session(folder.name, deployment, grade, grade))
    why = None
    for number, line in enumerate(lines, 1):
        why = rebuilding.take(line) if line else None
        if why is not None and not line.endswith(b"}"):
            break  # cut off
        why = why or _made_up(rebuilding, context, folder)
        if why is not None:
            why = f"{EVENTS}:{number}: {why}"
            break
    return Recording(folder, tuple(rebuilding.taken), None, OLDER if why is None else f"{OLDER}; {why}")


class _Older(Rebuilding):
    def feed(self, happening: Event | Decision | Done) -> str | None:
        """Without what did not exist then: checks of every fix, and questions to every model.

        Paths were relative to a folder that is not known: a model's name does not say whose server answers.
        """
        why = super().feed(replace(happening, served_models=[]) if isinstance(happening, Ready) else happening)
        if self.session is not None and why is None:
            checks = tuple(one for one in self.session.checks if not is_standard(one.id))
            requests = tuple(one for one in self.session.progress.requests if not is_standard(one))
            self.session = with_progress(replace(self.session, checks=checks), requests=requests)
        return why


def _deployment(folder: Path) -> Deployment:
    path = folder / "deployment-before.yaml"
    return deployment_text(text_of(path), path, frozenset())


def _grade(lines: list[bytes]) -> str:
    """As its first load was started."""
    for line in lines:
        if b'"event":"started"' in line[:40]:
            with contextlib.suppress(ValueError):
                content: dict[str, Any] = json.loads(line)
                return str(content.get("grade", "cold"))
    return "cold"


def _made_up(rebuilding: Rebuilding, context: Context, folder: Path) -> str | None:
    waiting = list(rebuilding.wanted)
    rebuilding.wanted = ()
    while waiting:
        try:
            done = _done(waiting.pop(0), context, folder)
        except (InputError, OSError) as error:
            return in_words(error)
        why = rebuilding.feed(done) if done is not None else None
        if why is not None:
            return why
        if done is not None:
            waiting += rebuilding.wanted
    rebuilding.wanted = ()
    return None


def _done(effect: Effect, context: Context, folder: Path) -> Done | None:
    """What must have come of it; None where its events tell."""
    if isinstance(effect, Diagnose):
        return diagnose_load(effect, opened(folder / load_log(effect.load_number)), context)
    if isinstance(effect, WriteRevision):
        return RevisionWritten(1, change(effect.before, effect.launch, effect.key, to_value(effect.value)))
    if isinstance(effect, LookAtFiles):
        return FilesSeen(effect.launch.name, "an older release did not look at them")
    if isinstance(effect, UndoRevision):
        return RevisionUndone(effect.before)
    return ReportWritten(str(folder / "report.md")) if isinstance(effect, WriteReport) else None
