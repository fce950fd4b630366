"""Other cores number the lines of a big file, in processes of their own, while it is scanned from its start here.

A helper is given the open file and a part of it, which it works through from the end, chunk by chunk, into a nameless
temporary file. Where the two meet, its chunks are taken over: whoever is faster does more, and nobody waits. It ends
with its parent; where it fails, what is missing is scanned here.
"""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
import tempfile
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import IO

from engine_probe.logs.index_blocks import BLOCK_BYTES, read_at
from engine_probe.logs.index_prescan import FRAME, PreScanned, line_start

LEAST_BYTES = 24 << 20
"""Below, a helper's start would cost what it saves."""
_MOST_HELPERS = 3
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from engine_probe.logs.index_prescan import run; run(sys.argv[2:])"
)
_ROOT = str(Path(__file__).parents[2])


class Helper:
    """One running helper; its part of the file ends at `stop`."""

    def __init__(self, file: int, start: int, stop: int) -> None:
        self.stop = stop
        self._frames: IO[bytes] = tempfile.TemporaryFile(prefix="vllm-console-")  # noqa: SIM115 -- closed by `end`
        self._seen_bytes = 0
        self._chunks: list[tuple[int, int, int]] = []
        """(-start in the log, place and size in the temporary file): those at the end of the part come first."""
        part = [str(number) for number in (file, start, stop, os.getpid())]
        # Without the site module and the environment it starts in half the time.
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _CODE, _ROOT, *part],
            stdin=subprocess.DEVNULL, stdout=self._frames, stderr=subprocess.DEVNULL, pass_fds=(file,),
        )  # fmt: skip

    def done_from(self, position: int) -> int:
        """Where the first chunk at `position` or behind it begins that is done: from there on all are, up to `stop`."""
        self._look()
        before = bisect_left(self._chunks, (1 - position, 0, 0))
        return self.stop if before == 0 else -self._chunks[before - 1][0]

    def _look(self) -> None:
        frames, size = self._frames.fileno(), os.fstat(self._frames.fileno()).st_size
        while self._seen_bytes + FRAME.size <= size:
            start, _, length = FRAME.unpack(read_at(frames, self._seen_bytes, FRAME.size))
            place = self._seen_bytes + FRAME.size
            if place + length > size:
                return
            self._chunks.append((-start, place, length))
            self._seen_bytes = place + length

    def chunk(self, start: int) -> list[PreScanned]:
        """The blocks of a chunk that is done. The helper has nothing to do any more: it is ended."""
        self._process.kill()
        _, place, length = self._chunks[bisect_left(self._chunks, (-start, 0, 0))]
        blocks = marshal.loads(read_at(self._frames.fileno(), place, length))  # noqa: S302 -- our own process wrote it
        return [PreScanned(*block) for block in blocks]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._frames.close()


def start_helpers(file: int) -> list[Helper]:
    """Helpers for a big file, in the order of their parts; none for a small one, or where there is one core.

    The first one's part is twice as long: it is shared with who scans from the start.
    """
    size = os.fstat(file).st_size
    count = min(_MOST_HELPERS, cores() - 1)
    if size < LEAST_BYTES or count < 1 or not sys.executable:
        return []
    places = [size * (number + 1) // (count + 1) for number in range(1, count)]
    ends = [line_start(file, place) for place in (0, *places, size - BLOCK_BYTES)]
    parts = [end for end in ends if end is not None]
    if len(parts) < len(ends) or sorted(set(parts)) != parts:
        return []  # lines are too long to part the file
    try:
        return [Helper(file, start, stop) for start, stop in pairwise(parts)]
    except OSError:
        return []


def cores() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
