"""Which of several loads is looked at. What was seen of each is kept apart: no number of one stands for another's.

A session shows one load: its stages, its facts, how it ended. Those of the others wait in `Progress.aside`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from playbooks.context import with_progress
from playbooks.progress import Watched

if TYPE_CHECKING:
    from engine_probe.facts import Fact
    from playbooks.session import Session

_OF_ALL = ("host.", "packages", "engine.vllm_version")
"""Facts that are the same for all models of the host."""


def looking_at(session: Session, model: str) -> Session:
    """The session with the load of `model` looked at, which has begun."""
    if model == _looked_at(session) or model not in session.progress.aside:
        return session
    seen = session.progress.aside[model]
    session = _put_aside(session)
    aside = {name: one for name, one in session.progress.aside.items() if name != model}
    session = replace(session, stages=seen.stages, facts={**seen.facts, **_shared(session)})
    return with_progress(
        session,
        loading=model,
        aside=aside,
        lines=seen.lines,
        root=seen.root,
        failure=seen.failure,
        ready=seen.ready,
        config_built=seen.config_built,
        log_checks=seen.log_checks,
    )


def turning_to(session: Session, model: str) -> Session:
    """The session as it is before a new load of `model`: with what is known of that model from before."""
    if model == _looked_at(session):
        return session
    if model in session.progress.aside:
        return looking_at(session, model)
    session = _put_aside(session)
    return replace(session, facts=_shared(session))


def seen_of(session: Session, model: str) -> Watched:
    """What was seen of the last load of `model`; of one that was never loaded nothing."""
    if model == _looked_at(session):
        return _watched(session)
    return session.progress.aside.get(model, Watched())


def still_loading(session: Session) -> tuple[str, ...]:
    """Models that have begun to load, and neither serve nor have ended."""
    progress = session.progress
    return tuple(name for name in progress.open if name not in progress.up)


def _looked_at(session: Session) -> str:
    """Before any load it is the session's model of which something is known."""
    return session.progress.loading or session.model


def _put_aside(session: Session) -> Session:
    return with_progress(session, aside={**session.progress.aside, _looked_at(session): _watched(session)})


def _watched(session: Session) -> Watched:
    progress = session.progress
    own = {name: fact for name, fact in session.facts.items() if not name.startswith(_OF_ALL)}
    return Watched(
        stages=session.stages,
        facts=own,
        lines=progress.lines,
        root=progress.root,
        failure=progress.failure,
        ready=progress.ready,
        config_built=progress.config_built,
        log_checks=progress.log_checks,
    )


def _shared(session: Session) -> dict[str, Fact]:
    return {name: fact for name, fact in session.facts.items() if name.startswith(_OF_ALL)}
