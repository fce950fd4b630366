"""Which lines of a log must be read to know why its loads failed: of a small log all, of a big one those around errors.

Lines are chosen by the index's columns and by a few words, block by block, so that what says nothing is not even read
from disk.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

from engine_probe.logs.index_classes import CONTINUES, LEVEL_BITS, LEVELS, MARKS, STAGE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.logs.index import LogIndex

_READ_WHOLE_LINES = 40_000
_BEGINNING_LINES = 1500
"""So much of each load that begins in the first lines of a log is read whole."""
_AROUND_LINES = 20
_AROUND_AN_END = (300, 400)
_WIDE_ENDS = 5
"""So many ends of a load are looked around so widely; what comes behind them is told briefly, or again and again."""
_MOST_OF_A_LOAD = 3000
"""Lines around errors that are read of one load; behind them, only the ends are."""
_MOST_OF_A_SERVER = 60
"""A server may answer every request with an error; what ends it says so in one of `END_WORDS`."""
_MOST_ENDS = 60

END_WORDS = (
    *(
        b"failed to start",
        b"hit an exception",
        b"died unexpectedly",
        b"exited unexpectedly",
        b"while processing method",
    ),
    *(
        b"Worker failed",
        b"WorkerProc ",
        b"Error executing method ",
        b"See root cause above",
        b"EngineCore encountered a",
        b"SystemExit",
    ),
    *(b"Engine loop ", b"background task failed", b"Background loop has", b"terminating server", b"EngineDeadError"),
    *(b"exited unexpectedly", b" block found in ", b"run_engine_loop", b"run_busy_loop", b"died, exit code"),
    *(b"This should never happen", b"Engine process (pid", b"Task was killed", b"RayActorError", b"ActorDiedError"),
    *(b"Memory access fault by GPU ", b"Fatal Python error", b"multiprocessing/engine.py"),
    *(b"Frontend process failed", b"KeyboardInterrupt", b"attempting to bind on address", b": error: ", b"$ "),
    *(b"Killed", b"Terminated", b"Segmentation fault", b"Aborted", b"Bus error", b"Illegal instruction"),
    *(b"docker: ", b"nvidia-container-cli: ", b"NVML", b"/usr/bin/ld: ", b"collect2: error", b"Failed: Cuda error"),
)
"""One of them is in every line that ends a load or a server: what `endings.py` calls fatal without a traceback."""
_CAUSE_WORDS = (b"Error", b"Exception", b"Exit", b"Interrupt", b"Traceback (most recent call last)")
"""One of them is in a bare line that names an exception."""

_SERVING = STAGE_NAMES.index("serving")
_CONFIG, _ENGINE_BUILD = STAGE_NAMES.index("config"), STAGE_NAMES.index("engine_build")


def _has_level(code: int, *levels: str) -> bool:
    return code & LEVEL_BITS in [LEVELS.index(level) for level in levels]


_NOT_PLAIN = bytes(bool(code & (CONTINUES | MARKS)) or not _has_level(code, "INFO", "DEBUG") for code in range(256))
_TELLS = bytes(bool(code & MARKS) or _has_level(code, "ERROR", "CRITICAL") for code in range(256))


class Windows:
    """Asked for each block in order, once."""

    def __init__(self, log: LogIndex) -> None:
        self._log = log
        self._given = 0
        """Lines before this one were given, or are not needed."""
        self._ahead = _BEGINNING_LINES
        """Lines before this one are read whatever they are."""
        self._stage = 0
        """The one that was told last."""
        self._serves = False
        """Since the load began that was begun last, something was served."""
        self._of_load = self._ends = 0
        """How often something was found since the load began that was begun last."""
        self.begins: set[int] = set()
        """Lines of the last block that was asked for, where a load begins."""

    def of_block(self, number: int) -> list[range]:
        """The lines to read, in order; they may begin in an earlier block."""
        lines = self._log.blocks.lines_of(number)
        codes, _, stages = self._log.columns(lines.start, lines.stop)
        found = [range(lines.start, self._ahead)]
        self.begins = set()
        for at, is_end in self._telling(number, codes, stages):
            line = lines.start + at
            if codes[at] & MARKS and self._begins_a_load(stages[at]):
                self._of_load = self._ends = 0
                self._serves = False
                self.begins.add(line)
                found.append(range(line, line + (_BEGINNING_LINES if line < _READ_WHOLE_LINES else 1)))
            found.append(self._around(line, is_end, stages[at]))
        self._serves = self._serves or _SERVING in stages
        self._ahead = max(one.stop for one in found)
        return self._joined(found, lines.stop)

    def _telling(self, number: int, codes: bytes | bytearray, stages: bytes | bytearray) -> Iterator[tuple[int, bool]]:
        """Lines of the block that tell something, and whether that may be the end of a load or a server."""
        not_plain = codes.translate(_NOT_PLAIN)
        if 1 not in not_plain:
            return
        content = self._log.blocks.content(number)
        if not content or content.isspace():
            return
        lines = content.split(b"\n")
        picked = list(compress(enumerate(lines), not_plain))
        content = b"\n".join(line for _, line in picked)
        ends = [word for word in END_WORDS if word in content]
        if self._has_enough(codes, stages):
            causes: list[bytes] = []
            tells: bytes | bytearray = bytes(len(codes))
        else:
            causes = [word for word in _CAUSE_WORDS if word in content]
            tells = codes.translate(_TELLS)
        if not (ends or causes or 1 in tells):
            return
        for at, line in picked:
            is_end = any(word in line for word in ends)
            if is_end or tells[at] or any(word in line for word in causes):
                yield at, is_end

    def _has_enough(self, codes: bytes | bytearray, stages: bytes | bytearray) -> bool:
        """Whether nothing but an end is of interest in the block."""
        return max(codes) < MARKS and self._of_load >= self._most(stages[0])

    def _most(self, stage: int) -> int:
        return _MOST_OF_A_SERVER if stage == _SERVING or self._serves else _MOST_OF_A_LOAD

    def _begins_a_load(self, stage: int) -> bool:
        """A front end begins, or an engine that has none."""
        before, self._stage = self._stage, stage
        return (stage == _CONFIG and before != _CONFIG) or (stage == _ENGINE_BUILD and before not in (_CONFIG, stage))

    def _around(self, line: int, is_end: bool, stage: int) -> range:
        if is_end and self._ends < _MOST_ENDS:
            self._ends += 1
            before, behind = _AROUND_AN_END if self._ends <= _WIDE_ENDS else (_AROUND_LINES, 2 * _AROUND_LINES)
            return range(line - before, line + behind)
        if self._of_load >= self._most(stage):
            return range(0)
        self._of_load += 1
        return range(line - _AROUND_LINES, line + _AROUND_LINES)

    def _joined(self, found: list[range], stop: int) -> list[range]:
        """Ranges in order, each line once, none at `stop` or behind it."""
        joined: list[range] = []
        for one in sorted(found, key=lambda one: one.start):
            start, end = max(one.start, self._given), min(one.stop, stop)
            if start >= end:
                continue
            if joined and start == self._given:
                joined[-1] = range(joined[-1].start, end)
            else:
                joined.append(range(start, end))
            self._given = end
        return joined
