"""What a load said: its messages and exceptions as single texts, each with what decides how much it weighs.

A text is looked at as a whole, so that a pattern may go over line ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from engine_probe.literals import plain
from engine_probe.logs.lines import PROBE_LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.logs.attempts import Attempt
    from engine_probe.logs.covers import Wrappers
    from engine_probe.logs.records import Record
    from engine_probe.logs.tracebacks import Frame, Raised

Place = Literal["root", "same record", "before", "after", "warning", "quiet"]
"""Relative to the root exception; `quiet`: a message that is no complaint."""

_LONGEST_TEXT = 20_000
_COMPLAINTS = ("WARNING", "ERROR", "CRITICAL")
_MOST_SAYINGS = 5_000


@dataclass(frozen=True)
class Saying:
    """`line` counts from 1. `stage` and `layer` are those of its record, None where they are not known."""

    text: str
    line: int
    place: Place
    stage: str | None = None
    layer: str | None = None
    is_cover: bool = False
    frames: tuple[Frame, ...] = ()

    @cached_property
    def plain(self) -> str:
        return plain(self.text)

    @cached_property
    def frames_text(self) -> str:
        """`vllm/v1/worker/gpu_worker.py:init_device`, one a line, outermost first."""
        return "\n".join(f"{frame.file}:{frame.function}" for frame in self.frames)

    @cached_property
    def plain_frames(self) -> str:
        return plain(self.frames_text)


def sayings_of(attempt: Attempt, covers: Wrappers) -> tuple[Saying, ...]:
    """In the order of the log; of an endless one the first and the last. What a probe says of itself is left out."""
    records = (record for record in attempt.records if record.logger != PROBE_LOGGER)
    found = [saying for record in records for saying in _of_record(record, attempt, covers)]
    half = _MOST_SAYINGS // 2
    return tuple(found if len(found) <= _MOST_SAYINGS else found[:half] + found[-half:])


def _of_record(record: Record, attempt: Attempt, covers: Wrappers) -> Iterator[Saying]:
    place = _place_of(record, attempt)
    for chain in record.chains:
        for raised in chain:
            is_root = record is attempt.root_record and raised == attempt.root
            yield Saying(
                text=raised.text[:_LONGEST_TEXT],
                line=min(record.first_line + raised.at, record.last_line),
                place="root" if is_root else place,
                stage=record.stage,
                layer=record.layer,
                is_cover=covers.covers(raised.text),
                frames=_frames_of(raised, record),
            )
    if record.message and not _is_repeated(record):
        yield Saying(
            text=record.message[:_LONGEST_TEXT],
            line=record.first_line,
            place=_place_of_message(record, attempt, place),
            stage=record.stage,
            layer=record.layer,
            is_cover=covers.covers(record.message),
        )


def _place_of(record: Record, attempt: Attempt) -> Place:
    root = attempt.root_record
    if record is root:
        return "same record"
    if record.level in ("INFO", "DEBUG") and not record.chains:
        return "quiet"
    if record.level == "WARNING":
        return "warning"
    if root is None:
        return "before"
    return "before" if record.first_line < root.first_line else "after"


def _place_of_message(record: Record, attempt: Attempt, place: Place) -> Place:
    """Where no exception was printed, a message is all that there is."""
    return "root" if record is attempt.root_record and attempt.root is None else place


def _is_repeated(record: Record) -> bool:
    """A record without words of its own, whose message is that of its exception."""
    return any(record.message == raised.text for chain in record.chains for raised in chain)


def _frames_of(raised: Raised, record: Record) -> tuple[Frame, ...]:
    """Its own; those of the exception around it where it was printed without any."""
    if raised.frames:
        return raised.frames
    return next((one.frames for chain in record.chains for one in chain if one.frames), ())
