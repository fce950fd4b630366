"""Runs inside vLLM's own processes: sends each log record to the keeper, prints what vLLM would have printed.

Written beside the keeper's other files as `vllm_console_log_tap.py` and named in the file that
VLLM_LOGGING_CONFIG_PATH points to, so that processes which vLLM spawns carry it too.
"""

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

MODULE_NAME = "vllm_console_log_tap"
# Not VLLM_…: vLLM warns of every such variable that it does not know.
CHANNEL_VARIABLE = "CONSOLE_PROBE_CHANNEL"
STACKS_VARIABLE = "CONSOLE_PROBE_STACKS"
STACKS_SIGNAL = getattr(signal, "SIGRTMIN", 34) + 7
"""vLLM uses SIGUSR1; a realtime signal collides with nobody."""
_MAX_MESSAGE = 60000
_FALLBACK_FORMAT = "%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s"


def logging_config(level):
    """The dictConfig that VLLM_LOGGING_CONFIG_PATH names. `level` is the one the launch asks for."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        # Alone and under this name, or vLLM takes it for a stranger's and prints another banner (logger.py 0.32).
        "handlers": {"vllm": {"()": MODULE_NAME + ".tapped_handler", "minimum_level": level}},
        "loggers": {"vllm": {"handlers": ["vllm"], "level": level, "propagate": False}},
    }


def tapped_handler(minimum_level):
    """vLLM's own handler, so that the text is what a user sees without us, with a tap that sends each record."""
    handler = _stock_handler(minimum_level)
    handler.addFilter(Tap())
    register_stacks()
    return handler


def _stock_handler(minimum_level):
    """As vllm/logger.py makes it from DEFAULT_LOGGING_CONFIG (0.5 to 0.33)."""
    logger_module = sys.modules.get("vllm.logger")
    stock = deepcopy(getattr(logger_module, "DEFAULT_LOGGING_CONFIG", None))
    if not stock:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter(_FALLBACK_FORMAT, "%m-%d %H:%M:%S"))
        handler.setLevel(minimum_level)
        return handler
    handler_config = stock["handlers"]["vllm"]
    handler_config["level"] = minimum_level
    formatter_name = handler_config["formatter"]
    configurator = logging.config.DictConfigurator(stock)
    formatter = configurator.configure_formatter(configurator.config["formatters"][formatter_name])
    configurator.config["formatters"][formatter_name] = formatter
    return configurator.configure_handler(configurator.config["handlers"]["vllm"])


class Tap(logging.Filter):
    """One datagram a record. Losing a record is better than holding up an engine."""

    def __init__(self):
        super().__init__()
        self._socket = None
        self._pid = None

    def filter(self, record):
        try:
            self._channel().send(json.dumps(_describe(record)).encode("utf-8"))
        except (OSError, ValueError, TypeError, KeyError):
            self._socket = None  # the keeper is gone or slow; the text carries the line anyway
        return True

    def _channel(self):
        if self._socket is None or self._pid != os.getpid():
            self._pid = os.getpid()
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.settimeout(0.5)
            self._socket.connect(os.environ[CHANNEL_VARIABLE])
        return self._socket


def register_stacks():
    """Let the keeper ask this process for the stacks of all its threads, once it hangs."""
    folder = os.environ.get(STACKS_VARIABLE)
    if not folder or not hasattr(faulthandler, "register"):
        return

    def register():
        try:
            file = open(os.path.join(folder, "stacks-%d" % os.getpid()), "w")
            faulthandler.register(STACKS_SIGNAL, file=file, all_threads=True)
        except (OSError, ValueError, RuntimeError):
            return
        register.keep_open = file

    register()
    os.register_at_fork(after_in_child=register)


def _describe(record):
    described = {
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


def exception_chain(error):
    """[{type, message, frames}], the innermost cause first."""
    chain, seen = [], set()
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


def _type_name(error):
    kind = type(error)
    return kind.__name__ if kind.__module__ == "builtins" else kind.__module__ + "." + kind.__qualname__
