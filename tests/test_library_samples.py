"""Every sample of every playbook, as the only line of a log: its playbook is among the first three causes.

Wordings that want more than their text (a stage, frames, another message, a fact) are left to the playbooks' own tests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from playbooks.diagnosis import Given, diagnose
from playbooks.library import load_library

RAISED = re.compile(r"[\w.]+(?:Error|Exception|Exit|Warning)\b")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.logs.covers import Wrappers
    from playbooks.library import Loaded
    from playbooks.patterns import CompiledWording


@pytest.fixture(scope="module")
def library() -> tuple[Loaded, ...]:
    return load_library()


@pytest.fixture(scope="module")
def covers() -> Wrappers:
    return read_wrappers()


def is_plain(wording: CompiledWording) -> bool:
    spec = wording.spec
    narrow = spec.stages or spec.frames or spec.along_with or spec.absent or spec.when or spec.at_end or spec.cover
    return not narrow and spec.certainty == "certain" and not spec.quiet


def as_printed(text: str) -> str:
    """What has several lines stands at the end of a traceback: bare lines are a record each."""
    if "\n" not in text or text.startswith("Traceback"):
        return text
    raised = text if RAISED.match(text) else f"ValueError: {text}"
    return f'Traceback (most recent call last):\n  File "/x/y.py", line 1, in z\n{raised}\n'


def plain_samples(playbook: Loaded) -> Iterator[str]:
    for sample in playbook.spec.samples.match:
        first = next((one for one in playbook.wordings if one.captured(sample.line) is not None), None)
        if first is not None and is_plain(first):
            yield as_printed(sample.line)


def test_each_sample_alone_leads_to_its_playbook(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    wrong = []
    for playbook in library:
        for line in plain_samples(playbook):
            found = diagnose(read_text([line]), library, covers, Given("a.log"))
            ids = [one.cause.id for one in found.causes[:3]]
            if playbook.id not in ids:
                wrong.append(f"{playbook.id}: {ids} for {line[:120]!r}")
    assert wrong == []


def test_no_sample_that_must_not_match_does(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    wrong = []
    for playbook in library:
        for sample in playbook.spec.samples.no_match:
            found = diagnose(read_text([sample.line]), (playbook,), covers, Given("a.log"))
            if any(one.cause.id == playbook.id for one in found.causes):
                wrong.append(f"{playbook.id} for {sample.line[:120]!r}")
    assert wrong == []


def test_the_samples_of_other_playbooks_are_not_taken_with_more_confidence(
    library: tuple[Loaded, ...], covers: Wrappers
) -> None:
    """The first cause of a plain sample is its own playbook, or one that is no surer than that."""
    wrong = []
    for playbook in library:
        for line in plain_samples(playbook):
            causes = diagnose(read_text([line]), library, covers, Given("a.log")).causes
            own = next((one.cause.confidence for one in causes if one.cause.id == playbook.id), 0.0)
            wrong += [f"{causes[0].cause.id} takes {line[:100]!r} from {playbook.id}"] * (
                causes[0].cause.confidence > own
            )
    assert wrong == []
