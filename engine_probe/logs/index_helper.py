"""Other cores scan parts of a big file, in processes of their own, while the first part is scanned here.

A helper is given the open file and a part of it; it answers with columns and places of blocks through a nameless
temporary file. It ends with its parent. Whatever goes wrong with one, its part is scanned here instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from engine_probe.logs.index_blocks import BLOCK_BYTES, Cutter, read_at
from engine_probe.logs.index_scan import Columns, Process, Scanned, Scanner, version_in
from engine_probe.logs.index_time import ends_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.logs.index_blocks import Cut
    from engine_probe.logs.index_time import Ends

LEAST_BYTES = 48 << 20
"""Below, a helper's start would cost what it saves."""
_MOST_HELPERS = 3
_HEAD_START = 0.15
"""Of a part: that much more is scanned here, because a helper has to start first."""
_LOOKED_AT_BYTES = 1 << 16


@dataclass(frozen=True)
class ScannedBlock:
    """What is known of a block before it is joined to those before it."""

    start: int
    end: int
    scanned: Scanned
    times: Ends | None
    is_whole: bool = True
    """False: its one line may go on."""


class Helper:
    """One running helper; `stop` is where its part ends."""

    def __init__(self, file: int, start: int, stop: int, version: str | None) -> None:
        self.start, self.stop = start, stop
        self.version = version
        """That it takes the log to be of; what it found holds only where that is so."""
        self._answer: IO[bytes] = tempfile.TemporaryFile(prefix="vllm-console-")  # noqa: SIM115 -- closed by `end`
        argv = [sys.executable, "-m", __name__, str(file), str(start), str(stop), str(os.getpid()), version or ""]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self._answer, stderr=subprocess.DEVNULL, pass_fds=(file,)
        )

    def is_done(self, seconds: float) -> bool:
        """Wait so long at most."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def answer(self) -> Answer | None:
        """What a helper found that is done; None where it failed."""
        if self._process.returncode != 0:
            return None
        self._answer.seek(0)
        return Answer.read(self._answer.read())

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._answer.close()


@dataclass(frozen=True)
class Answer:
    """The blocks of a part, with process numbers as the helper gave them out."""

    version: str | None
    processes: list[Process]
    head: dict[str, Any]
    columns: Columns

    @classmethod
    def read(cls, content: bytes) -> Answer | None:
        head_text, _, body = content.partition(b"\n")
        try:
            head = json.loads(head_text)
        except ValueError:
            return None
        size = len(body) // 3
        columns = Columns(body[:size], body[size : 2 * size], body[2 * size :])
        return cls(head["version"], [Process(name, pid) for name, pid in head["processes"]], head, columns)

    def blocks(self, numbers: bytes) -> Iterator[ScannedBlock]:
        """The blocks in order; `numbers` turns the helper's process numbers into one's own."""
        codes, processes, stages = self.columns
        processes = processes.translate(numbers)
        first = 0
        for start, end, count, times, models in self.head["blocks"]:
            part = slice(first, first + count)
            columns = Columns(codes[part], processes[part], stages[part])
            found = Scanned(columns, tuple((line, name) for line, name in models))
            yield ScannedBlock(start, end, found, None if times is None else _encoded(times))
            first += count


def start_helpers(file: int) -> list[Helper]:
    """Helpers for all but the first part of a big file; none for a small one, or where there is one core."""
    size = os.fstat(file).st_size
    count = min(_MOST_HELPERS, _cores() - 1)
    if size < LEAST_BYTES or count < 1 or not sys.executable:
        return []
    version = version_in(read_at(file, 0, _LOOKED_AT_BYTES))
    shares = count + 1 + _HEAD_START
    starts = [_line_start(file, int(size * (number + _HEAD_START) / shares)) for number in range(1, count + 1)]
    if None in starts or len(set(starts)) < count:
        return []  # lines are too long to part the file
    ends = [*starts[1:], _line_start(file, size - BLOCK_BYTES) or size]
    try:
        return [Helper(file, start, end, version) for start, end in zip(starts, ends, strict=True) if start and end]
    except OSError:
        return []


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _line_start(file: int, place: int) -> int | None:
    """Where the first line behind `place` begins; None when none begins within a block."""
    found = read_at(file, place, BLOCK_BYTES).find(b"\n")
    return None if found < 0 else place + found + 1


def scan_block(scanner: Scanner, start: int, cut: Cut) -> ScannedBlock:
    return ScannedBlock(start, cut.end, scanner.scan(cut.content), ends_of(cut.content), cut.is_whole)


def _encoded(times: list[str]) -> Ends:
    first_day, first_clock, last_day, last_clock = (part.encode() for part in times)
    return first_day, first_clock, last_day, last_clock


def _main(file: int, start: int, stop: int, parent: int, version: str | None) -> None:
    """The helper's side."""
    scanner = Scanner(version=version)
    cutter = Cutter(file, start, stop)
    columns = (bytearray(), bytearray(), bytearray())
    blocks: list[tuple[int, int, int, list[str] | None, tuple[tuple[int, str], ...]]] = []
    place = start
    while (cut := cutter.next()) is not None and cut.is_whole:
        if os.getppid() != parent:
            raise SystemExit(1)
        block = scan_block(scanner, place, cut)
        place = cut.end
        for column, part in zip(columns, block.scanned.columns, strict=True):
            column.extend(part)
        times = None if block.times is None else [part.decode() for part in block.times]
        blocks.append((block.start, block.end, len(block.scanned.columns.codes), times, block.scanned.models))
    if place != stop:
        raise SystemExit(1)
    head = {"version": scanner.version, "processes": scanner.processes.known, "blocks": blocks}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + b"".join(columns))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] or None)
