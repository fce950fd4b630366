"""What the log of one server has told of its load so far: stage, sizes by process, release. Fed line by line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine_probe.escapes import safe_lines
from engine_probe.facts import Known
from engine_probe.hardware.server_failure import Failure
from engine_probe.redact import mask

if TYPE_CHECKING:
    from engine_probe.facts import Value
    from engine_probe.logs.lines import Line
    from engine_probe.logs.stages import Wordings

_COUNT = re.compile(r"(?P<done>\d{1,7})/(?P<all>\d{1,7}) \[")
_BARS = (
    (re.compile(r"Loading (?:\S+ )?\S* ?checkpoint shards|Multi-thread loading \S* ?shards"), "weight_load", "shards"),
    (re.compile(r"Capturing (?:CUDA graph|cudagraphs)"), "warmup", "CUDA graphs"),
    (re.compile(r"(?:Fetching|Downloading) .{0,200}files"), None, "files fetched"),
)
# uvicorn's words, and vLLM's from v1/engine/core.py, when a server is asked to end.
_ENDING = re.compile(
    r"^(?:Shutting down|Waiting for application shutdown|Application shutdown complete|Finished server)"
)
_SIZES = {"weights.gib": "weights", "kv.available_gib": "pools", "graphs.gib": "graphs"}


@dataclass
class Load:
    """Sizes are by the pid that printed them; None: the line names none."""

    stage: Known | None = None
    stage_time: str | None = None
    """When it came to that stage, as its log writes times; None where no line before has one."""
    last_time: str | None = None
    detail: str = ""
    is_up: bool = False
    is_ending: bool = False
    version: Known | None = None
    model: Known | None = None
    kv_tokens: Known | None = None
    weights: dict[int | None, Known] = field(default_factory=dict)
    pools: dict[int | None, Known] = field(default_factory=dict)
    graphs: dict[int | None, Known] = field(default_factory=dict)
    failure: Failure = field(default_factory=Failure)

    def begin(self) -> None:
        """Another load begins: nothing of one before holds."""
        fresh = Load()
        for name in vars(fresh):
            setattr(self, name, getattr(fresh, name))

    def take(self, line: Line, wordings: Wordings, origin: str, text: str = "") -> None:
        """`text` is the line as it was printed."""
        self.last_time = line.time or self.last_time
        found = list(wordings.matches(line.message))
        marker = wordings.best_of(found)
        if marker is not None and marker.enters == "config" and marker.role == "start" and not self._is_at_config():
            self.begin()
        if marker is not None and marker.enters is not None and not self.is_up:
            self.is_up = marker.enters == "serving"
            self._enter(marker.enters, origin, text)
        self._see_end(line, text, origin)
        self.draw(line.message)
        for one, match in found:
            for name, value in one.facts_in(match).items():
                self._keep(name, value, line.pid, origin)

    def take_beside(self, line: Line, wordings: Wordings, origin: str, text: str = "") -> None:
        """Of a line that stands in no order to the others: what holds whenever it was printed."""
        marker = wordings.marker_of(line.message)
        if marker is not None and marker.enters == "serving":
            self.is_up = True
            self._enter("serving", origin, text)
        self._see_end(line, text, origin)
        self.draw(line.message)

    def _see_end(self, line: Line, text: str, origin: str) -> None:
        """What breaks after it was asked to end is no failure."""
        if _ENDING.match(line.message):
            self.is_ending = True
        if not self.is_ending:
            self.failure.take(line, text, origin)

    def _is_at_config(self) -> bool:
        """The banner has several lines, and each of several API servers may print one."""
        return self.stage is not None and self.stage.value == "config"

    def _enter(self, stage: str, origin: str, text: str) -> None:
        """A rank that is behind may tell of the same stage after another one has failed: it does not go on then."""
        if self.stage is None or self.stage.value != stage:
            self.stage, self.detail = Known(stage, "parsed", origin), ""
            self.stage_time = self.last_time
            self.failure.go_on(text, is_up=stage == "serving")

    def draw(self, message: str) -> None:
        """A progress bar, which may be a line that is not finished yet."""
        if self.is_up or (count := _COUNT.search(message)) is None:
            return
        for pattern, stage, what in _BARS:
            if pattern.search(message):
                if stage is None or self.stage is None or self.stage.value == stage:
                    self.detail = f"{int(count['done'])} of {int(count['all'])} {what}"
                return

    def _keep(self, name: str, value: Value, pid: int | None, origin: str) -> None:
        if name == "engine.vllm_version":
            self.version = _text(value, origin)
        elif name == "engine.model":
            self.model = _text(value, origin)
        elif name == "kv.tokens":
            self.kv_tokens = Known(value, "parsed", origin)
        elif name in _SIZES and isinstance(value, (int, float)) and 0 <= value < 1e6:
            sizes: dict[int | None, Known] = getattr(self, _SIZES[name])
            sizes[pid] = Known(float(value), "parsed", origin)


def _text(value: Value, origin: str) -> Known:
    return Known(safe_lines(mask(str(value)[:500])), "parsed", origin)
