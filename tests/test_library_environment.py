"""Environment: logs as releases, ranks, containers and cuts write them, and which cause each must get."""

# ruff: noqa: E501 - a line of a log is as long as it is

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_probe.command_line import parse_command
from engine_probe.facts import Fact, Known, Unknown, Value
from engine_probe.launch import Launch
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from playbooks.diagnosis import Given, diagnose
from playbooks.evidence import Evidence
from playbooks.facts import lookup_for
from playbooks.library import load_library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.launch import ArgValue
    from engine_probe.logs.covers import Wrappers
    from playbooks.diagnosis import Diagnosis
    from playbooks.library import Loaded

SERVE = "vllm serve acme/m-7b"
COVER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


@pytest.fixture(scope="module")
def library() -> Sequence[Loaded]:
    return load_library()


@pytest.fixture(scope="module")
def covers() -> Wrappers:
    return read_wrappers()


def diagnosed(log: str, library: Sequence[Loaded], covers: Wrappers, launch: str | None = SERVE) -> Diagnosis:
    evidence = Evidence(parse_command(launch) if launch is not None else None)
    return diagnose(read_text([log]), library, covers, Given("engine.log", evidence))


def causes_of(diagnosis: Diagnosis) -> list[str]:
    return [one.cause.id for one in diagnosis.causes]


def trace(error: str, *frames: str) -> str:
    """An uncaught traceback. A frame is `vllm/v1/worker/gpu_worker.py:init_device`."""
    lines = ["Traceback (most recent call last):"]
    for frame in frames:
        file, _, function = frame.rpartition(":")
        lines += [f'  File "/opt/venv/lib/python3.12/site-packages/{file}", line 42, in {function}', "    x()"]
    return "\n".join([*lines, error, ""])


def logged(who: str, place: str, text: str) -> str:
    """`text` as a record of level ERROR, the prefix on each line."""
    return "".join(f"({who}) ERROR 11-29 10:00:20 [{place}] {line}\n" for line in text.rstrip("\n").split("\n"))


def v1(version: str, *body: str) -> str:
    """The start of a V1 engine with one GPU, and `body`."""
    start = (
        f"(APIServer pid=1) INFO 11-29 10:00:00 [api_server.py:1990] vLLM API server version {version}\n"
        f"(EngineCore_DP0 pid=2) INFO 11-29 10:00:05 [core.py:77] Initializing a V1 LLM engine (v{version}) with config: "
        "model='acme/m-7b', speculative_config=None, tensor_parallel_size=1, pipeline_parallel_size=1\n"
    )
    return start + "".join(body)


def engine_failed(error: str, *frames: str) -> str:
    """The engine's traceback as records, and the front end's cover message."""
    text = "EngineCore failed to start.\n" + trace(error, "vllm/v1/engine/core.py:run_engine_core", *frames)
    return logged("EngineCore_DP0 pid=2", "core.py:866", text) + f"(APIServer pid=1) {COVER}\n"


def worker_failed(error: str, *frames: str) -> str:
    """The same of a worker of two."""
    text = "WorkerProc failed to start.\n" + trace(error, "vllm/v1/executor/multiproc_executor.py:worker_main", *frames)
    return logged("Worker_TP1 pid=9", "multiproc_executor.py:783", text) + engine_failed(
        "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."
    )


LOADING = "(EngineCore_DP0 pid=2) INFO 11-29 10:00:09 [gpu_model_runner.py:2602] Starting to load model acme/m-7b...\n"
WEIGHTS = "(EngineCore_DP0 pid=2) INFO 11-29 10:00:19 [gpu_model_runner.py:2653] Model loading took 14.2 GiB and 9.1 seconds\n"
UP = "(APIServer pid=1) INFO:     Application startup complete.\n"
WORLD = "(EngineCore_DP0 pid=2) INFO 11-29 10:00:06 [parallel_state.py:1208] world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:51411 backend=nccl\n"


def in_docker(log: str) -> str:
    return "".join(f"vllm-1  | {line}\n" for line in log.splitlines())


def in_kubernetes(log: str) -> str:
    return "".join(f"2026-11-29T10:00:{i % 60:02}.123456789Z {line}\n" for i, line in enumerate(log.splitlines()))


MP = "vllm/v1/executor/multiproc_executor.py:_init_executor"
SHM = "vllm/distributed/device_communicators/shm_broadcast.py:__init__"
SHARED = "multiprocessing/shared_memory.py:__init__"
INIT_DEVICE = ("vllm/v1/worker/worker_base.py:init_device", "vllm/v1/worker/gpu_worker.py:init_device")
COUNT = "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? "
BIND = "OSError: [Errno 98] Address already in use"
BIND_FRAMES = (
    "vllm/entrypoints/openai/api_server.py:run_server",
    "vllm/entrypoints/openai/api_server.py:setup_server",
    "vllm/entrypoints/openai/api_server.py:create_server_socket",
)
OFFLINE = "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/api/models/acme/m: offline mode is enabled. To disable it, please unset the `HF_HUB_OFFLINE` environment variable."
NO_CONNECTION = "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.\n"
DIFFERENT = "WARNING 11-29 10:00:00 [cuda.py:409] Detected different devices in the system: NVIDIA GeForce RTX 3090, NVIDIA GeForce GTX 1080 Ti. Please make sure to set `CUDA_DEVICE_ORDER=PCI_BUS_ID` to avoid unexpected behavior.\n"
BF16 = "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your NVIDIA GeForce GTX 1080 Ti GPU has compute capability 6.1. You can use float16 instead by explicitly setting the `dtype` flag in CLI, for example: --dtype=half."

FAILURES = {
    # ports and addresses
    "port, at once": (trace(BIND, *BIND_FRAMES), "port-in-use"),
    "port, exception alone": (f"{BIND}\n", "port-in-use"),
    "port, uvicorn after the load": (v1("0.11.2", LOADING, WEIGHTS) + "ERROR:    [Errno 98] error while attempting to bind on address ('::', 8000, 0, 0): [errno 98] address already in use\nERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use\n", "port-in-use"),
    "port, docker": ("docker: Error response from daemon: driver failed programming external connectivity on endpoint vllm (0e1f): Bind for 0.0.0.0:8000 failed: port is already allocated.\n", "port-in-use"),
    "address": (trace("OSError: [Errno 99] Cannot assign requested address", *BIND_FRAMES), "bind-address-unavailable"),
    "uri": (v1("0.16.0", engine_failed("ValueError: VLLM_PORT 'tcp://10.0.3.9:8000' appears to be a URI. This may be caused by a Kubernetes service discovery issue,check the warning in: https://docs.vllm.ai/en/stable/serving/env_vars.html", "vllm/envs.py:get_vllm_port")), "vllm-port-env-is-k8s-url"),
    "uri, old, one line": ("ValueError: invalid literal for int() with base 10: 'tcp://10.96.0.12:80'\n", "vllm-port-env-is-k8s-url"),
    # devices
    "mig": (in_kubernetes(trace("ValueError: invalid literal for int() with base 10: 'MIG-9a3e5f10-2c47-5d68-8b91-01f3c6d7e2a4'", "vllm/platforms/interface.py:device_id_to_physical_device_id")), "cuda-visible-devices-uuid"),
    "no device type": (trace("RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging to help debug the issue.", "vllm/config/device.py:__post_init__"), "gpu-not-visible-in-container"),
    "no device type, in pydantic": ("pydantic_core._pydantic_core.ValidationError: 1 validation error for DeviceConfig\n  Value error, Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` [type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]\n", "gpu-not-visible-in-container"),
    "no driver": (trace("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx", "torch/cuda/__init__.py:_lazy_init"), "gpu-not-visible-in-container"),
    "no gpus flag": ('docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n', "gpu-not-visible-in-container"),
    "hidden gpus, uninitialized": (v1("0.11.2", engine_failed("RuntimeError: No CUDA GPUs are available", *INIT_DEVICE, "torch/cuda/__init__.py:_lazy_init")), "gpu-not-visible-in-container"),
    "metadata": (trace("importlib.metadata.PackageNotFoundError: No package metadata was found for vllm", "vllm/entrypoints/cli/main.py:main", "importlib/metadata/__init__.py:version"), "package-metadata-missing"),
    "metadata, debug line": ("DEBUG 11-29 10:00:00 [__init__.py:34] Checking if CUDA platform is available.\nDEBUG 11-29 10:00:00 [__init__.py:72] CUDA platform is not available because: No package metadata was found for vllm\n" + trace("RuntimeError: Failed to infer device type", "vllm/config.py:__init__"), "package-metadata-missing"),
    # drivers
    "driver, worker": (v1("0.13.0", worker_failed("RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver", *INIT_DEVICE)), "host-driver-older-than-container-cuda"),
    "driver, container": ("docker: Error response from daemon: failed to create task for container: nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.9, please update your driver to a newer version, or use an earlier cuda container: unknown.\n", "host-driver-older-than-container-cuda"),
    "driver, ptx": (v1("0.11.2", LOADING, engine_failed("torch.AcceleratorError: CUDA error: the provided PTX was compiled with an unsupported toolchain.", "vllm/v1/worker/gpu_model_runner.py:profile_run")), "host-driver-older-than-container-cuda"),
    "error 803": (v1("0.16.0", engine_failed(COUNT + "Error 803: system has unsupported display driver / cuda driver combination", *INIT_DEVICE)), "cuda-compat-library-mismatch"),
    "error 804": (in_docker(v1("0.16.0", engine_failed(COUNT + "Error 804: forward compatibility was attempted on non supported HW", *INIT_DEVICE))), "host-driver-older-than-container-cuda"),
    "smi": ("$ nvidia-smi\nFailed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.163\n", "driver-library-mismatch"),
    "no image, volta": (v1("0.13.0", LOADING, engine_failed("torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.", "vllm/model_executor/models/llama.py:__init__")), "gpu-too-old-for-build"),
    "ptxas": (v1("0.11.2", LOADING, WEIGHTS, engine_failed("triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\nptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "triton/backends/nvidia/compiler.py:make_cubin")), "gpu-too-old-for-build"),
    "unlike gpus": (DIFFERENT + v1("0.8.5", LOADING, engine_failed("RuntimeError: CUDA error: no kernel image is available for execution on the device", "vllm/v1/worker/gpu_model_runner.py:load_model")), "mixed-gpus-device-order"),
    "wsl": (v1("0.25.1", worker_failed("RuntimeError: UVA is not available", *INIT_DEVICE, "vllm/v1/worker/gpu/buffer_utils.py:__init__")), "wsl-uva-disabled"),
    "capture": (v1("0.13.0", LOADING, WEIGHTS, engine_failed("RuntimeError: CUDA error: operation failed due to a previous error during capture", "vllm/v1/worker/gpu_model_runner.py:capture_model", "torch/cuda/graphs.py:__exit__")), "cudagraph-capture-fails"),
    "linker": (v1("0.9.2", LOADING, "/usr/bin/ld: cannot find -lcuda: No such file or directory\ncollect2: error: ld returned 1 exit status\n", engine_failed("subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpq/cuda_utils.c', '-O3', '-shared', '-lcuda', '-I/usr/include/python3.10']' returned non-zero exit status 1.", "triton/runtime/build.py:_build")), "libcuda-unversioned-missing"),
    "linker, triton's words": (v1("0.8.5", engine_failed("AssertionError: libcuda.so cannot found!\n Possible files are located at ['/lib/x86_64-linux-gnu/libcuda.so.1'].Please create a symlink of libcuda.so to any of the file.", "triton/backends/nvidia/driver.py:libcuda_dirs")), "libcuda-unversioned-missing"),
    # shared memory, disks and caches
    "shm, queue, tp 2 in docker": (in_docker(v1("0.29.0", engine_failed("RuntimeError: Insufficient space in /dev/shm for shared-memory allocation: 160 MiB required, 63 MiB free. Increase /dev/shm (e.g. --shm-size or --ipc=host).", MP, SHM))), "shm-too-small"),
    "shm, nccl": (v1("0.11.2", WORLD, worker_failed("torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3690, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\nLast error:\nError while creating shared memory segment /dev/shm/nccl-Ab12Cd (size 33030528), error: No space left on device (28)", "vllm/distributed/parallel_state.py:all_reduce")), "shm-too-small"),
    "shm, python's segment": (v1("0.13.0", engine_failed("OSError: [Errno 28] No space left on device", MP, SHM, SHARED)), "shm-too-small"),
    "shm, bus error": (v1("0.11.2", WORLD, "Fatal Python error: Bus error\n\nThread 0x00007f0 (most recent call first):\n"), "shm-too-small"),
    "shm, read-only": (v1("0.32.0", engine_failed("OSError: [Errno 30] Read-only file system: '/psm_6a4c0414'", MP, SHM, SHARED)), "shm-not-writable"),
    "shm, another user": (v1("0.11.2", engine_failed("PermissionError: [Errno 13] Permission denied: '/psm_51c31b01'", MP, SHM, SHARED)), "shm-not-writable"),
    "disk, compiling": (v1("0.16.0", LOADING, WEIGHTS, engine_failed("torch._inductor.exc.InductorError: OSError: [Errno 28] No space left on device", "vllm/compilation/backends.py:__call__", "torch/_inductor/codecache.py:write")), "disk-full"),
    "disk, download": (v1("0.11.2", LOADING, engine_failed("RuntimeError: Data processing error: CAS service error : IO Error: No space left on device (os error 28)", "vllm/model_executor/model_loader/weight_utils.py:download_weights_from_hf")), "disk-full"),
    "disk, quota": (v1("0.9.2", LOADING, WEIGHTS, engine_failed("OSError: [Errno 122] Disk quota exceeded: '/home/u/.cache/vllm/torch_compile_cache/c976'", "vllm/compilation/backends.py:__call__")), "disk-full"),
    "cache, triton": (v1("0.10.2", LOADING, WEIGHTS, engine_failed("PermissionError: [Errno 13] Permission denied: '/.triton'", "triton/runtime/cache.py:__init__", "os.py:makedirs")), "cache-dir-not-writable"),
    "cache, hub": (trace("OSError: PermissionError at /root/.cache/huggingface/hub/models--acme--m when downloading acme/m. Check cache directory permissions. Common causes: 1) another user is downloading the same model (please wait); 2) a previous download was canceled and the lock file needs manual removal.", "transformers/utils/hub.py:cached_files"), "cache-dir-not-writable"),
    "cache, no name": (v1("0.9.2", LOADING, WEIGHTS, engine_failed("torch._inductor.exc.InductorError: KeyError: 'getpwuid(): uid not found: 1000680000'", "torch/_inductor/runtime/cache_dir_utils.py:default_cache_dir")), "cache-dir-not-writable"),
    "stale, sizes": (v1("0.13.0", LOADING, WEIGHTS, "(EngineCore_DP0 pid=2) INFO 11-29 10:00:20 [backends.py:210] Directly load the compiled graph(s) for dynamic shape from the cache, took 1.2 s\n", engine_failed("AssertionError: expected size 4096==5120, stride 1==1 at dim=1", "vllm/v1/worker/gpu_model_runner.py:profile_run")), "compile-cache-stale"),
    "stale, cut short": (v1("0.16.0", LOADING, WEIGHTS, engine_failed("EOFError: Ran out of input", "vllm/compilation/decorators.py:__call__", "vllm/compilation/caching.py:deserialize_compile_artifacts")), "compile-cache-stale"),
    # limits
    "files, zmq": (v1("0.32.0") + "Too many open files (src/signaler.cpp:345)\n(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -6}\n", "file-descriptor-limit"),
    "files, shards": (v1("0.11.2", LOADING, engine_failed("OSError: [Errno 24] Too many open files: '/models/m/model-00001-of-00191.safetensors'", "vllm/model_executor/model_loader/weight_utils.py:safetensors_weights_iterator")), "file-descriptor-limit"),
    "threads": (v1("0.11.2", engine_failed("RuntimeError: can't start new thread", MP, "threading.py:start")), "process-limit"),
    "fork": (trace("BlockingIOError: [Errno 11] Resource temporarily unavailable", "multiprocessing/popen_fork.py:_launch"), "process-limit"),
    "rust": ("OpenBLAS blas_thread_init: pthread_create failed for thread 3 of 64: Resource temporarily unavailable\nOpenBLAS blas_thread_init: RLIMIT_NPROC 512 current, 512 max\n", "process-limit"),
    "ulimit": (v1("0.32.0", LOADING, WEIGHTS, worker_failed("RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 2147483648 bytes. Error code 12 (Cannot allocate memory)", "vllm/v1/worker/gpu_model_runner.py:initialize_kv_cache")), "process-memory-limit"),
    "lscpu": (v1("0.32.0", "/bin/sh: 1: lscpu: not found\n", engine_failed("subprocess.CalledProcessError: Command 'lscpu --json --extended=CPU,CORE,NODE --online' returned non-zero exit status 127.", MP)), "system-tool-missing"),
    # processes
    "worker -15": (v1("0.32.0", LOADING, "(EngineCore_DP0 pid=2) ERROR 11-29 10:00:20 [multiproc_executor.py:315] Worker proc VllmWorker-1 died unexpectedly (exit code: -15), shutting down executor.\n"), "worker-killed"),
    "worker -11": (v1("0.32.0", LOADING, "(EngineCore_DP0 pid=2) ERROR 11-29 10:00:20 [multiproc_executor.py:315] Worker proc VllmWorker-1 died unexpectedly (exit code: -11), shutting down executor.\n"), "worker-crashed-signal"),
    "worker silent": (v1("0.32.0", WORLD, engine_failed("Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.", "vllm/v1/executor/multiproc_executor.py:wait_for_ready")), "worker-killed"),
    "v0 worker": ("ERROR 03-21 10:11:12 multiproc_worker_utils.py:124] Worker VllmWorkerProcess pid 1042 died, exit code: -15\nINFO 03-21 10:11:12 multiproc_worker_utils.py:128] Killing local vLLM worker processes\n", "worker-killed"),
    "segfault": (v1("0.11.2", LOADING, "!!!!!!! Segfault encountered !!!!!!!\n", "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"), "worker-crashed-signal"),
    "engine -9": (v1("0.16.0", LOADING, "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': -9}\n"), "engine-core-killed"),
    "engine gone": (v1("0.11.2", LOADING, WEIGHTS, "(APIServer pid=1) ERROR 11-29 11:00:20 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n", logged("APIServer pid=1", "async_llm.py:480", "AsyncLLM output_handler failed.\n" + trace("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.", "vllm/v1/engine/core_client.py:get_output_async"))), "engine-core-killed"),
    "kernel in a request": (v1("0.11.2", LOADING, WEIGHTS, UP, logged("EngineCore_DP0 pid=2", "core.py:710", "EngineCore encountered a fatal error.\n" + trace("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "vllm/v1/worker/gpu_model_runner.py:execute_model"))), "cuda-error-while-serving"),
    "engine gone after a good start": (v1("0.11.2", LOADING, WEIGHTS, UP, "(APIServer pid=1) ERROR 11-29 11:00:20 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.\n", logged("APIServer pid=1", "async_llm.py:480", "AsyncLLM output_handler failed.\n" + trace("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.", "vllm/v1/engine/core_client.py:get_output_async"))), "engine-core-killed"),
    "worker killed after a good start": (v1("0.32.0", LOADING, WEIGHTS, UP, "(EngineCore pid=2) ERROR 11-29 11:00:20 [multiproc_executor.py:315] Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.\n", logged("EngineCore pid=2", "core.py:1519", "EngineCore encountered a fatal error.\n" + trace("RuntimeError: Executor failed.", "vllm/v1/engine/core.py:run_busy_loop"))), "worker-killed"),
    "v0, in a request": ("INFO:     Application startup complete.\nINFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)\n" + "".join(f"ERROR 01-20 18:39:37 engine.py:135] {line}\n" for line in trace("RuntimeError: Error in model execution: CUDA error: an illegal memory access was encountered", "vllm/engine/multiprocessing/engine.py:start", "vllm/engine/llm_engine.py:step").splitlines()) + "CRITICAL 01-20 18:39:37 launcher.py:99] MQLLMEngine is already dead, terminating server process\n", "cuda-error-while-serving"),
    # the hub
    "gated": (trace("huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-0)\n\nCannot access gated repo for url https://huggingface.co/acme/m/resolve/main/config.json.\nAccess to model acme/m is restricted and you are not in the authorized list. Visit https://huggingface.co/acme/m to ask for access.", "huggingface_hub/utils/_http.py:hf_raise_for_status"), "hub-auth-gated"),
    "bad token": (trace("huggingface_hub.errors.HfHubHTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/acme/m/resolve/main/config.json\n\nInvalid user token. If you didn't pass a user token, make sure you are properly logged in", "huggingface_hub/utils/_http.py:hf_raise_for_status"), "hub-auth-gated"),
    "no names": (trace("requests.exceptions.ConnectionError: (MaxRetryError('HTTPSConnectionPool(host=\\'huggingface.co\\', port=443): Max retries exceeded with url: /acme/m/resolve/main/config.json (Caused by NameResolutionError(\"Failed to resolve \\'huggingface.co\\' ([Errno -3] Temporary failure in name resolution)\"))'), '(Request ID: 1)')", "requests/adapters.py:send"), "hub-unreachable"),
    "no connection": (trace(NO_CONNECTION, "transformers/utils/hub.py:cached_files"), "hub-unreachable"),
    "offline, early": (trace(OFFLINE, "vllm/transformers_utils/config.py:get_config", "huggingface_hub/utils/_http.py:send"), "model-not-in-offline-cache"),
    "offline, 0.4": ("INFO 04-01 10:00:00 llm_engine.py:74] Initializing an LLM engine (v0.4.0) with config: model='acme/m', tokenizer='acme/m'\n" + trace(OFFLINE, "vllm/worker/model_runner.py:load_model", "vllm/model_executor/weight_utils.py:prepare_hf_model_weights"), "hub-offline-mode-not-honoured"),
    "lock": (v1("0.11.2", LOADING, engine_failed("filelock._error.Timeout: The file lock '/tmp/torchinductor_root/locks/cxyz.lock' could not be acquired.", "filelock/_api.py:acquire")), "lock-held-by-other-process"),
    "volume": ('docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "vllm": executable file not found in $PATH: unknown.\n', "volume-mount-shadows-install"),
    "namespace": (trace("ImportError: cannot import name 'LLM' from 'vllm' (unknown location)"), "volume-mount-shadows-install"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_each_failure_gets_its_cause(name: str, library: Sequence[Loaded], covers: Wrappers) -> None:
    log, wanted = FAILURES[name]
    assert causes_of(diagnosed(log, library, covers))[:1] == [wanted]


@pytest.mark.parametrize("name", FAILURES)
def test_the_last_lines_are_enough_to_name_it_among_the_first_three(
    name: str, library: Sequence[Loaded], covers: Wrappers
) -> None:
    log, wanted = FAILURES[name]
    tail = "\n".join(log.splitlines()[-20:]) + "\n"
    assert wanted in causes_of(diagnosed(tail, library, covers, launch=None))[:3]


NCCL = "node7:4711:4790 [1] NCCL INFO "
WAITING = "".join(
    f"(APIServer pid=1) DEBUG 11-29 10:0{i}:30 [utils.py:773] Waiting for 1 local, 0 remote core engine proc(s) to start.\n"
    for i in range(5)
)
HANGS = {
    "download": (v1("0.20.2", LOADING, WAITING), SERVE, "slow-download-looks-like-hang"),
    "download with bars": (v1("0.11.2", LOADING, "model-00003-of-00015.safetensors:  41%|####1     | 2.05G/4.98G [03:12<04:34, 10.7MB/s]\n"), SERVE, "slow-download-looks-like-hang"),
    "lock": (v1("0.11.2", LOADING, "Still waiting to acquire lock on /root/.cache/huggingface/hub/.locks/models--acme--m/fc1c.lock (elapsed: 30.7 seconds)\n" * 3), SERVE, "lock-held-by-other-process"),
    "peer channels": (v1("0.11.2", WORLD, LOADING, WEIGHTS, f"{NCCL}Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM\n{NCCL}Connected all rings\n{NCCL}Connected all trees\n"), f"{SERVE} -tp 2", "iommu-acs-breaks-p2p"),
    "no peers": (v1("0.9.2", WORLD, f"{NCCL}P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.\n", WAITING), f"{SERVE} -tp 2", "nccl-p2p-transport-unusable"),
}  # fmt: skip


@pytest.mark.parametrize("name", HANGS)
def test_each_hang_gets_its_cause(name: str, library: Sequence[Loaded], covers: Wrappers) -> None:
    log, launch, wanted = HANGS[name]
    found = diagnosed(log, library, covers, launch)
    assert found.outcome == "incomplete"
    assert causes_of(found)[:1] == [wanted]


QUIET = (
    "(APIServer pid=1) WARNING 11-29 10:00:01 [system_utils.py:255] Found ulimit of 20000 and failed to automatically increase with error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n",
    DIFFERENT.rstrip(),
    "WARNING 11-29 10:00:01 [interface.py:519] Using 'pin_memory=False' as WSL is detected. This may slow down the performance.",
    "(EngineCore_DP0 pid=2) WARNING 11-29 10:00:07 [custom_all_reduce.py:154] Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed. To silence this warning, specify disable_custom_all_reduce=True explicitly.",
    "(EngineCore_DP0 pid=2) INFO 11-29 10:00:07 [custom_all_reduce_utils.py:242] generating GPU P2P access cache in /root/.cache/vllm/gpu_p2p_access_cache_for_0,1.json",
    f"{NCCL}P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.",
    f"{NCCL}Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM",
    "(EngineCore_DP0 pid=2) INFO 11-29 10:00:20 [backends.py:210] Directly load the compiled graph(s) for dynamic shape from the cache, took 1.2 s",
)


@pytest.mark.parametrize("line", QUIET)
def test_what_good_starts_say_is_no_cause(line: str, library: Sequence[Loaded], covers: Wrappers) -> None:
    assert causes_of(diagnosed(v1("0.16.0", line + "\n", LOADING, WEIGHTS, UP), library, covers)) == []


OTHERS = {
    "no cause but gone": (f"(APIServer pid=1) {COVER}\n", {"engine-core-killed", "worker-killed"}),
    "memory, not a capture": (v1("0.11.2", LOADING, WEIGHTS, engine_failed("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB.", "vllm/v1/worker/gpu_model_runner.py:capture_model", "torch/cuda/graphs.py:__enter__")), {"cudagraph-capture-fails"}),
    "an internal port": (v1("0.11.2", engine_failed("zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:29550')", MP)), {"port-in-use"}),
    "headers": (v1("0.9.2", LOADING, "/tmp/tmpq/main.c:6:10: fatal error: Python.h: No such file or directory\n", engine_failed("subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpq/main.c', '-O3', '-shared', '-lcuda']' returned non-zero exit status 1.", "triton/runtime/build.py:_build")), {"libcuda-unversioned-missing"}),
    "a package": (trace("importlib.metadata.PackageNotFoundError: No package metadata was found for bitsandbytes"), {"package-metadata-missing"}),
    "a full /dev/shm": (v1("0.13.0", engine_failed("OSError: [Errno 28] No space left on device: '/psm_6a4c0414'", MP, SHM, SHARED)), {"disk-full"}),
    "an old GPU, alone": (trace(BF16, "vllm/v1/worker/gpu_worker.py:init_device"), {"mixed-gpus-device-order", "gpu-too-old-for-build"}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_neighbouring_illnesses_are_left_alone(name: str, library: Sequence[Loaded], covers: Wrappers) -> None:
    log, not_first = OTHERS[name]
    assert not set(causes_of(diagnosed(log, library, covers))[:1]) & not_first


FELL_OVER = v1("0.11.2", LOADING, WEIGHTS, UP, logged("EngineCore_DP0 pid=2", "core.py:710", "EngineCore encountered a fatal error.\n" + trace("RuntimeError: shape mismatch in a kernel", "vllm/v1/engine/core.py:run_busy_loop", "vllm/v1/worker/gpu_model_runner.py:execute_model")), logged("APIServer pid=1", "async_llm.py:480", "AsyncLLM output_handler failed.\n" + trace("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.", "vllm/v1/engine/core_client.py:get_output_async")))  # fmt: skip


def test_an_engine_that_ended_is_told_beside_the_request_that_ended_it(
    library: Sequence[Loaded], covers: Wrappers
) -> None:
    assert "engine-died-while-serving" in causes_of(diagnosed(FELL_OVER, library, covers))[:2]


@pytest.mark.parametrize("before", [DIFFERENT, ""], ids=["with vLLM's warning", "by the card's name"])
def test_a_number_of_another_gpu_is_suspected(before: str, library: Sequence[Loaded], covers: Wrappers) -> None:
    log = before + trace(BF16.replace("GTX 1080 Ti", "RTX 3090"), "vllm/v1/worker/gpu_worker.py:init_device")
    assert "mixed-gpus-device-order" in causes_of(diagnosed(log, library, covers))[:2]


def test_vllms_own_port_is_nobody_elses(library: Sequence[Loaded], covers: Wrappers) -> None:
    log = "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8500): address already in use\n"
    own = diagnosed(log, library, covers, f"VLLM_PORT=8500 {SERVE} --port 8500")
    assert "port-in-use" not in causes_of(own)
    assert causes_of(diagnosed(log, library, covers, f"{SERVE} --port 8500"))[0] == "port-in-use"


def test_of_two_that_bound_one_port_the_one_that_nobody_reaches_is_found(
    library: Sequence[Loaded], covers: Wrappers
) -> None:
    """uvloop drops the error: the log is that of a server that came up, and only the probe knows better."""
    told = {"neighbours.same_port": Known("chat", "declared", "x"), "neighbours.start_together": Known(True, "declared", "x")}  # fmt: skip
    given = Given("engine.log", Evidence(parse_command(SERVE), measured=told))
    up = v1("0.11.2", LOADING, WEIGHTS, UP)
    given_up = "2026-11-29 10:01:00,100 - vllm_console.probe - ERROR - load of m failed after 9.0 s: not reached\n"
    assert causes_of(diagnose(read_text([up + given_up]), library, covers, given))[0] == "port-in-use"
    assert causes_of(diagnose(read_text([up]), library, covers, given)) == []


def test_offline_and_unreachable_are_told_apart_by_the_launch(library: Sequence[Loaded], covers: Wrappers) -> None:
    log = trace(NO_CONNECTION, "transformers/utils/hub.py:cached_files")
    offline = diagnosed(log, library, covers, f"HF_HUB_OFFLINE=1 {SERVE}")
    assert causes_of(offline)[0] == "model-not-in-offline-cache"
    assert "model-not-in-offline-cache" not in causes_of(diagnosed(log, library, covers))


def fact(name: str, known: dict[str, Value], args: dict[str, ArgValue], env: dict[str, str] | None = None) -> object:
    """The value, or the reason why there is none."""
    facts: dict[str, Fact] = {key: Known(value, "parsed", "a test") for key, value in known.items()}
    answer = lookup_for(Launch("chat", "/models/chat", args, env=env or {}), facts)(name)
    return answer.value if isinstance(answer, Known) else answer.reason if isinstance(answer, Unknown) else "unset"


@pytest.mark.parametrize(
    ("known", "args", "port"),
    [({"port": 8500}, {}, 8501), ({}, {"port": 9000}, 9001), ({}, {}, 8001)],
    ids=["in the message", "in the launch", "the default"],
)
def test_the_next_port(known: dict[str, Value], args: dict[str, ArgValue], port: int) -> None:
    assert fact("environment.next_port", known, args) == port


def test_there_is_no_port_after_the_last() -> None:
    assert "last port" in str(fact("environment.next_port", {"port": 65535}, {}))


@pytest.mark.parametrize(
    ("known", "args", "gib"),
    [
        ({}, {}, 2),
        ({}, {"tensor-parallel-size": 8}, 8),
        ({"needed_mib": 160}, {"tensor-parallel-size": 2}, 3),
        ({"segment_bytes": 33030528}, {"tensor-parallel-size": 4}, 5),
    ],
)
def test_shared_memory_grows_with_the_workers(known: dict[str, Value], args: dict[str, ArgValue], gib: int) -> None:
    assert fact("environment.shm_gib_needed", known, args) == gib


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/root/.cache/vllm/torch_compile_cache/c976", "vllm"),
        ("/srv/ro/modelinfos", "vllm"),
        ("/.cache/huggingface/hub/models--acme--m", "hub"),
        ("/tmp/torchinductor_root/xy", "inductor"),
        ("/.triton", "triton"),
        ("/root/.cache/flashinfer/90a", "flashinfer"),
        ("/.cache", "home"),
    ],
)
def test_whose_cache_a_folder_is(folder: str, kind: str) -> None:
    assert fact("environment.cache_kind", {"folder": folder}, {}) == kind


def test_a_cache_without_a_folder_is_unknown() -> None:
    assert fact("environment.cache_kind", {}, {}) == "the message names no folder"


def test_only_a_single_gpu_has_a_certain_index() -> None:
    assert fact("environment.device_index", {"gpu.count": 1}, {}) == 0
    assert "nvidia-smi -L" in str(fact("environment.device_index", {"gpu.count": 4}, {}))


def test_vllm_port_as_the_apis_port() -> None:
    assert fact("environment.port_is_own", {}, {"port": "8500"}, {"VLLM_PORT": "8500"}) is True
    assert fact("environment.port_is_own", {}, {"port": "8501"}, {"VLLM_PORT": "8500"}) is False
    assert fact("environment.port_is_own", {}, {"port": "8500"}) is False
