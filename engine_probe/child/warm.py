"""A process that has imported vLLM and forks one child a load: seconds instead of half a minute.

Never touches CUDA and starts no threads, so that its forks may. Imports are what differs from a cold start:
import faults, preloads and settings read at import need a cold one.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import time
import traceback

from engine_probe.child import dry

_WANTED = (
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.cli.serve",
    "vllm.entrypoints.cli.openai",
    "vllm.entrypoints.cli.launch",
    "vllm.entrypoints.cli.benchmark.main",
    "vllm.entrypoints.cli.collect_env",
    "vllm.entrypoints.cli.download_kernels",
    "vllm.entrypoints.cli.preload",
    "vllm.entrypoints.cli.run_batch",
    "vllm.entrypoints.cli.snapshot",
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.v1.engine.core",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.coordinator",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.executor.uniproc_executor",
    "vllm.v1.core.kv_cache_utils",
    "vllm.v1.core.sched.scheduler",
    "vllm.v1.core.sched.async_scheduler",
    "vllm.v1.structured_output",
    "vllm.v1.metrics.loggers",
    "vllm.model_executor.model_loader",
    "vllm.model_executor.model_loader.default_loader",
    "vllm.transformers_utils.tokenizer",
    "vllm.tokenizers",
    "vllm.lora.worker_manager",
    "transformers.models.auto.tokenization_auto",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.lifespan.on",
)
"""What a load imports sooner or later; a name that this version lacks is skipped. Measured with vLLM 0.32.0."""

_WANTED_BY_DEVICE = {
    "cpu": ("vllm.v1.worker.cpu_worker", "vllm.v1.worker.cpu_model_runner", "vllm.v1.attention.backends.cpu_attn"),
    "cuda": ("vllm.v1.worker.gpu_worker", "vllm.v1.worker.gpu_model_runner"),
}


def main(channel_fd, model_dirs):
    """Warm up, report, then serve orders: {"argv", "env", "cwd", "grade"} with the text pipe's fd beside it."""
    channel = socket.socket(fileno=channel_fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    began = time.time()
    try:
        import vllm  # noqa: F401

        _import_all(model_dirs)
        report = {"seconds": round(time.time() - began, 3), "version": _version(), "flags": dry.flags()}
        _set_title("vllm-console: warm process")
        gc.collect()
        gc.freeze()
    except BaseException:
        report = {"error": traceback.format_exc()}
    _say(channel, report)
    if "error" not in report:
        _serve(channel)


def _say(channel, content):
    channel.sendall((json.dumps(content) + "\n").encode())


def _version():
    import vllm

    return str(getattr(vllm, "__version__", None) or "") or None


def _set_title(title):
    """Also makes setproctitle find its memory now: it cannot once the environment has been replaced."""
    try:
        import setproctitle
    except ImportError:
        return
    setproctitle.setproctitle(title)


def _import_all(model_dirs):
    for name in _WANTED:
        _import_quietly(name)
    from vllm.platforms import current_platform

    for name in _WANTED_BY_DEVICE.get(current_platform.device_type, ()):
        _import_quietly(name)
    for folder in model_dirs:
        _import_model_class(folder)
    override = getattr(current_platform, "register_triton_kernel_overrides", None)
    if override is not None:
        override()  # vllm/v1/worker/worker_base.py 0.32: costs a second in each worker otherwise
        type(current_platform).register_triton_kernel_overrides = classmethod(lambda cls: None)


def _import_quietly(name):
    try:
        importlib.import_module(name)
    except ImportError:
        pass  # another version's layout: the load imports what it needs itself


def _import_model_class(folder):
    """The class that config.json names, so that the worker finds it imported."""
    try:
        with open(os.path.join(folder, "config.json")) as file:
            architectures = json.load(file).get("architectures") or []
        from vllm.model_executor.models.registry import ModelRegistry

        for architecture in architectures:
            importlib.import_module(ModelRegistry.models[architecture].module_name)
    except Exception:
        # Whatever is wrong with this model is the load's to show, in vLLM's own words, not the warm-up's.
        return


def _serve(channel):
    while True:
        message, fds, _, _ = socket.recv_fds(channel, 1 << 20, 1)
        if not message:
            return
        order = json.loads(message)
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            _fork_load(channel, order, fds[0], writer)
        os.close(writer)
        os.wait()  # the one in between; the load itself now belongs to the keeper
        pid = int(os.read(reader, 20) or b"0")
        os.close(reader)
        os.close(fds[0])
        _say(channel, {"pid": pid})


def _fork_load(channel, order, text_fd, writer):
    """Fork once more and leave, so that the keeper adopts the load and sees how it ends."""
    pid = os.fork()
    if pid:
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.setsid()
    os.close(writer)
    channel.close()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(text_fd, 1)
    os.dup2(text_fd, 2)
    os.close(text_fd)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _run_as_main(order)


def _run_as_main(order):
    """What `python -m` would do, with the same exit codes and the same traceback on stderr."""
    status = 0
    try:
        _set_title(" ".join(order["argv"]))
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        sys.path.insert(0, order["private_dir"])
        _prepare_vllm()
        if order["grade"] == "dry":
            dry.build_config(order["argv"])
        else:
            _run_command(order["argv"])
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else (0 if leave.code is None else 1)
        if isinstance(leave.code, str):
            print(leave.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run_command(argv):
    sys.argv = ["vllm"] + list(argv[1:])
    if os.path.basename(argv[0]) == "vllm":
        importlib.import_module("vllm.entrypoints.cli.main").main()
    else:
        module = argv[argv.index("-m") + 1]
        sys.argv = [module] + list(argv[argv.index("-m") + 2 :])
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def _prepare_vllm():
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
            module.get_mp_context = lambda: fork
    import vllm.envs
    import vllm.logger

    clear = getattr(getattr(vllm.envs, "__getattr__", None), "cache_clear", None)
    if clear is not None:
        clear()  # from 0.11 vllm.envs caches what it has read
    vllm.logger._configure_vllm_root_logger()
