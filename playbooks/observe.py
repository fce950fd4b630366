"""Takes in what a load reports: facts, stages, the root exception, and how it ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from engine_probe.events import (
    ConfigBuilt,
    Ended,
    Event,
    Failed,
    LogRecord,
    MemorySample,
    Ready,
    StageEntered,
    StageLeft,
    Text,
    Warmed,
    Warming,
)
from engine_probe.facts import Known
from engine_probe.logs.lines import read_line
from engine_probe.run_log_lines import line_count
from engine_probe.stage_names import STAGES
from playbooks.context import with_progress
from playbooks.exceptions import exception_line, root_exception
from playbooks.focus import looking_at, turning_to
from playbooks.patterns import compile_pattern
from playbooks.progress import load_log
from playbooks.session import Session, StageTime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.facts import Fact, Source, Value
    from playbooks.context import Context

_GIB = 2**30
_WARMING = "importing vLLM once (warm-up); then "
_OOM_KILLS = "host.oom_kills"
_RELEASE_FACTS = frozenset({"engine.vllm_version"})


def load_begins(session: Session, model: str, context: Context) -> Session:
    """Look at the load that begins; forget what the model's last one printed: no old number stands for a new one."""
    session = turning_to(session, model)
    stale = (context.wordings.fact_names() | {_OOM_KILLS}) - _RELEASE_FACTS
    facts = {name: fact for name, fact in session.facts.items() if name not in stale}
    stages = tuple(StageTime(stage, "not reached") for stage in STAGES)
    session = replace(session, facts=facts, stages=stages)
    return with_progress(
        session,
        loading=model,
        open=(*session.progress.open, model),
        load_number=session.progress.load_number + 1,
        loads={**session.progress.loads, model: session.progress.load_number + 1},
        lines=0,
        failure=None,
        ready=None,
        config_built=False,
        root=None,
        log_checks=(),
    )


def log_file(session: Session, model: str | None = None) -> str:
    """The name under which the case keeps what the last load of `model` prints; None: of the load that is looked at."""
    return load_log(session.progress.loads.get(model or session.progress.loading or "", session.progress.load_number))


def observe(session: Session, event: Event, context: Context) -> Session:
    """The session with `event` taken in. Decides nothing."""
    if isinstance(event, (Warming, Warmed)):
        return _observe_warming(session, event)
    looked_at = session.progress.loading
    if event.model is None or event.model == looked_at or looked_at is None:
        return _observe_load(session, event, context)
    if event.model not in session.progress.aside:
        return session
    return looking_at(_observe_load(looking_at(session, event.model), event, context), looked_at)


def _observe_load(session: Session, event: Event, context: Context) -> Session:
    """Of the load that is looked at."""
    if count := line_count(event):
        session = with_progress(session, lines=session.progress.lines + count)
    if isinstance(event, Text):
        # A record carries the same words and better: the text only gives its line number.
        return _observe_message(session, read_line(event.line).message, session.progress.lines, context)
    if isinstance(event, LogRecord):
        return _observe_record(session, event, context)
    if isinstance(event, (StageEntered, StageLeft)):
        return _observe_stage(session, event)
    if isinstance(event, MemorySample):
        return _observe_memory(session, event)
    return _observe_outcome(session, event, context)


def _observe_warming(session: Session, event: Warming | Warmed) -> Session:
    """Importing vLLM takes longest of all: say that this is what goes on, and what comes after it."""
    running = session.running.removeprefix(_WARMING) if session.running is not None else None
    if isinstance(event, Warming):
        return session if running is None else replace(session, running=_WARMING + running)
    session = replace(session, running=running)
    if not event.vllm_version:
        return session
    return _with_facts(session, {"engine.vllm_version": event.vllm_version}, "measured", "the engine")


def _observe_message(session: Session, message: str, line: int | None, context: Context) -> Session:
    where = log_file(session)
    place = where if line is None else f"{where}:{line}"
    numbers = context.wordings.facts_in(message)
    if numbers:
        session = _with_facts(session, numbers, "parsed", place)
    if session.progress.phase == "verifying":
        session = _observe_log_checks(session, message, context)
    return session


def _observe_log_checks(session: Session, message: str, context: Context) -> Session:
    for cause in session.causes:
        if any(session.applied_fix == fix for one in cause.hypotheses for fix in one.fixes):
            for check in context.playbook(cause.id).verify:
                seen = session.progress.log_checks
                if check.log is None or check.id in seen or not compile_pattern(check.log).search(message):
                    continue
                found = compile_pattern(check.log).search(message)
                named = found.groupdict() if found is not None else {}
                values = {name: text for name, text in named.items() if text is not None}
                session = _with_facts(session, dict(values), "parsed", log_file(session))
                session = with_progress(session, log_checks=(*seen, check.id))
    return session


def _observe_record(session: Session, record: LogRecord, context: Context) -> Session:
    session = _observe_message(session, record.message, None, context)
    return _observe_chain(session, record.exception, context) if record.exception else session


def _observe_chain(session: Session, chain: list[dict[str, object]], context: Context) -> Session:
    """An exception chain, innermost first: the numbers in it, and the root if none was known."""
    for exception in chain:
        session = _observe_message(session, exception_line(exception), None, context)
    root = root_exception(chain, context.wrappers)
    if root is not None and session.progress.root is None:
        session = with_progress(session, root=root)
    return session


def _observe_stage(session: Session, event: StageEntered | StageLeft) -> Session:
    state: Literal["running", "done", "failed"] = "running"
    seconds: float | None = None
    if isinstance(event, StageLeft):
        state, seconds = ("done" if event.completed else "failed"), event.seconds
    stages = tuple(
        StageTime(one.stage, state, seconds if seconds is not None else one.seconds)
        if one.stage == event.stage
        else one
        for one in session.stages
    )
    return replace(session, stages=stages)


def _observe_memory(session: Session, sample: MemorySample) -> Session:
    sizes = {"host.available_gib": _room(sample), "host.total_gib": sample.host_total_bytes}
    if _is_first_look(session, sample):  # before any load has taken much
        sizes["host.room_gib"] = _room(sample)
    sizes["host.ram_limit_gib"] = sample.limit_bytes
    values: dict[str, Value] = {name: round(size / _GIB, 2) for name, size in sizes.items() if size is not None}
    return _with_facts(session, values, "measured", "this host, during the load")


def _is_first_look(session: Session, sample: MemorySample) -> bool:
    """At the memory, or at a limit: a load may join its control group after its start."""
    limit = session.facts.get("host.ram_limit_gib")
    return "host.room_gib" not in session.facts or (sample.limit_bytes is not None and not isinstance(limit, Known))


def _room(sample: MemorySample) -> int | None:
    """Bytes that a load can still have: on the host, and within the limit that it lives under."""
    found = [] if sample.host_available_bytes is None else [sample.host_available_bytes]
    if sample.limit_bytes is not None and sample.limit_used_bytes is not None:
        found.append(sample.limit_bytes - sample.limit_used_bytes)
    return min(found, default=None)


def _observe_outcome(session: Session, event: Event, context: Context) -> Session:
    progress = session.progress
    model = event.model or ""
    if isinstance(event, Ready):
        up = progress.up if model in progress.up else (*progress.up, model)
        session = with_progress(session, ready=event, up=up)
        session = _with_facts(session, {"load.is_serving": True}, "measured", "/health")
        if event.max_model_len is not None:
            session = _with_facts(session, {"engine.max_model_len": event.max_model_len}, "measured", "/v1/models")
        return session
    if isinstance(event, ConfigBuilt):
        return with_progress(session, config_built=True)
    if isinstance(event, Failed):
        session = _observe_chain(session, event.exceptions, context)
        session = _with_facts(session, {"load.is_serving": False}, "measured", "the load failed")
        if event.oom_kills is not None:
            session = _with_facts(session, {_OOM_KILLS: event.oom_kills}, "measured", "the load's control group")
        return with_progress(session, failure=event)
    if isinstance(event, Ended):
        return with_progress(
            session,
            open=tuple(name for name in progress.open if name != model),
            up=tuple(name for name in progress.up if name != model),
        )
    return session


def _with_facts(session: Session, values: Mapping[str, Value], source: Source, origin: str) -> Session:
    new: dict[str, Fact] = {name: Known(value, source, origin) for name, value in values.items()}
    return replace(session, facts={**session.facts, **new})
