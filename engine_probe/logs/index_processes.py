"""Numbers for the processes of a log, one byte each."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_PROCESS = 0
OTHERS = "other processes"
_NEARLY_FULL = 200
_OTHER_PROCESS = 255


class Process(NamedTuple):
    """A process by its tag and pid."""

    name: str
    pid: int | None


class Processes:
    """0 is not known. From the 200th on a process has the number of the last one of its name: a log of many restarts
    has many pids and few names. Should there be more than 254, all others are 255, `other processes`.
    """

    def __init__(self) -> None:
        self.known: list[Process] = [Process("", None)]
        self._numbers: dict[Process, int] = {}
        self._last_of_name: dict[str, int] = {}

    def number(self, name: str | None, pid: int | None) -> int:
        if name is None:
            return UNKNOWN_PROCESS
        number = self._numbers.get(Process(name, pid))
        if number is None and len(self.known) >= _NEARLY_FULL:
            number = self._last_of_name.get(name)
        return self._new(Process(name, pid)) if number is None else number

    def _new(self, process: Process) -> int:
        number = min(len(self.known), _OTHER_PROCESS)
        if number == _OTHER_PROCESS:
            if number == len(self.known):
                self.known.append(Process(OTHERS, None))
            return number
        self.known.append(process)
        self._numbers[process] = self._last_of_name[process.name] = number
        return number
