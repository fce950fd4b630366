"""Turns a block of lines into columns, one byte a line each: level with layer, process, stage.

Speed comes from doing no Python work for single lines: the telling parts of every line are numbered
(`index_keys.py`, here or in a helper), each distinct combination is classified once, and `bytes.translate` turns
numbers of combinations into columns.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.logs.index_classes import (
    CONTINUES,
    LAYER_SHIFT,
    LAYERS,
    LEVELS,
    OF_ONE,
    STAGE_NAMES,
    text_of,
)
from engine_probe.logs.index_keys import Keyer, cleaned, family_of, head_of
from engine_probe.logs.index_processes import Process as Process  # noqa: PLC0414 -- re-exported
from engine_probe.logs.index_processes import Processes as Processes  # noqa: PLC0414

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine_probe.logs.index_classes import Classify
    from engine_probe.logs.index_keys import Key

_OBJECT = re.compile(rb'\{(?!"asctime": "[^"\n]*", "levelname": "|"log": ?")')
"""JSON of unknown order: only reading it as a whole tells what it holds."""

_BEGINS_A_LOAD = re.compile(bytes([91, *(STAGE_NAMES.index(name) for name in ("config", "engine_build")), 93]))
_VERSION = re.compile(rb"(?:server version |LLM engine \(v| version +)(\d[^\s,)]*)")
_MODEL = re.compile(rb"(?:'model(?:_tag)?': |\bmodel=)'([^'\n]{1,1000})'| model   (\S{1,1000})\s*$")

_READS_THE_TABLES = ("", "INFO 03-02 10:11:12 [core.py:1] x", "INFO 03-02 10:11:12 [utils.py:1] x")
"""Lines whose layer takes one table more each."""
_SAYS_NOTHING = (0, CONTINUES)
_MOST_REMEMBERED = 20_000
_MOST_HEADS_OF_A_FAMILY = 200


class Columns(NamedTuple):
    """One byte a line in each. `codes`: level and layer; `processes`, `stages`: numbers of names."""

    codes: bytes | bytearray
    processes: bytes | bytearray
    stages: bytes | bytearray


class Scanned(NamedTuple):
    """`models`: (line in the block, name) wherever a load tells which model it loads."""

    columns: Columns
    models: tuple[tuple[int, str], ...]


class _Packed(NamedTuple):
    code: int
    process: int
    stage: int


class _Family:
    """Combinations of one process and place. Past a limit, new ones are taken for the family's plain kind."""

    def __init__(self) -> None:
        self.size = 0
        self.plain: _Packed | None = None
        self.telling: set[bytes] = set()


class Numbering:
    """What numbers of combinations mean: each combination with a line that has it, and what that line was found to be.

    Numbers begin anew now and then, so that they stay below 256.
    """

    def __init__(self, keys: list[tuple[Key, bytes]]) -> None:
        self.keys = keys
        self.begin_anew(0)

    def begin_anew(self, age: int) -> None:
        """Nothing is known of the combinations any more; `age` is that of what will be known."""
        self.age = age
        self.columns = (bytearray(), bytearray(), bytearray())

    @property
    def known_count(self) -> int:
        return len(self.columns[0])


class Scanner:
    """Scans blocks in order; what a line takes over from the one before it is left to `Resolver`."""

    def __init__(self, classify: Classify | None = None) -> None:
        self._classify = classify
        self._getting_ready = _read_tables() if classify is None else None
        self.version: str | None = None
        """vLLM's release, as the log tells it; None until it does."""
        self.processes = Processes()
        self._keyer = Keyer()
        self._numbering = Numbering([])
        self._has_objects = False
        self._packed: dict[Key, _Packed] = {}
        self._families: dict[Key, _Family] = {}
        self._age = 0
        """Grows when combinations no longer mean what they meant."""

    def get_ready(self) -> bool:
        """Read the tables by which lines are classified, a piece at a time: together they take long. True when done."""
        if self._getting_ready is not None:
            self._classify = next(self._getting_ready)
            if self._classify is not None:
                self._getting_ready = None
        return self._getting_ready is None

    def scan(self, block: bytes) -> Scanned:
        """The columns of `block`, which begins with the line end before it and lacks its own last one."""
        clean = cleaned(block)
        keyed = self._keyer.key(clean)
        if keyed.begins_anew:
            self._numbering = Numbering([])
        self._numbering.keys += keyed.new
        return self.say(self._numbering, keyed.numbers, lambda: clean, has_objects=keyed.has_objects)

    def scan_unfinished(self, block: bytes) -> Scanned:
        """Of a block of one line that may go on. Lines that begin alike are not taken for what it is so far."""
        return Scanned(Columns(*(bytes((value,)) for value in self._pack(cleaned(block)[1:]))), ())

    def say(
        self, numbering: Numbering, numbers: bytes | list[int], content: Callable[[], bytes], *, has_objects: bool
    ) -> Scanned:
        """What a block's numbers mean. `content` reads its lines, cleaned; See `Keyed` for the rest."""
        columns = self._columns(numbering, numbers)
        if has_objects and self._has_objects:
            columns = self._with_objects(columns, content())
        begins = [mark.start() for mark in _BEGINS_A_LOAD.finditer(columns.stages)]
        if not begins:
            return Scanned(columns, ())
        lines = content().split(b"\n")
        told = [(at, lines[at + 1]) for at in begins if at + 1 < len(lines)]
        version = next((found for _, line in reversed(told) if (found := _told(_VERSION, line))), self.version)
        if version != self.version:
            self.version = version
            self._begin_anew()
            columns = self._columns(numbering, numbers)
            if has_objects and self._has_objects:
                columns = self._with_objects(columns, content())
        models = tuple((at, model) for at, line in told if (model := _told(_MODEL, line)))
        return Scanned(columns, models)

    def _begin_anew(self) -> None:
        self._packed.clear()
        self._families.clear()
        self._age += 1

    def _columns(self, numbering: Numbering, numbers: bytes | list[int]) -> Columns:
        if numbering.age != self._age:
            numbering.begin_anew(self._age)
        for key, line in numbering.keys[numbering.known_count :]:
            packed = self._packed.get(key) or self._from_family(key) or self._remember(key, line)
            for column, value in zip(numbering.columns, packed, strict=True):
                column.append(value)
        return Columns(*(_column(numbers, table) for table in numbering.columns))

    def _with_objects(self, columns: Columns, clean: bytes) -> Columns:
        """Lines that are JSON of unknown order are classified one by one."""
        codes, processes, stages = (bytearray(column) for column in columns)
        for at, line in enumerate(clean.split(b"\n")[1 : len(codes) + 1]):
            if _OBJECT.match(line):
                codes[at], processes[at], stages[at] = self._pack(line)
        return Columns(codes, processes, stages)

    def _from_family(self, key: Key) -> _Packed | None:
        family = self._families.get(family_of(key))
        if family is None or family.size < _MOST_HEADS_OF_A_FAMILY or head_of(key) in family.telling:
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
        family = self._families.setdefault(family_of(key), _Family())
        family.size += 1
        family.plain = family.plain or packed
        if packed != family.plain or packed.stage:
            family.telling.add(head_of(key))
        return packed

    def _pack(self, line: bytes) -> _Packed:
        while not self.get_ready():
            pass
        assert self._classify is not None
        found = self._classify(text_of(line), self.version)
        return _Packed(
            LEVELS.index(found.level or "") | LAYERS.index(found.layer) << LAYER_SHIFT | CONTINUES * found.is_bare,
            self.processes.number(found.process, found.pid),
            STAGE_NAMES.index(found.stage or "") | OF_ONE * found.is_of_one,
        )


def _read_tables() -> Iterator[Classify | None]:
    # All together takes as long as scanning twenty megabytes: helpers are started before.
    for name in ("lines", "stages", "index_classify"):
        module = import_module(f"engine_probe.logs.{name}")
        yield None
    classify: Classify = module.default_classify()
    yield None
    for text in _READS_THE_TABLES:
        classify(text, None)
        yield None
    yield classify


def _told(pattern: re.Pattern[bytes], line: bytes) -> str | None:
    found = pattern.search(line)
    return None if found is None else next(part for part in found.groups() if part).decode("utf-8", "replace")


def _column(numbers: bytes | list[int], table: bytearray) -> bytes:
    if isinstance(numbers, bytes):
        return numbers.translate(bytes(table).ljust(256, b"\0"))
    return bytes(map(table.__getitem__, numbers))
