"""Turns a block of lines into columns, one byte a line each: level with layer, process, stage.

Speed comes from doing no Python work for single lines: one pattern cuts the telling parts out of every line of a
block (process, level, `[file:line]`, the first letters of the message), each distinct combination is classified
once, and `bytes.translate` turns numbers of combinations into columns.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.logs.index_classes import (
    CONTINUES,
    LAYER_SHIFT,
    LAYERS,
    LEVELS,
    STAGE_NAMES,
    default_classify,
    last_drawn,
    text_of,
    without_colours,
)

if TYPE_CHECKING:
    from engine_probe.logs.index_classes import Classify

    Key = tuple[bytes, ...]

# Process and level; then the place and how the message begins, or how a line of another kind begins, up to a number.
_PLAIN = re.compile(rb"\n(\([^)\n]*\) [A-Z]*|[A-Z]*)(?: \d\d-.{12}(\S*.{0,12})|(\d{0,4}[^\d\n]{0,40}))")

# Where the plain pattern would see only what was put in front of the lines. Containers, journals and supervisors:
_CARRIER = (
    rb"(?:(?:<\d{1,3}>1? ?)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d\S{0,10} \S{1,255} [^:\n]{1,160}: "
    rb"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,40} (?:std(?:out|err) [FP] ?|\S{1,255} [^\s:\[]{1,128}\[\d+\]: )?"
    rb"|@[0-9a-f]{24} |(?:\d\d:\d\d:\d\d )?[A-Za-z0-9][\w.-]{0,80}(?:[-_.]\d{1,4} {0,80}| {2,80})\| ?"
    rb'|\d{1,3}\|[\w.-]{1,60} {1,60}\| |\[(?:pod/)?[a-z0-9][\w.-]{0,160}/[\w.-]{1,160}\] |\{"log": ?")'
)
# VLLM_LOGGING_PREFIX: free text in front of process and level (vLLM 0.6.6 and newer, vllm/logger.py).
_RECORD = rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:"
_TAG = rb"\([^()\n]{1,80} pid=\d+[^()\n]{0,80}\) "
_OWN_PREFIX = rb"(?!" + _TAG + rb"|" + _RECORD + rb")[^\n]{1,120}?(?=(?:" + _TAG + rb")?" + _RECORD + rb")"
_OUTER = rb"(?:" + _CARRIER + rb"){1,3}|" + _OWN_PREFIX
# Python's json formatter in vLLM 0.32 and newer; the order of its keys is fixed.
_JSON = (
    rb'\{"asctime": "[^"\n]*", ("levelname": "[^"\n]*", "name": "[^"\n]*", '
    rb'(?:"process\w*": [^,\n]*, )*"message": ".{0,12})'
)
# NCCL and torch name a host or a rank before the level.
_NAMES_FIRST = rb"[^\s:]{1,255}:\d+:\d+ \[\d+\] .{0,16}|\[rank\d+\]:? ?\[?[A-Z]"
# Ray puts its own tag in front of the process's. Other formats name the logger.
_FINER = re.compile(
    rb"\n(?:" + _OUTER + rb")?(?:" + _JSON + rb"|((?:\([^()\n]*\) )*)([A-Z]*)"
    rb"(?: \d\d-.{12}(\S*.{0,12})|(.{0,8}vllm[\w.]{1,80}.{0,12}|(?:" + _NAMES_FIRST + rb"|\d{0,4})[^\d\n]{0,40})))"
)
_WANTS_FINER = re.compile(rb'\{"asctime": |\([^()\n]*\) \([^()\n]* pid=|' + _NAMES_FIRST + rb"|" + _OUTER)
_OBJECT = re.compile(rb'\{(?!"asctime": "[^"\n]*", "levelname": "|"log": ?")')
"""JSON of unknown order: only reading it as a whole tells what it holds."""

_BEGINS_A_LOAD = re.compile(bytes([91, *(STAGE_NAMES.index(name) for name in ("config", "engine_build")), 93]))
_VERSION = re.compile(rb"(?:server version |LLM engine \(v| version +)(\d[^\s,)]*)")
_MODEL = re.compile(rb"(?:'model(?:_tag)?': |\bmodel=)'([^'\n]{1,1000})'| model   (\S{1,1000})\s*$")

_SAYS_NOTHING = (0, CONTINUES)
_MOST_NUMBERS = 200
"""A byte holds 256; a block seldom brings more than a few new ones."""
_UNKNOWN_PROCESS, _OTHER_PROCESS = 0, 255
_MOST_REMEMBERED = 20_000
_MOST_HEADS_OF_A_FAMILY = 200
_HEAD_THAT_TELLS = 4


class Columns(NamedTuple):
    """One byte a line in each. `codes`: level and layer; `processes`, `stages`: numbers of names."""

    codes: bytes | bytearray
    processes: bytes | bytearray
    stages: bytes | bytearray


class Scanned(NamedTuple):
    """`models`: (line in the block, name) wherever a load tells which model it loads."""

    columns: Columns
    models: tuple[tuple[int, str], ...]


class Process(NamedTuple):
    """A process by its tag and pid. The last of 255 stands for all that came later."""

    name: str
    pid: int | None


class Processes:
    """Numbers for processes; 0 is not known, 255 every one beyond the first 254."""

    def __init__(self) -> None:
        self.known: list[Process] = [Process("", None)]
        self._numbers: dict[Process, int] = {}

    def number(self, name: str | None, pid: int | None) -> int:
        if name is None:
            return _UNKNOWN_PROCESS
        process = Process(name, pid)
        number = self._numbers.get(process)
        if number is None:
            number = self._numbers[process] = min(len(self.known), _OTHER_PROCESS)
            if number < _OTHER_PROCESS:
                self.known.append(process)
            elif number == len(self.known):
                self.known.append(Process("", None))
        return number


class _Numbers(dict["Key", int]):
    """Combination → its number, given out in the order of first sight."""

    def __missing__(self, key: Key) -> int:
        number = self[key] = len(self)
        return number


class _Family:
    """Combinations of one process and place. Past a limit, new ones are taken for the family's plain kind."""

    def __init__(self) -> None:
        self.size = 0
        self.plain: _Packed | None = None
        self.telling: set[bytes] = set()


class _Packed(NamedTuple):
    code: int
    process: int
    stage: int


class Scanner:
    """Scans blocks in any order; what a line takes over from the one before it is left to `Resolver`."""

    def __init__(self, classify: Classify | None = None, version: str | None = None) -> None:
        self._classify = classify or default_classify()
        self.version = version
        """vLLM's release, as the log tells it; None until it does."""
        self.processes = Processes()
        self._pattern = _PLAIN
        self._has_objects = False
        self._packed: dict[Key, _Packed] = {}
        self._families: dict[Key, _Family] = {}
        self._forget()

    def _forget(self) -> None:
        """Begin a new numbering, so that numbers stay below 256."""
        self._numbers = _Numbers()
        self._codes, self._process_numbers, self._stages = bytearray(), bytearray(), bytearray()

    def scan(self, block: bytes) -> Scanned:
        """The columns of `block`, which begins with the line end before it and lacks its own last one."""
        clean = _drawn(without_colours(block))
        columns = self._columns(clean)
        begins = [mark.start() for mark in _BEGINS_A_LOAD.finditer(columns.stages)]
        if not begins:
            return Scanned(columns, ())
        lines = clean.split(b"\n")
        told = [(at, lines[at + 1]) for at in begins]
        version = next((found for _, line in reversed(told) if (found := _told(_VERSION, line))), self.version)
        if version != self.version:
            self.version = version
            self._start_anew()
            columns = self._columns(clean)
        return Scanned(columns, tuple((at, model) for at, line in told if (model := _told(_MODEL, line))))

    def _columns(self, clean: bytes) -> Columns:
        if len(self._numbers) > _MOST_NUMBERS:
            self._forget()
        keys = self._pattern.findall(clean)
        try:
            numbers: bytes | list[int] = bytes(map(self._numbers.__getitem__, keys))
        except ValueError:  # more than 256 combinations
            numbers = list(map(self._numbers.__getitem__, keys))
        if len(self._numbers) > len(self._codes) and not self._learn(clean, numbers):
            return self._columns(clean)
        columns = Columns(*(_column(numbers, one) for one in (self._codes, self._process_numbers, self._stages)))
        return self._with_objects(columns, clean) if self._has_objects and b"\n{" in clean else columns

    def _learn(self, clean: bytes, numbers: bytes | list[int]) -> bool:
        """Classify the combinations that are new; False when this block needs the finer pattern."""
        lines = clean.split(b"\n")
        for number, key in enumerate([*self._numbers][len(self._codes) :], len(self._codes)):
            packed = self._packed.get(key) or self._from_family(key)
            if packed is None:
                line = lines[numbers.index(number) + 1]
                if self._needs_finer(line):
                    return False
                packed = self._remember(key, line)
            self._codes.append(packed.code)
            self._process_numbers.append(packed.process)
            self._stages.append(packed.stage)
        return True

    def _needs_finer(self, line: bytes) -> bool:
        """Switch to the pattern that tells lines like this one apart; it stays for the rest of the log."""
        if self._pattern is _FINER or not _WANTS_FINER.match(line):
            return False
        self._pattern = _FINER
        self._start_anew()
        return True

    def _start_anew(self) -> None:
        self._packed.clear()
        self._families.clear()
        self._forget()

    def _with_objects(self, columns: Columns, clean: bytes) -> Columns:
        """Lines that are JSON of unknown order are classified one by one."""
        codes, processes, stages = (bytearray(column) for column in columns)
        for at, line in enumerate(clean.split(b"\n")[1:]):
            if _OBJECT.match(line):
                codes[at], processes[at], stages[at] = self._pack(line)
        return Columns(codes, processes, stages)

    def _from_family(self, key: Key) -> _Packed | None:
        family = self._families.get(_family_of(key))
        if family is None or family.size < _MOST_HEADS_OF_A_FAMILY or _head_of(key) in family.telling:
            return None
        return family.plain

    def _remember(self, key: Key, line: bytes) -> _Packed:
        packed = self._pack(line)
        if packed.code not in _SAYS_NOTHING and _OBJECT.match(line):
            self._has_objects = True
        if len(self._packed) >= _MOST_REMEMBERED:
            self._packed.clear()
            self._families.clear()
        self._packed[key] = packed
        family = self._families.setdefault(_family_of(key), _Family())
        family.size += 1
        family.plain = family.plain or packed
        if packed != family.plain or packed.stage:
            family.telling.add(_head_of(key))
        return packed

    def _pack(self, line: bytes) -> _Packed:
        found = self._classify(text_of(line), self.version)
        return _Packed(
            LEVELS.index(found.level or "") | LAYERS.index(found.layer) << LAYER_SHIFT | CONTINUES * found.is_bare,
            self.processes.number(found.process, found.pid),
            STAGE_NAMES.index(found.stage or ""),
        )


def version_in(content: bytes) -> str | None:
    """The first release that `content` tells."""
    return _told(_VERSION, content)


def _told(pattern: re.Pattern[bytes], line: bytes) -> str | None:
    found = pattern.search(line)
    return None if found is None else next(part for part in found.groups() if part).decode("utf-8", "replace")


def _family_of(key: Key) -> Key:
    place, bracket, _ = key[-2].partition(b"]")
    return (key[0].partition(b'"message"')[0], *key[1:-2], place if bracket else b"")


def _head_of(key: Key) -> bytes:
    place, bracket, head = key[-2].partition(b"]")
    return (head if bracket else place or key[-1])[:_HEAD_THAT_TELLS]


def _drawn(block: bytes) -> bytes:
    """`block` with every line as a terminal would show it after its carriage returns."""
    if b"\r" not in block or block.count(b"\r") == block.count(b"\r\n") + block.endswith(b"\r"):
        return block
    return b"\n".join([last_drawn(line) if b"\r" in line else line for line in block.split(b"\n")])


def _column(numbers: bytes | list[int], table: bytearray) -> bytes:
    if isinstance(numbers, bytes):
        return numbers.translate(bytes(table).ljust(256, b"\0"))
    return bytes(map(table.__getitem__, numbers))


_RUN_OF_STAGE = re.compile(rb"([^\0])(?:\0|\1)*", re.DOTALL)
_RUN_OF_BARE = re.compile(rb"[\x40-\x7f]+")


class Resolver:
    """Fills in what lines take over from the lines before them; fed block by block, in order."""

    def __init__(self) -> None:
        self._stage = 0
        self._code, self._process = 0, _UNKNOWN_PROCESS

    def resolve(self, columns: Columns) -> Columns:
        """The same columns, with inherited values in place of nothing."""
        codes, processes = self._inherited(columns.codes, columns.processes)
        return Columns(codes, processes, self._stages(columns.stages))

    def _stages(self, marks: bytes | bytearray) -> bytes:
        runs = list(_RUN_OF_STAGE.finditer(marks))
        if not runs:
            return bytes((self._stage,)) * len(marks)
        parts = [bytes((self._stage,)) * runs[0].start()]
        parts += [bytes((marks[run.start()],)) * (run.end() - run.start()) for run in runs]
        self._stage = marks[runs[-1].start()]
        return b"".join(parts)

    def _inherited(
        self, codes: bytes | bytearray, processes: bytes | bytearray
    ) -> tuple[bytes | bytearray, bytes | bytearray]:
        new_codes, new_processes = bytearray(codes), bytearray(processes)
        for run in _RUN_OF_BARE.finditer(codes):
            for at in range(run.start(), run.end()):
                code = new_codes[at - 1] if at else self._code
                owner = new_processes[at - 1] if at else self._process
                if processes[at] in (_UNKNOWN_PROCESS, owner):
                    new_codes[at] = code | CONTINUES
                    new_processes[at] = owner
        if codes:
            self._code, self._process = new_codes[-1], new_processes[-1]
        return new_codes, new_processes
