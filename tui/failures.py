"""The end of a command that did not end well: what is said on stderr, and the exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine_probe.numbers import shortened
from engine_probe.redact import mask
from tui.output import printable
from tui.streams import StreamError, drop_what_is_left, say_at_last

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = 2
ENGINE_CANNOT_RUN = 4
INTERNAL = 70
"""EX_SOFTWARE of sysexits.h: none of the contract's codes, so that a script can tell a bug from a finding."""
INTERRUPTED = 130
BROKEN_PIPE = 141
_LONGEST_REASON = 200


def report(error: BaseException, words: Sequence[str]) -> int:
    """Say what `error` means to a person and return the exit code. A traceback goes to a file only."""
    code = _expected_end(error)
    if code is None:
        code = _end_without_room(error)
    if code is not None:
        return code
    from engine_probe.engine import EngineError  # noqa: PLC0415 -- only when something went wrong
    from engine_probe.errors import InputError  # noqa: PLC0415

    if isinstance(error, InputError):
        note(f"Error: {error}")
        return USAGE
    if isinstance(error, EngineError):
        note(f"Error: {error}")
        return ENGINE_CANNOT_RUN
    note(internal_error(error, words))
    return INTERNAL


def internal_error(error: BaseException, words: Sequence[str]) -> str:
    """A bug of ours in one masked line, which names the file that keeps its traceback. `words`: the command."""
    first_line = shortened(mask((str(error).splitlines() or [""])[0]), _LONGEST_REASON)
    kept = _keep_traceback(error, words)
    return mask(f"internal error: {type(error).__name__}: {first_line}, {kept}")


def note(text: str) -> None:
    say_at_last(printable(mask(text)))


def _expected_end(error: BaseException) -> int | None:
    """The code of an end that needs no explanation, or only click's own; None for all others."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return _code_of_exit(error)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        note("stopped")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError) and _reader_is_gone():
        drop_what_is_left(sys.stdout.fileno())
        return BROKEN_PIPE
    if isinstance(error, click.ClickException):
        said = io.StringIO()
        error.show(said)
        for line in said.getvalue().splitlines():
            note(line)
        return error.exit_code
    return None


def _end_without_room(error: BaseException) -> int | None:
    """The code where a standard stream or a disk takes no more; None for all other ends."""
    if isinstance(error, StreamError):
        note(f"Error: {error}")
        drop_what_is_left(error.descriptor)
        return USAGE
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        note(f"Error: {error.filename or 'a file that was being written'}: {error.strerror}")
        return USAGE
    return None


def _reader_is_gone() -> bool:
    """Tells our own stdout from another pipe that broke, such as one to a child."""
    import select  # noqa: PLC0415 -- here and below: only when something went wrong

    asked = select.poll()
    try:
        asked.register(sys.stdout.fileno(), select.POLLOUT)
    except (OSError, ValueError):  # no stdout, or none with a descriptor
        return False
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in asked.poll(0))


def _code_of_exit(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    note(str(error.code))
    return 1


def _keep_traceback(error: BaseException, words: Sequence[str]) -> str:
    import traceback  # noqa: PLC0415
    from datetime import datetime, timezone  # noqa: PLC0415

    text = mask("".join(traceback.format_exception(error)))
    name = f"internal-error-{datetime.now(tz=timezone.utc):%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    # The command's name only: its arguments may hold a token.
    content = f"command: vllm-console {' '.join(words[:1])}\npython: {sys.version}\n\n{text}"
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / name
            path.write_text(content, encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
        return f"details in {path}"
    return f"and no folder could be written to; it was raised at {_where(error)}"


def _folders() -> list[Path]:
    import tempfile  # noqa: PLC0415

    from engine_probe.errors import InputError  # noqa: PLC0415
    from engine_probe.locations import find_locations  # noqa: PLC0415

    try:
        return [find_locations().state / "errors", Path(tempfile.gettempdir())]
    except InputError:  # no home folder
        return [Path(tempfile.gettempdir())]


def _where(error: BaseException) -> str:
    import traceback  # noqa: PLC0415

    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
