"""A program that prints a log and ends with this process: docker, journalctl, kubectl."""

from __future__ import annotations

import ctypes
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from types import TracebackType

    from engine_probe.logs.sources import Source

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_POLITE_SECONDS = 2.0


class Child:
    """A program that prints a log, from `start` to `end` or as a block. It ends with this process however that ends."""

    def __init__(self, source: Source, *, follow: bool) -> None:
        self.source = source
        self._argv = source.argv(follow=follow)
        if shutil.which(self._argv[0]) is None:
            raise InputError(f"{source.label}: {self._argv[0]} is not on PATH")

    def __enter__(self) -> Child:
        self.start()
        return self

    def start(self) -> None:
        """Raises InputError where it cannot be run. Call it on the main thread: it ends with the calling one."""
        # Both streams: vLLM logs to stdout, tracebacks go to stderr, and `docker logs` keeps them apart.
        try:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 -- one system call, no lock is taken
            )
        except OSError as error:
            raise InputError(f"{self.source.label}: cannot run {self._argv[0]}: {error.strerror or error}") from error

    @property
    def command(self) -> str:
        return " ".join(self._argv)

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    @property
    def output(self) -> int:
        """The descriptor to read from."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def failure(self, printed: str = "") -> str | None:
        """Once its output has ended: why it failed, None when it did not. `printed`: its end, with its own reason."""
        code = self._process.wait()
        if not code:
            return None
        reason = next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "")
        return f"{self.source.label}: {self.command} ended with exit code {code}" + (f": {reason}" if reason else "")

    def nothing_printed(self) -> str | None:
        """Of a unit that there is not journalctl prints nothing and is content with that; others say so themselves."""
        if self.source.kind != "unit":
            return None
        return (
            f"{self.source.label}: {self.command} printed nothing: there is no unit {self.source.name}, it never "
            f"logged, or this user may not read its journal (systemctl status {self.source.name}; sudo, or the group "
            "systemd-journal)"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(_POLITE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
