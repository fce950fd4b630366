"""What a fork of the warm process does: becomes `vllm serve` as if it had been started."""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import Any, NoReturn

from engine_probe.child import conditions, dry, prctl


@dataclass(frozen=True)
class ForkOrder:
    """`keeper` is the pid that adopts the load; 0 where there is no adoption."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    grade: str
    private_dir: str
    keeper: int
    conditions: dict[str, Any]


def set_title(title: str) -> None:
    """Also makes setproctitle find its memory now: it cannot once the environment has been replaced."""
    with contextlib.suppress(ImportError):
        import setproctitle

        setproctitle.setproctitle(title)


def run(order: ForkOrder, text_fd: int, middle: int) -> NoReturn:
    """Become the load, printing into `text_fd`. `middle` is the parent, which is about to leave us to the keeper."""
    os.setsid()
    if order.keeper:
        prctl.die_with_adopter(middle, order.keeper)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, target in ((nothing, 0), (text_fd, 1), (text_fd, 2)):
        os.dup2(fd, target)
    os.close(nothing)
    os.close(text_fd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _run_as_main(order)


def _run_as_main(order: ForkOrder) -> NoReturn:
    """What `python -m` would do, with the same exit codes and the same traceback on stderr."""
    status = 0
    try:
        set_title(" ".join(order.argv))
        conditions.apply(order.conditions)
        os.environ.clear()
        os.environ.update(order.env)
        os.chdir(order.cwd)
        sys.path.insert(0, order.private_dir)
        _prepare_vllm()
        if "--enforce-eager" in (word.replace("_", "-") for word in order.argv):
            _compile_nothing()
        if order.grade == "dry":
            dry.build_config(order.argv)
        else:
            _run_command(order.argv)
    except SystemExit as leave:
        status = _status(leave)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _status(leave: SystemExit) -> int:
    """As the interpreter does it: a text is printed and means 1."""
    if leave.code is None or isinstance(leave.code, int):
        return leave.code or 0
    sys.stderr.write(f"{leave.code}\n")
    return 1


def _run_command(argv: list[str]) -> None:
    if os.path.basename(argv[0]) == "vllm":
        sys.argv = ["vllm", *argv[1:]]
        importlib.import_module("vllm.entrypoints.cli.main").main()
        return
    start = argv.index("-m") + 1
    sys.argv = argv[start:]
    runpy.run_module(argv[start], run_name="__main__", alter_sys=True)


def _compile_nothing() -> None:
    """Also the helpers that vLLM compiles whatever it was asked (vllm/v1/sample/ops/logprobs.py, 0.32.0).

    Those cost some seconds at the first request of each load; a cold load has them as they are.
    """
    with contextlib.suppress(ImportError, AttributeError):  # torch before 2.6
        import torch.compiler

        torch.compiler.set_stance("force_eager")


def _prepare_vllm() -> None:
    """Fork where vLLM would spawn (its CPU platform does), and configure logging as at import."""
    import multiprocessing

    fork = multiprocessing.get_context("fork")
    for name in (
        "vllm.utils.system_utils",
        "vllm.utils",
        "vllm.v1.engine.utils",
        "vllm.v1.engine.coordinator",
        "vllm.v1.executor.multiproc_executor",
    ):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "get_mp_context"):
            vars(module)["get_mp_context"] = lambda: fork
    import vllm.envs
    import vllm.logger

    clear = getattr(getattr(vllm.envs, "__getattr__", None), "cache_clear", None)
    if clear is not None:
        clear()  # from 0.11 vllm.envs caches what it has read
    vllm.logger._configure_vllm_root_logger()
