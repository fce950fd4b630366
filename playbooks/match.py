"""Finds in messages and exception chains what playbooks know. A cover message is never a cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from engine_probe.literals import plain
from engine_probe.logs.layers import layer_of_frames
from engine_probe.redact import mask
from playbooks.claims import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine_probe.facts import Value
    from engine_probe.logs.covers import Wrappers
    from playbooks.library import Loaded
    from playbooks.patterns import CompiledWording

_LONGEST_EVIDENCE = 2_000


class Sighting(NamedTuple):
    """A playbook's wording seen once. `is_other` names a playbook that an `unless` line speaks against."""

    playbook: str
    facts: Mapping[str, Value]
    evidence: Evidence
    is_other: bool = False
    certainty: str = "certain"
    if_unknown: str | None = None
    when: tuple[str, ...] = ()
    """Conditions of the wording: one that is false speaks against it, an unknown one lowers the confidence."""
    vllm: str = ""
    """Release range of the wording."""


def sightings(library: Sequence[Loaded], message: str, evidence: Evidence) -> list[Sighting]:
    """What every playbook sees in one message of a load under way."""
    found: list[Sighting] = []
    text = plain(message)
    for playbook in library:
        if any(other.may_match(text) and other.search(message) for other in playbook.unless):
            found.append(Sighting(playbook.id, {}, evidence, is_other=True))
            continue
        for wording in playbook.wordings:
            facts = wording.captured(message) if _is_loud(wording) and wording.may_match(text) else None
            if facts is not None:
                spec = wording.spec
                found.append(
                    Sighting(
                        playbook.id,
                        facts,
                        evidence,
                        False,
                        spec.certainty,
                        spec.if_unknown,
                        tuple(spec.when),
                        spec.vllm,
                    )
                )
    return found


def _is_loud(wording: CompiledWording) -> bool:
    """Whether it counts wherever it is said: the others want to know what else the load says."""
    spec = wording.spec
    return not (spec.quiet or spec.at_end or spec.cover or spec.frames or spec.along_with or spec.absent or spec.stages)


def matched(seen: Iterable[Sighting]) -> dict[str, list[Sighting]]:
    """Sightings by playbook, without those that an `unless` line speaks against, in the order first seen."""
    ruled_out = {one.playbook for one in seen if one.is_other}
    groups: dict[str, list[Sighting]] = {}
    for one in seen:
        if one.playbook not in ruled_out:
            groups.setdefault(one.playbook, []).append(one)
    return groups


def evidence_of(group: Sequence[Sighting]) -> tuple[Evidence, ...]:
    """Each text once, and with its line number where one sighting has it."""
    by_text: dict[str, Evidence] = {}
    for one in group:
        key = _core(one.evidence.text)
        known = by_text.get(key)
        if known is None or (known.line is None and one.evidence.line is not None):
            by_text[key] = one.evidence
    return tuple(by_text.values())


def make_evidence(file: str, line: int | None, text: str) -> Evidence:
    """Evidence with a text of bounded length, secrets masked."""
    return Evidence(file, line, mask(text if len(text) <= _LONGEST_EVIDENCE else text[:_LONGEST_EVIDENCE] + " …"))


def exception_line(exception: Mapping[str, Any]) -> str:
    """`ValueError: the message`, as a traceback ends."""
    kind, message = str(exception.get("type", "")), str(exception.get("message", ""))
    short = kind.rsplit(".", 1)[-1]
    return f"{short}: {message}" if message else short


def first_words(message: str) -> str:
    """What tells one message from another: the beginning of its first line."""
    return message.partition("\n")[0].strip()[:300]


def root_exception(chain: Sequence[Mapping[str, Any]], wrappers: Wrappers) -> Mapping[str, Any] | None:
    """The innermost exception of a chain that is no cover message."""
    return next((one for one in chain if not wrappers.covers(exception_line(one))), None)


def layer_of_exception(exception: Mapping[str, Any]) -> str | None:
    """The layer that raised it; None when its frames do not tell."""
    frames = exception.get("frames") or []
    layer = layer_of_frames(frames) if frames else "unknown"
    return None if layer == "unknown" else layer


def _core(text: str) -> str:
    """What is the same when a message is printed with and without its prefix and exception type."""
    return re.sub(r"^.*?\b\w+(?:Error|Exception): ", "", text)[:300]
