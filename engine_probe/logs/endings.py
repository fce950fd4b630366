"""How a load ended, by its records, and which exception is at the root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from engine_probe.logs.ending_words import EndingWords, ending_words
from engine_probe.logs.lines import PROBE_FAILED, PROBE_LOGGER
from engine_probe.logs.tracebacks import raised_without_traceback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.covers import Wrappers
    from engine_probe.logs.records import Record
    from engine_probe.logs.tracebacks import Raised

_BAD = ("ERROR", "CRITICAL")
_CANNOT_BIND = "error while attempting to bind on address"
_LOOKED_BACK = 50
"""Records before a death in which its exception is looked for."""
_HANGS_AFTER = 2
_BARE = (None, "argparse", "shell", "system")


class Ending(NamedTuple):
    """`root` None: no exception was printed that is no cover. `record`: where the root stands."""

    outcome: Literal["failed", "healthy", "incomplete"]
    root: Raised | None = None
    record: Record | None = None


def ending_of(records: Sequence[Record], covers: Wrappers, is_server: bool) -> Ending:
    """The ending of one attempt. An error after which the load went on, or served, is none."""
    served = next((index for index, record in enumerate(records) if _serves(record, is_server)), None)
    if served is not None:
        return _ending_of_server(records[served + 1 :], covers, is_server)
    went_on = max((index for index, record in enumerate(records) if record.enters is not None), default=-1)
    fatal = [record for index, record in enumerate(records) if _is_fatal(record, went_on > index, covers)]
    if not fatal:
        return Ending("incomplete")
    root, record = _root_of(fatal, covers)
    if root is None:
        until = next(index for index, one in enumerate(records) if one is fatal[-1])
        root, earlier = _root_of(records[: until + 1], covers)
        record = earlier if root is not None else record
    return Ending("failed", root, record)


def _ending_of_server(after: Sequence[Record], covers: Wrappers, is_server: bool) -> Ending:
    """A server that came up fails only by what ends it: a request that went wrong does not, nor a clean shutdown.

    A program of somebody's own, which is no server, ends by an exception that nobody caught.
    """
    words = ending_words()
    asked_at = next((at for at, one in enumerate(after) if _says(words, "asked", one)), len(after))
    died_at = next(
        (at for at, one in enumerate(after[:asked_at]) if _may_tell_death(one) and _tells_death(words, one)), None
    )
    if died_at is not None:
        return Ending("failed", *_root_of_death(after, died_at, covers))
    if not is_server and (uncaught := [one for one in after if one.format is None and one.chains]):
        return Ending("failed", *_root_of(uncaught, covers))
    last = [one for one in after if one.format != "uvicorn_access" and one.logger != PROBE_LOGGER][-_HANGS_AFTER:]
    if len(last) == _HANGS_AFTER and all(_says(words, "hang", one) for one in last):
        return Ending("incomplete", None, last[-1])
    if not any(_ends_a_server(record, covers) for record in after):
        return Ending("incomplete" if any(map(_is_failure_told, after)) else "healthy")
    root, ending = _root_of([one for one in after if _ends_a_server(one, covers)], covers)
    is_end = ending is not None and (ending.format == "shell" or _CANNOT_BIND in ending.message)
    return Ending("failed", root, ending) if root is not None or is_end else Ending("healthy")


def _root_of_death(after: Sequence[Record], died_at: int, covers: Wrappers) -> tuple[Raised | None, Record]:
    """The exception that was told last before the death, or with it; else after it, as other processes write late."""
    before = range(died_at, max(-1, died_at - _LOOKED_BACK), -1)
    for at in (*before, *range(died_at + 1, len(after))):
        for chain in after[at].chains if _is_bad(after[at]) else ():
            root = next((raised for raised in chain if not covers.covers(raised.text)), None)
            if root is not None:
                return root, after[at]
    return None, after[died_at]


def _is_failure_told(record: Record) -> bool:
    """A probe gave it up, or saw it end, whatever the server itself said."""
    return record.logger == PROBE_LOGGER and record.level == "ERROR" and PROBE_FAILED in record.message


def _is_bad(record: Record) -> bool:
    return record.level in _BAD or record.role == "error" or bool(record.chains)


def _may_tell_death(record: Record) -> bool:
    """What the runtimes of Python and of GPUs write as they abort has no level."""
    return _is_bad(record) or record.format is None


def _tells_death(words: EndingWords, record: Record) -> bool:
    frames = (frame for chain in record.chains for raised in chain for frame in raised.frames)
    return _says(words, "death", record) or any(words.says("place", f"{one.file}:{one.function}") for one in frames)


def _says(words: EndingWords, kind: str, record: Record) -> bool:
    texts = (record.message, *(raised.text for chain in record.chains for raised in chain))
    return any(words.says(kind, text) for text in texts)


def _serves(record: Record, is_server: bool) -> bool:
    return record.enters == "serving" or (not is_server and "init.engine_s" in record.facts)


def _is_fatal(record: Record, load_went_on: bool, covers: Wrappers) -> bool:
    if record.format in ("shell", "argparse", "system"):
        return record.format == "shell" or "error" in record.message.lower()
    if record.role == "error" or (record.format is None and record.chains):
        return True
    if record.level not in _BAD:
        return False
    tells = bool(record.chains) or raised_without_traceback(record.message) is not None
    return not load_went_on and (tells or covers.covers(record.message) or record.format == "uvicorn")


def _ends_a_server(record: Record, covers: Wrappers) -> bool:
    if record.format == "shell" or record.role == "error" or _CANNOT_BIND in record.message:
        return True
    return record.level in _BAD and covers.covers(record.message)


def _root_of(records: Sequence[Record], covers: Wrappers) -> tuple[Raised | None, Record | None]:
    """The earliest exception that is no cover, else the earliest message that is none, else the last cover's record."""
    for record in records:
        for chain in record.chains:
            for raised in chain:
                if not covers.covers(raised.text):
                    return raised, record
    told = [one for one in records if one.level in _BAD or (one.format in _BARE and "usage: " not in one.message[:7])]
    plain = next((one for one in told if one.message and not covers.covers(one.message)), None)
    return None, plain or (records[-1] if records else None)
