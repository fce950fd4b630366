"""Reads the logs that a case begins from, in a thread: the causes of all of them, and what they say was launched."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine_probe.errors import InputError, in_words
from engine_probe.logs.sources import parse_source, short_names
from engine_probe.logs.telling import telling_records
from engine_probe.logs.whole import open_source
from playbooks.diagnosis import Given, diagnose
from playbooks.effects import EffectFailed, LogsDiagnosed
from playbooks.evidence import Evidence
from playbooks.launch_from_log import deployment_told
from playbooks.session import Source

if TYPE_CHECKING:
    from engine_probe.logs.records import Record
    from playbooks.context import Context
    from playbooks.diagnosis import Diagnosis
    from playbooks.effects import DiagnoseLogs

_SEVERITY = {"failed": 2, "incomplete": 1, "healthy": 0}


def diagnose_sources(effect: DiagnoseLogs, context: Context, evidence: Evidence) -> LogsDiagnosed | EffectFailed:
    """Each log by itself; what is worst of all counts. Fails where none of them can be read."""
    found: list[Diagnosis] = []
    told: list[Source] = []
    names = short_names([parse_source(word) for word in effect.sources])
    for word, name in zip(effect.sources, names, strict=True):
        try:
            records, about = _read(word, name)
        except (InputError, OSError) as error:
            told.append(Source(name, missing=in_words(error)))
            continue
        told.append(Source(name, about))
        found.append(diagnose(records, context.library, context.wrappers, Given(name, evidence)))
    if not found:
        return EffectFailed(effect, "; ".join(str(one.missing) for one in told))
    diagnosis = _together(found)
    launch = deployment_told(diagnosis.attempts)
    deployment = effect.deployment or launch.deployment
    return LogsDiagnosed(diagnosis, deployment, tuple(told), launch.is_printed, launch.words)


def evidence_of(effect: DiagnoseLogs, given: Evidence | None) -> Evidence:
    """What was given beside the logs."""
    if given is None:
        return Evidence(deployment=effect.deployment, measured=effect.facts)
    return Evidence(
        deployment=effect.deployment, host_state=given.host_state, packages=given.packages, measured=effect.facts
    )


def _read(word: str, name: str) -> tuple[list[Record], str]:
    file = open_source(word)
    size = os.fstat(file).st_size
    records = telling_records(file)
    lines = max((record.last_line for record in records), default=0)
    return records, f"{name}, {lines:,} lines, {size:,} bytes"


def _together(found: list[Diagnosis]) -> Diagnosis:
    """Of several logs one diagnosis: of those that tell of the worst, the causes by confidence."""
    if len(found) == 1:
        return found[0]
    worst = max(found, key=lambda one: (_SEVERITY[one.outcome], bool(one.causes)))
    telling = [one for one in found if one.outcome == worst.outcome]
    return worst._replace(
        causes=tuple(sorted((cause for one in telling for cause in one.causes), key=lambda one: -one.cause.confidence)),
        attempts=tuple(attempt for one in found for attempt in one.attempts),
        missing=tuple(dict.fromkeys(missing for one in telling for missing in one.missing)),
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
        facts={name: fact for one in reversed(telling) for name, fact in one.facts.items()},
    )
