"""Joins lines to records, process by process, and gives each a layer, a stage and its exceptions.

Feed lines in the order of the file. A record comes out once it is known to be complete, so a little later than its last
line; `finish` gives the rest.
"""

from __future__ import annotations

import codecs
import copy
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.logs import joining
from engine_probe.logs.frames import stage_of_chains
from engine_probe.logs.layers import layer_of_record
from engine_probe.logs.lines import Line, read_line
from engine_probe.logs.owners import Owners
from engine_probe.logs.progress import Progress
from engine_probe.logs.stages import Wordings, read_wordings
from engine_probe.logs.tracebacks import Chain, chains_in, head_of, raised_without_traceback

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.facts import Value
    from engine_probe.logs.stages import Found

_STALE_AFTER_LINES = 500
_VLLM_FORMATS = ("vllm", "vllm_0.7")


class Record(NamedTuple):
    """What was logged at once. `first_line` and `last_line` as fed; None where the text does not tell."""

    first_line: int
    last_line: int
    message: str
    """Without the traceback; of several lines where the record has them."""
    level: str | None = None
    layer: str | None = None
    stage: str | None = None
    """The stage that its exception's frames or its message tell, else the one its process (or load) was in."""
    process: str | None = None
    pid: int | None = None
    rank: int | None = None
    is_process_inferred: bool = False
    """From 0.31.0 bare lines name no process: it is then that of the traceback's frames, or of the lines before."""
    file: str | None = None
    line: int | None = None
    logger: str | None = None
    time: str | None = None
    stamp: str | None = None
    format: str | None = None
    source: str | None = None
    repeats: int = 1
    chains: tuple[Chain, ...] = ()
    """Exceptions, each chain innermost cause first."""
    facts: Mapping[str, Value] = {}
    enters: str | None = None
    """The stage that the load is in from here on, where the message tells."""
    role: str | None = None


class Reader:
    """Lines in, records out. `version` is what is known of vLLM's release before the log tells it."""

    def __init__(self, version: str | None = None, wordings: Wordings | None = None) -> None:
        self.version = version
        self._wordings = wordings or read_wordings()
        self._open: dict[joining.Owner, joining.Open] = {}
        self._has_returns = False
        self._owners = Owners()
        self._progress = Progress()

    def feed(self, line_no: int, text: str) -> list[Record]:
        """Take one line, with or without its end; the records that it completes."""
        line = read_line(text)
        self._has_returns |= line.is_continued and line.format in _VLLM_FORMATS
        owner = joining.owner_of(line)
        done: list[joining.Open] = []
        is_open = self._open.get(owner)
        if is_open is not None and is_open.takes(line, self._has_returns):
            is_open.add(line_no, line)
        elif joining.is_blank(line):
            done += [is_open] if is_open is not None else []
            self._open.pop(owner, None)
        elif joining.is_alone(line):
            done.append(self._begun(line_no, line))
        else:
            if is_open is not None:
                done.append(is_open)
            self._open[owner] = self._begun(line_no, line)
        if line_no % _STALE_AFTER_LINES == 0:
            done += self._stale(line_no)
        return [self._record(one) for one in done]

    def finish(self) -> list[Record]:
        """The records that were still open. The reader can be fed on; a record that goes on is then cut."""
        rest = sorted(self._open.values(), key=lambda one: one.first_line)
        self._open = {}
        return [self._record(one) for one in rest]

    def copied(self) -> Reader:
        """A reader that knows the same and can be fed and finished without changing this one."""
        return copy.deepcopy(self, {id(self._wordings): self._wordings})

    def _stale(self, line_no: int) -> list[joining.Open]:
        old = [owner for owner, one in self._open.items() if one.last_line < line_no - _STALE_AFTER_LINES]
        return [self._open.pop(owner) for owner in old]

    def _begun(self, line_no: int, line: Line) -> joining.Open:
        """A record as it begins: what its first line tells holds for the lines after it, whenever the record ends."""
        one = joining.Open(line_no, line)
        one.found = tuple(self._wordings.matches(line.message))
        self._see_version(one.found)
        one.stage = self._progress.take(line, self._wordings.best_of(one.found), self.version)
        one.version = self.version
        one.neighbour = self._owners.begun(line)
        return one

    def _found_in(self, one: joining.Open, message: str) -> tuple[Found, ...]:
        """What the whole message tells; its first line was already asked."""
        if message == one.line.message:
            return one.found
        found = tuple(self._wordings.matches(message))
        if (marker := self._wordings.best_of(found)) is not None and marker is not self._wordings.best_of(one.found):
            self._see_version(found)
            one.stage = self._progress.take(one.line, marker, self.version)
        return found

    def _record(self, one: joining.Open) -> Record:
        line, texts = one.line, one.texts
        chains = chains_in(texts) if len(texts) > 1 else []
        if not chains and line.format is None and (alone := raised_without_traceback(texts[0])) is not None:
            chains = [(alone,)]
        message = "\n".join(head_of(texts) if chains else texts).strip("\n") if len(texts) > 1 or chains else texts[0]
        message = message or (chains[-1][-1].text if chains else "")
        found = self._found_in(one, message)
        facts = {name: value for marker, match in found for name, value in marker.facts_in(match).items()}
        marker = self._wordings.best_of(found)
        who = self._owners.of(one, message, chains)
        layer = layer_of_record(
            line, message, chains, one.version, None if marker is None else marker.layer, who.process
        )
        told = marker.stage if marker is not None and marker.role != "error" else None
        return Record(
            first_line=one.first_line,
            last_line=one.last_line,
            message=message,
            level=line.level,
            layer=None if layer == "unknown" else layer,
            stage=stage_of_chains(chains) or told or one.stage,
            process=who.process,
            pid=who.pid,
            rank=who.rank,
            is_process_inferred=who.is_inferred,
            file=line.file,
            line=line.line,
            logger=line.logger,
            time=line.time,
            stamp=line.stamp,
            format=line.format,
            source=line.source,
            repeats=line.repeats,
            chains=tuple(chains),
            facts=facts,
            enters=None if marker is None else marker.enters,
            role=None if marker is None else marker.role,
        )

    def _see_version(self, found: Iterable[Found]) -> None:
        for marker, match in found:
            version = marker.facts_in(match).get("engine.vllm_version")
            if version is not None:
                self.version = str(version)


def read_text(
    parts: Iterable[bytes | str], version: str | None = None, wordings: Wordings | None = None
) -> list[Record]:
    """All records of a text that comes in parts, cut anywhere; bytes that are no UTF-8 become �. Lines count from 1."""
    reader = Reader(version, wordings)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    records: list[Record] = []
    rest, number = "", 0
    for part in parts:
        lines = (rest + (part if isinstance(part, str) else decoder.decode(part))).split("\n")
        rest = lines.pop()
        for number, line in enumerate(lines, number + 1):  # noqa: B020 - goes on counting
            records += reader.feed(number, line)
    rest += decoder.decode(b"", final=True)
    if rest:
        records += reader.feed(number + 1, rest)
    return sorted([*records, *reader.finish()], key=lambda one: (one.first_line, one.last_line))
