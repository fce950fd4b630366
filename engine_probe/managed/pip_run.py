"""Runs one long command of an installation: output to the log file, its last line and seconds to the caller."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from engine_probe.engine import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_BEAT_SECONDS = 2.0
_LINES_SHOWN = 12


class CommandError(EngineError):
    """A command of the installation failed; `output` is what that command printed."""

    def __init__(self, title: str, log: Path, output: str) -> None:
        last = "\n".join(f"  {line}" for line in output.splitlines()[-_LINES_SHOWN:])
        super().__init__(f"{title} failed. Last lines of {log}:\n{last}")
        self.output = output


def run_logged(argv: list[str], title: str, log: Path, held_fd: int, beat: Callable[[str], None]) -> None:
    """Run to the end; raises CommandError. `beat` is called every two seconds with the last line printed.

    The command inherits `held_fd`, the lock: should we be killed, the lock stays held until the command ends too,
    so that the next installation does not write beside it. Its output goes to a file, not to a pipe of ours, so
    that our death does not break it half-way through a file.
    """
    start = log.stat().st_size if log.exists() else 0
    with log.open("ab") as sink:
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, pass_fds=(held_fd,)
            )
        except OSError as error:
            raise EngineError(f"{title} failed: {argv[0]} cannot be run: {error.strerror}") from error
        try:
            _wait(process, log, start, beat)
        finally:
            _end(process)
    if process.returncode != 0:
        raise CommandError(title, log, _printed(log, start))


def _wait(process: subprocess.Popen[bytes], log: Path, start: int, beat: Callable[[str], None]) -> None:
    due = time.monotonic()
    while True:
        try:
            process.wait(timeout=_BEAT_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() >= due:
                beat(_last_line(log, start))
                due = time.monotonic() + _BEAT_SECONDS
            continue
        return


def _end(process: subprocess.Popen[bytes]) -> None:
    """After an interrupt: ask the command to end, and insist when it does not."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _printed(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        return file.read().decode("utf-8", "replace")


def _last_line(log: Path, start: int) -> str:
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(start, size - 2000))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return lines[-1].strip()[:200] if lines else ""
