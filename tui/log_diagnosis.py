"""What is wrong in the log that is looked at, as `diagnose` finds it: of several logs, in each by itself.

diagnosed = diagnose_logs(logs_shown(log), evidence, go_on)    # in a thread; `go_on` raises where nobody waits any more
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.merged import MergedIndex
from engine_probe.logs.telling import telling_records
from playbooks.diagnosis import Given, diagnose
from playbooks.library import load_library
from playbooks.offers import offers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from playbooks.diagnosis import Diagnosis, FoundCause
    from playbooks.evidence import Evidence
    from playbooks.offers import Offer
    from tui.opened_log import OpenedLog


class LogToDiagnose(NamedTuple):
    """`files`: descriptors, this one's own, oldest first. `source`: its number among several logs."""

    source: int
    name: str
    files: tuple[int, ...]


class DiagnosedCause(NamedTuple):
    found: FoundCause
    offers: tuple[Offer, ...]


class DiagnosedLog(NamedTuple):
    """`diagnosis` None: `trouble` says why there is none."""

    source: int
    name: str
    diagnosis: Diagnosis | None
    causes: tuple[DiagnosedCause, ...] = ()
    trouble: str = ""


def logs_shown(log: OpenedLog) -> tuple[LogToDiagnose, ...]:
    """All logs, or the one that is shown alone. Whoever asks has to diagnose them: that closes their files."""
    if not isinstance(log.index, MergedIndex):
        return (LogToDiagnose(0, log.label, tuple(log.index.copied_files())),)
    return tuple(
        LogToDiagnose(source, one.name, tuple(one.log.copied_files()))
        for source, one in enumerate(log.index.logs)
        if log.wanted.source in (None, source)
    )


def line_of(log: OpenedLog, source: int, line: int) -> int | None:
    """Where line `line` (from 1) of a log stands in what is looked at; None where it is not there (any more)."""
    number = log.index.line_of(source, line - 1) if isinstance(log.index, MergedIndex) else line - 1
    return number if number < log.index.line_count else None


def diagnose_logs(
    logs: Sequence[LogToDiagnose], evidence: Evidence, go_on: Callable[[], None]
) -> tuple[DiagnosedLog, ...]:
    """Closes all files, also where `go_on` raises."""
    waiting = list(logs)
    try:
        library, covers = load_library(), read_wrappers()
        found = []
        while waiting:
            go_on()
            one = waiting.pop(0)
            try:
                records = telling_records(_joined(one.files), go_on)
                diagnosis = diagnose(records, library, covers, Given(one.name, evidence))
            except OSError as error:
                found.append(DiagnosedLog(one.source, one.name, None, trouble=f"cannot be read: {error.strerror}"))
                continue
            causes = tuple(DiagnosedCause(cause, offers_of(cause)) for cause in diagnosis.causes)
            found.append(DiagnosedLog(one.source, one.name, diagnosis, causes))
    except InputError as error:  # a playbook of the user's
        found = [DiagnosedLog(one.source, one.name, None, trouble=str(error)) for one in logs]
    finally:
        for one in waiting:
            for file in one.files:
                os.close(file)
    return tuple(found)


def _joined(files: Sequence[int]) -> int:
    """One file of all, in which lines have the numbers that they have in the log: it may have been rotated."""
    if len(files) == 1:
        return files[0]
    with tempfile.TemporaryFile(prefix="vllm-console-") as copy:
        for file in files:
            os.lseek(file, 0, os.SEEK_SET)
            with os.fdopen(file, "rb") as part:
                shutil.copyfileobj(part, copy, 1 << 20)
            if copy.tell() and os.pread(copy.fileno(), 1, copy.tell() - 1) != b"\n":
                copy.write(b"\n")
        copy.flush()
        return os.dup(copy.fileno())
