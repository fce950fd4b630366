"""Finds exceptions in printed text: the fallback where an exception never passed a logger."""

import re

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PROCESS = re.compile(r"^\((?P<process>[A-Za-z_][\w .=-]*? pid=\d+)[^)]*\) ?")
_LOGGER = re.compile(
    r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[\w./-]+:\d+\]|[\w./-]+:\d+\]) ?"
)
_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>.*)$')
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
_JOINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)


class TracebackReader:
    """Feed it lines; `chains` holds every finished chain as log_tap.exception_chain gives it, in order."""

    def __init__(self):
        self.chains = []
        self._open = {}
        self._last = {}

    def feed(self, line):
        line = _ANSI.sub("", line).rstrip("\r\n")
        match = _PROCESS.match(line)
        process = match.group("process") if match else ""
        line = _LOGGER.sub("", line[match.end() :] if match else line)
        self._feed_of(process, line)

    def _feed_of(self, process, line):
        if line.strip() in _JOINED:
            self._last[process] = "joined"
        elif line.strip() == _START:
            self._open[process] = []
        elif process in self._open:
            self._inside(process, line)
        elif line.strip() and self._last.get(process) == "error" and line.startswith("  "):
            # pydantic and others print the rest of a message indented on the next lines
            last = self.chains[-1][-1]
            last["message"] = (last["message"] + "\n" + line.strip())[:8000]
        elif line.strip():
            self._last.pop(process, None)

    def _inside(self, process, line):
        frame = _FRAME.match(line)
        if frame:
            found = frame.groupdict()
            self._open[process].append(dict(found, line=int(found["line"])))
        elif line and not line.startswith(" "):
            error = _ERROR.match(line)
            frames = self._open.pop(process)
            if error:
                self._finish(process, error, frames)

    def _finish(self, process, error, frames):
        one = {"type": error.group("type"), "message": error.group("message") or "", "frames": frames[-30:]}
        if self._last.get(process) == "joined" and self.chains:
            self.chains[-1].append(one)
        else:
            self.chains.append([one])
        self._last[process] = "error"
