"""Runs inside vLLM's own processes: sends each log record to the keeper, prints what vLLM would have printed.

Written beside the keeper's other files as `vllm_console_log_tap.py` and named in the file that
VLLM_LOGGING_CONFIG_PATH points to, so that processes which vLLM spawns carry it too.
"""

from __future__ import annotations

import errno
import faulthandler
import json
import logging
import logging.config
import os
import signal
import socket
import sys
import traceback
from copy import deepcopy
from multiprocessing import resource_tracker
from typing import IO, Any

MODULE_NAME = "vllm_console_log_tap"
# Not VLLM_…: vLLM warns of every such variable that it does not know.
CHANNEL_VARIABLE = "CONSOLE_PROBE_CHANNEL"
STACKS_VARIABLE = "CONSOLE_PROBE_STACKS"
STACKS_SIGNAL = getattr(signal, "SIGRTMIN", 34) + 7
"""vLLM uses SIGUSR1; a realtime signal collides with nobody."""
SHM_FILE = "shared-memory"
"""In the folder that STACKS_VARIABLE names: a line for each segment or semaphore that some process has made."""
_SHM_FOLDER = "/dev/shm/"  # noqa: S108 - where the system puts it, not a place of ours
_SHM_PREFIX = {"shared_memory": "", "semaphore": "sem."}
_MAX_MESSAGE = 60_000
_SHORT_MESSAGE = 4_000
_FALLBACK_FORMAT = "%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s"


def logging_config(level: str) -> dict[str, Any]:
    """The dictConfig that VLLM_LOGGING_CONFIG_PATH names. `level` is the one the launch asks for."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {
            # Under this name, or vLLM takes it for a stranger's and prints another banner (logger.py 0.32).
            "vllm": {"()": MODULE_NAME + ".tapped_handler", "minimum_level": level},
            "uvicorn": {"()": MODULE_NAME + ".uvicorn_handler"},
            "uvicorn_access": {"()": MODULE_NAME + ".uvicorn_access_handler"},
        },
        "loggers": {
            "vllm": {"handlers": ["vllm"], "level": level, "propagate": False},
            # The file is also handed to uvicorn, instead of its own configuration, which says the same
            # (get_uvicorn_log_config, 0.32; uvicorn/config.py): without these a port in use would not be told.
            "uvicorn": {"handlers": ["uvicorn"], "level": "INFO", "propagate": False},
            "uvicorn.error": {"level": "INFO"},
            "uvicorn.access": {"handlers": ["uvicorn_access"], "level": "INFO", "propagate": False},
        },
    }


def uvicorn_handler() -> logging.Handler:
    """What uvicorn says of itself, as its own configuration prints it."""
    return _UvicornHandler(sys.stderr, "DefaultFormatter", "%(levelprefix)s %(message)s")


def uvicorn_access_handler() -> logging.Handler:
    """What uvicorn says of requests."""
    line = '%(levelprefix)s %(client_addr)s - "%(request_line)s" %(status_code)s'
    return _UvicornHandler(sys.stdout, "AccessFormatter", line)


class _UvicornHandler(logging.StreamHandler):  # type: ignore[type-arg]  # generic only for type checkers
    """Takes its formatter from uvicorn when a record comes: most of vLLM's processes have none and import none."""

    def __init__(self, stream: IO[str], formatter: str, line: str) -> None:
        super().__init__(stream)
        self._wanted = (formatter, line)

    def format(self, record: logging.LogRecord) -> str:
        if self.formatter is None:
            name, line = self._wanted
            self.setFormatter(_uvicorn_formatter(name, line))
        return super().format(record)


def _uvicorn_formatter(name: str, line: str) -> logging.Formatter:
    try:
        from uvicorn import logging as uvicorn_logging
    except ImportError:
        return logging.Formatter("%(levelname)s:     %(message)s")
    made: logging.Formatter = getattr(uvicorn_logging, name)(line)
    return made


def tapped_handler(minimum_level: str) -> logging.Handler:
    """vLLM's own handler, so that the text is what a user sees without us, with a tap that sends each record."""
    handler = _stock_handler(minimum_level)
    handler.addFilter(Tap())
    register_stacks()
    note_shared_memory()
    return handler


def _stock_handler(minimum_level: str) -> logging.Handler:
    """As vllm/logger.py makes it from DEFAULT_LOGGING_CONFIG (0.5 to 0.33)."""
    logger_module = sys.modules.get("vllm.logger")
    stock = deepcopy(getattr(logger_module, "DEFAULT_LOGGING_CONFIG", None))
    if not stock:
        handler: logging.Handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter(_FALLBACK_FORMAT, "%m-%d %H:%M:%S"))
        handler.setLevel(minimum_level)
        return handler
    handler_config = stock["handlers"]["vllm"]
    handler_config["level"] = minimum_level
    formatter_name = handler_config["formatter"]
    configurator = logging.config.DictConfigurator(stock)
    formatter = configurator.configure_formatter(configurator.config["formatters"][formatter_name])
    configurator.config["formatters"][formatter_name] = formatter
    stock_handler: logging.Handler = configurator.configure_handler(configurator.config["handlers"]["vllm"])
    return stock_handler


class Tap(logging.Filter):
    """One datagram a record. Losing a record is better than holding up an engine."""

    def __init__(self) -> None:
        super().__init__()
        self._socket: socket.socket | None = None
        self._pid: int | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            described = _describe(record)
            self._send(described)
        except (OSError, ValueError, TypeError, KeyError):
            self._socket = None  # the keeper is gone or slow; the text carries the line anyway
        return True

    def _send(self, described: dict[str, Any]) -> None:
        channel = self._channel()
        try:
            channel.send(json.dumps(described).encode("utf-8"))
        except OSError as error:
            if error.errno != errno.EMSGSIZE:
                raise
            described.update(message=described["message"][:_SHORT_MESSAGE], exception=[])
            channel.send(json.dumps(described).encode("utf-8"))

    def _channel(self) -> socket.socket:
        if self._socket is None or self._pid != os.getpid():
            self._pid = os.getpid()
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.settimeout(0.5)
            self._socket.connect(os.environ[CHANNEL_VARIABLE])
        return self._socket


def register_stacks() -> None:
    """Let the keeper ask this process for the stacks of all its threads, once it hangs."""
    folder = os.environ.get(STACKS_VARIABLE)
    if not folder or not hasattr(faulthandler, "register"):
        return
    kept_open: dict[str, IO[str]] = {}

    def register() -> None:
        try:
            file = open(os.path.join(folder, f"stacks-{os.getpid()}"), "w")  # noqa: SIM115 - faulthandler's from now on
            faulthandler.register(STACKS_SIGNAL, file=file, all_threads=True)
        except (OSError, ValueError, RuntimeError):
            return
        kept_open["file"] = file

    register()
    os.register_at_fork(after_in_child=register)


def note_shared_memory() -> None:
    """Keep the name of each segment and semaphore that this process makes where it outlives the process.

    Python registers each with its resource tracker, which cleans up after a process that dies; both may be killed.
    """
    folder = os.environ.get(STACKS_VARIABLE)
    stock = resource_tracker.register
    if not folder or hasattr(stock, "noted"):
        return

    def register(name: Any, rtype: str) -> None:
        if rtype in _SHM_PREFIX:
            _note(os.path.join(folder, SHM_FILE), _SHM_FOLDER + _SHM_PREFIX[rtype] + name.lstrip("/"))
        stock(name, rtype)

    register.noted = True  # type: ignore[attr-defined]
    resource_tracker.register = register


def _note(path: str, line: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return  # the keeper has gone, and its folder with it
    try:
        os.write(fd, (line + "\n").encode())  # one short write in append mode: lines of processes do not mix
    finally:
        os.close(fd)


def noted_shared_memory(folder: str) -> set[str]:
    """The paths that processes of loads in this folder have noted."""
    try:
        with open(os.path.join(folder, SHM_FILE), encoding="utf-8") as file:
            return {line.strip() for line in file if line.startswith(_SHM_FOLDER)}
    except OSError:
        return set()


def _describe(record: logging.LogRecord) -> dict[str, Any]:
    described: dict[str, Any] = {
        "created": record.created,
        "level": record.levelname,
        "logger": record.name,
        "process": getattr(record, "vllm_process_name", record.processName),
        "pid": record.process,
        "file": record.filename,
        "line": record.lineno,
        "message": record.getMessage()[:_MAX_MESSAGE],
    }
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        described["exception"] = exception_chain(error)
    return described


def exception_chain(error: BaseException | None) -> list[dict[str, Any]]:
    """[{type, message, frames}], the innermost cause first."""
    chain: list[dict[str, Any]] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen and len(chain) < 10:
        seen.add(id(error))
        frames = traceback.extract_tb(error.__traceback__)[-30:]
        chain.append(
            {
                "type": _type_name(error),
                "message": str(error)[:8000],
                "frames": [{"file": f.filename, "line": f.lineno, "function": f.name} for f in frames],
            }
        )
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)
    return chain[::-1]


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__name__ if kind.__module__ == "builtins" else kind.__module__ + "." + kind.__qualname__
