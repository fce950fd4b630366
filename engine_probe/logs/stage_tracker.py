"""Follows the stages of one load that goes on, as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.events import Event, StageEntered, StageLeft
from engine_probe.logs.lines import read_line
from engine_probe.stage_names import STAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.logs.stages import Wordings


class StageTracker:
    """Follows one load. Stages come in any order; one that comes again goes on counting where it stopped."""

    def __init__(self, wordings: Wordings, model: str | None) -> None:
        self._wordings = wordings
        self._model = model
        self._current: str | None = None
        self._entered_at = 0.0
        self._seconds: dict[str, float] = {}

    @property
    def current(self) -> str | None:
        return self._current

    def feed(self, message: str, time: float) -> list[Event]:
        """What `message` changes: mostly nothing, else the stage left and the stage entered.

        `message` is a record's message, or a line as it was printed, prefixes and all. `serving` is never entered
        by a message: only an answer proves it.
        """
        if "\n" not in message:
            message = read_line(message).message
        marker = self._wordings.marker_of(message)
        stage = None if marker is None else marker.enters
        if marker is not None and stage == "serving":
            stage = marker.stage
        if stage is None and self._current is None:
            stage = STAGES[0]
        return self.enter(stage, time) if stage is not None else []

    def enter(self, stage: str, time: float) -> list[Event]:
        """Enter `stage` without a message, such as `serving` when the server answers."""
        if stage == self._current:
            return []
        left = self.finish(time, completed=True)
        self._current, self._entered_at = stage, time
        return [*left, StageEntered(stage=stage, model=self._model, time=time)]

    def finish(self, time: float, completed: bool) -> list[Event]:
        """The load is over, in the stage it is in."""
        if self._current is None:
            return []
        stage, self._current = self._current, None
        total = self._seconds.get(stage, 0.0) + max(0.0, time - self._entered_at)
        self._seconds[stage] = total
        return [StageLeft(stage=stage, seconds=total, completed=completed, model=self._model, time=time)]

    def seconds(self) -> Mapping[str, float]:
        """Seconds of every stage left so far, all its visits together."""
        return dict(self._seconds)
