"""Playbooks of the family distributed and of half of configuration on logs of their own making, and computed facts.

Formats are those of vLLM's releases: prefixes of processes, records of several lines, containers in front.
"""

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
    from playbooks.library import Loaded

SERVE = "vllm serve acme/m-7b"
V1 = "INFO 03-02 10:11:12 [core.py:114] Initializing a V1 LLM engine (v{version}) with config: model='acme/m-7b'"


@pytest.fixture(scope="module")
def library() -> tuple[Loaded, ...]:
    return load_library()


def causes(library: tuple[Loaded, ...], log: str, launch: str | None = SERVE) -> list[str]:
    given = Given("engine.log", Evidence(None if launch is None else parse_command(launch)))
    found = diagnose(read_text([log]), library, read_wrappers(), given)
    return [one.cause.id for one in found.causes]


def raised(text: str, *frames: tuple[str, str], prefix: str = "") -> str:
    """A traceback of `frames` (file under site-packages, function), each line after `prefix`."""
    lines = ["Traceback (most recent call last):"]
    for file, function in frames:
        lines += [f'  File "/opt/venv/lib/python3.12/site-packages/{file}", line 7, in {function}', "    raise"]
    return "\n".join(prefix + line for line in [*lines, *text.split("\n")]) + "\n"


def worker(text: str, *frames: tuple[str, str], name: str = "Worker_TP1", pid: int = 411) -> str:
    record = f"({name} pid={pid}) ERROR 03-02 10:11:13 [multiproc_executor.py:870] "
    return record + "WorkerProc failed to start.\n" + raised(text, *frames, prefix=record)


INIT = (
    ("vllm/v1/worker/gpu_worker.py", "init_device"),
    ("vllm/distributed/parallel_state.py", "init_distributed_environment"),
)
ARGUMENTS = ("vllm/engine/arg_utils.py", "create_engine_config")


@pytest.mark.parametrize(
    ("wanted", "log"),
    [
        (
            "cuda-initialized-before-fork",
            "(VllmWorkerProcess pid=41) ERROR 09-03 12:12:07 multiproc_worker_utils.py:233] Exception in worker "
            "VllmWorkerProcess while processing method init_device.\n"
            + raised(
                "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
                "must use the 'spawn' start method",
                ("torch/cuda/__init__.py", "_lazy_init"),
                prefix="(VllmWorkerProcess pid=41) ERROR 09-03 12:12:07 multiproc_worker_utils.py:233] ",
            ),
        ),
        (
            "cuda-initialized-before-fork",
            worker(
                "RuntimeError: CUDA error: initialization error",
                ("vllm/v1/executor/multiproc_executor.py", "worker_main"),
            ),
        ),
        (
            "distributed-init-port-race",
            worker(
                "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
                "address. port: 51234, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
                *INIT,
            ),
        ),
        (
            "distributed-init-port-race",
            raised(
                "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:39875')",
                ("zmq/sugar/socket.py", "bind"),
            ),
        ),
        (
            "gloo-wrong-interface",
            "vllm-0  | "
            + raised(
                "RuntimeError: Gloo connectFullMesh failed with "
                "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] "
                "no error: timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:21733",
                *INIT,
            ),
        ),
        ("gloo-wrong-interface", worker("RuntimeError: makeDeviceForHostname(): unsupported gloo device", *INIT)),
        (
            "gloo-wrong-interface",
            "node7:4711:4711 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found\n"
            + worker(
                "RuntimeError: NCCL error: internal error - please report this issue to the NCCL developers", *INIT
            ),
        ),
        (
            "rendezvous-peer-missing",
            worker(
                "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. "
                "1/4 clients joined.",
                *INIT,
            ),
        ),
        (
            "rendezvous-peer-missing",
            worker(
                "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to "
                "connect to (10.0.0.4, 29501).",
                *INIT,
            ),
        ),
        (
            "two-ranks-on-one-gpu",
            worker(
                "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, invalid usage (run with "
                "NCCL_DEBUG=WARN for details), NCCL version 2.21.5\nncclInvalidUsage: This usually reflects invalid "
                "usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 "
                "both on CUDA device 3d000",
                *INIT,
            ),
        ),
        (
            "ray-driver-node-without-gpu",
            raised(
                "RuntimeError: driver node id 9f0c is not included in a placement group 77aa. Node id -> bundles {}. "
                "You don't have enough GPUs available in a current node.",
                ("vllm/v1/executor/ray_utils.py", "_verify_bundles"),
            ),
        ),
        (
            "ray-node-ip-mismatch",
            raised(
                "RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids ['a', 'b'] and 1 "
                "unique IP addresses {'172.17.0.2'}. Please check your network configuration.",
                ("vllm/v1/executor/ray_executor.py", "_init_workers_ray"),
            ),
        ),
        (
            "ray-unavailable",
            raised(
                "ValueError: Ray Compiled Graph is not installed. Run `pip install ray[cgraph]` to install it.",
                ("vllm/v1/executor/ray_executor.py", "_check_ray_cgraph_installation"),
            ),
        ),
        (
            "multi-node-needs-ray-backend",
            raised(
                "RuntimeError: please ensure that world_size (8) is less than than max local gpu count (4)",
                ("vllm/executor/mp_distributed_executor.py", "_check_cuda"),
            ),
        ),
        (
            "multi-node-needs-ray-backend",
            raised(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ParallelConfig\n  Value error, "
                "World size (16) is larger than the number of available GPUs (8) in this node. If this is intentional "
                "and you are using:\n- ray, set '--distributed-executor-backend ray'.\n- multiprocessing, set "
                "'--nnodes' appropriately. [type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]",
                ARGUMENTS,
            ),
        ),
        (
            "numa-nodes-fewer-than-ranks",
            "AssertionError: No enough allowed NUMA nodes to bind threads of 4 CPUWorkers. Allowed NUMA nodes are [0].",
        ),
        (
            "pp-unsupported-here",
            raised(
                "NotImplementedError: Pipeline parallelism is not supported for this model. Supported models implement "
                "the `SupportsPP` interface.",
                ("vllm/config/__init__.py", "verify_with_parallel_config"),
            ),
        ),
        (
            "worker-stopped-hang",
            V1.format(version="0.16.0")
            + "\n(Worker_TP0 pid=5) INFO 03-02 10:20:00 [gpu_model_runner.py:1329] Starting to load "
            "model acme/m-7b...\n"
            "(EngineCore_DP0 pid=4) INFO 03-02 10:21:00 [shm_broadcast.py:542] No available shared memory broadcast "
            "block found in 60 seconds. This typically happens when some processes are hanging.\n",
        ),
        (
            "rendezvous-peer-missing",
            V1.format(version="0.25.1") + "\n(Worker pid=5) INFO 03-02 10:20:00 [parallel_state.py:1563] world_size=16 "
            "rank=0 local_rank=0 distributed_init_method=tcp://10.0.0.4:29501 backend=nccl\n",
        ),
        (
            "argument-value-invalid",
            "usage: vllm serve [model_tag] [options]\n"
            "vllm serve: error: argument --dtype: invalid choice: 'f16' (choose from 'auto', 'half', 'float16')\n",
        ),
        (
            "argument-value-invalid",
            raised(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for CacheConfig\n"
                "gpu_memory_utilization\n  Input should be greater than 0 [type=greater_than, input_value=0.0, "
                "input_type=float]",
                ARGUMENTS,
            ),
        ),
        (
            "argument-value-invalid",
            raised("ValueError: Unknown dtype: fp15", ("vllm/config.py", "_get_and_verify_dtype")),
        ),
        (
            "attention-backend-invalid",
            worker(
                "ValueError: Selected backend AttentionBackendEnum.FLASHMLA is not valid for this configuration. "
                "Reason: ['non-MLA not supported']",
                ("vllm/platforms/cuda.py", "get_attn_backend_cls"),
            ),
        ),
        (
            "attention-backend-unsupported-gpu",
            worker(
                "ValueError: No valid attention backend found for cuda with head_size: 576, dtype: torch.bfloat16, "
                "kv_cache_dtype: fp8_ds_mla, use_mla: True, use_sparse: True. Reasons: {FLASHMLA_SPARSE: [compute "
                "capability not supported]}.",
                ("vllm/platforms/cuda.py", "get_attn_backend_cls"),
            ),
        ),
        (
            "batched-tokens-below-max-num-seqs",
            raised(
                "ValueError: max_num_batched_tokens (32) must be greater than or equal to max_num_seqs (256).",
                ARGUMENTS,
            ),
        ),
        (
            "batched-tokens-below-model-len",
            "ValueError: max_num_batched_tokens (2048) is smaller than max_model_len (4096). This "
            "effectively limits the "
            "maximum sequence length to max_num_batched_tokens and makes vLLM reject longer sequences.",
        ),
        (
            "bf16-unsupported-on-gpu",
            worker(
                "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 "
                "GPU has compute capability 7.5. You can use float16 instead by explicitly setting the `dtype` flag in "
                "CLI, for example: --dtype=half.",
                ("vllm/v1/worker/gpu_worker.py", "init_device"),
                name="VllmWorker rank=1",
            ),
        ),
        (
            "chat-template-file-missing",
            "2026-03-02T10:11:12Z "
            "ValueError: The supplied chat template (./t.jinja) looks like a file path, but it failed to be opened. "
            "Reason: [Errno 2] No such file or directory: './t.jinja'",
        ),
        (
            "heads-not-divisible-by-tp",
            raised(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n  Value error, Total "
                "number of attention heads (28) must be divisible by tensor parallel size (8). [type=value_error, "
                "input_value=ArgsKwargs(()), input_type=ArgsKwargs]",
                ARGUMENTS,
            ),
        ),
        (
            "heads-not-divisible-by-tp",
            worker("AssertionError: 25 is not divisible by 2", ("vllm/distributed/utils.py", "ensure_divisibility")),
        ),
        (
            "json-flag-quoting",
            "vllm serve: error: argument --speculative-config/-sc: Value {method: ngram} cannot be converted to "
            "<function loads at 0x7f11>.",
        ),
        (
            "config-file-invalid",
            raised(
                'yaml.scanner.ScannerError: mapping values are not allowed here\n  in "serve.yaml", line 2, column 12',
                ("vllm/utils/__init__.py", "load_config_file"),
            ),
        ),
        (
            "float16-overflow",
            "Value error, The model type 'gemma3' does not support float16. Reason: Numerical instability. Please use "
            "bfloat16 or float32 instead.",
        ),
    ],
)
def test_a_log_of_this_cause_is_known(library: tuple[Loaded, ...], wanted: str, log: str) -> None:
    assert causes(library, log)[:1] == [wanted]


UNRECOGNIZED = "usage: vllm [-h] [-v]\nvllm: error: unrecognized arguments: {}\n"


@pytest.mark.parametrize(
    ("wanted", "log"),
    [
        ("cli-flag-removed", UNRECOGNIZED.format("--swap-space 4")),
        ("cli-flag-removed", UNRECOGNIZED.format("--use-v2-block-manager")),
        (
            "cli-flag-removed",
            "TypeError: EngineArgs.__init__() got an unexpected keyword argument 'max_seq_len_to_capture'",
        ),
        ("cli-flag-unknown", UNRECOGNIZED.format("--max-model-length 256")),
        (
            "cli-flag-unknown",
            "TypeError: AsyncEngineArgs.__init__() got an unexpected keyword argument 'max_model_length'",
        ),
        ("cli-flag-unknown", UNRECOGNIZED.format("serving")),
        ("json-flag-quoting", UNRECOGNIZED.format("2, method: ngram}")),
    ],
)
def test_a_flag_that_was_once_is_not_a_misspelt_one(library: tuple[Loaded, ...], wanted: str, log: str) -> None:
    assert causes(library, log)[:1] == [wanted]


def test_the_wrong_check_of_a_release_is_told_from_too_few_gpus(library: tuple[Loaded, ...]) -> None:
    text = "AssertionError: local_world_size (16) must be less than or equal to the number of visible devices (4)."
    log = V1.format(version="{}") + "\n" + worker(text, ("vllm/v1/worker/gpu_worker.py", "init_device"))
    with_ray = f"{SERVE} --tensor-parallel-size 16 --distributed-executor-backend ray"
    assert causes(library, log.format("0.11.1"), with_ray)[0] == "local-world-size-check-breaks-ray-multinode"
    assert (
        causes(library, log.format("0.16.0"), f"{SERVE} --tensor-parallel-size 16")[0] == "multi-node-needs-ray-backend"
    )


def test_a_bare_assertion_needs_a_pipeline_to_be_its_missing_buffer(library: tuple[Loaded, ...]) -> None:
    log = "INFO:     Application startup complete.\n" + worker(
        "AssertionError", ("vllm/v1/worker/gpu/model_runner.py", "execute_model"), name="Worker_PP1"
    )
    assert "pp-eager-without-warmup" in causes(library, log, f"{SERVE} --pipeline-parallel-size 2 --enforce-eager")
    assert "pp-eager-without-warmup" not in causes(library, log, SERVE)


def test_all_reduce_fails_for_the_allocator_only_where_the_launch_sets_it(library: tuple[Loaded, ...]) -> None:
    log = V1.format(version="0.28.0") + (
        "\nFailed: Cuda error /workspace/csrc/custom_all_reduce.cuh:455 'invalid argument'\n"
        "(EngineCore pid=4) ERROR 03-02 10:20:00 [core.py:1231] EngineCore failed to start.\n"
    )
    wanted = "custom-allreduce-with-expandable-segments"
    assert causes(library, log, f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True {SERVE}")[:1] == [wanted]
    assert causes(library, log, f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False {SERVE}")[:1] != [wanted]


SERVING = "INFO:     Started server process [7]\nINFO:     Application startup complete.\n"
LONG = (
    "WARNING 03-02 10:11:12 [model.py:2660] User-specified max_model_len (8192) is greater than the "
    "derived max_model_len "
    "(max_position_embeddings=4096.0 or model_max_length=None in model's config.json). "
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN must "
    "be used with extreme caution.\n"
)


def test_a_call_that_times_out_in_a_running_engine_is_a_rank_that_hangs(library: tuple[Loaded, ...]) -> None:
    record = "(EngineCore_DP0 pid=4) ERROR 03-02 10:25:00 [core.py:844] "
    fatal = record + "EngineCore encountered a fatal error.\n"
    frames = (("vllm/v1/executor/multiproc_executor.py", "get_response"),)
    died = raised("TimeoutError: RPC call to sample_tokens timed out.", *frames, prefix=record)
    assert causes(library, V1.format(version="0.16.0") + "\n" + SERVING + fatal + died)[0] == "worker-stopped-hang"


def test_several_nodes_whose_log_just_stops_wait_for_a_peer(library: tuple[Loaded, ...]) -> None:
    log = V1.format(version="0.32.0") + (
        "\n(EngineCore pid=4) INFO 03-02 10:11:13 [multiproc_executor.py:153] DP group leader: node_rank=0, "
        "node_rank_within_dp=0, master_addr=10.0.0.4, mq_connect_ip=192.0.2.2, world_size=4, local_world_size=2\n"
    )
    assert causes(library, log, f"{SERVE} --tensor-parallel-size 4 --nnodes 2")[0] == "rendezvous-peer-missing"
    one_node = log.replace("world_size=4", "world_size=2")
    assert causes(library, one_node, f"{SERVE} --tensor-parallel-size 2")[:1] == ["worker-stopped-hang"]


@pytest.mark.parametrize("cut", [2, 3, 4])
def test_one_rank_alone_waits_for_nobody(library: tuple[Loaded, ...], cut: int) -> None:
    """A log that merely stops is no hang of other ranks where there are none."""
    lines = [
        "INFO 03-02 10:11:12 [api_server.py:1772] vLLM API server version 0.19.0",
        "INFO 03-02 10:11:13 [core.py:93] Initializing a V1 LLM engine (v0.19.0) with config: model='m', "
        "tensor_parallel_size={ranks}, pipeline_parallel_size=1, data_parallel_size=1",
        "INFO 03-02 10:11:14 [parallel_state.py:1203] world_size={ranks} rank=0 local_rank=0 "
        "distributed_init_method=tcp://127.0.0.1:41357 backend=nccl",
        "INFO 03-02 10:11:15 [gpu_model_runner.py:3549] Starting to load model m...",
    ]
    alone, several = ("\n".join(lines[:cut]).format(ranks=ranks) + "\n" for ranks in (1, 2))
    given = Given("engine.log")
    assert not diagnose(read_text([alone]), library, read_wrappers(), given).causes
    assert diagnose(read_text([several]), library, read_wrappers(), given).causes


def test_a_server_that_is_up_may_still_answer_wrongly(library: tuple[Loaded, ...]) -> None:
    assert causes(library, V1.format(version="0.32.0") + "\n" + LONG + SERVING) == ["length-beyond-trained-context"]
    broken = "ERROR 03-02 10:12:00 [hf.py:486] jinja2.exceptions.TemplateSyntaxError: unexpected '}'\n"
    assert causes(library, V1.format(version="0.32.0") + "\n" + SERVING + broken)[:1] == ["chat-template-invalid"]
    assert causes(library, V1.format(version="0.32.0") + "\n" + SERVING) == []


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: User-specified max_model_len (8192) is greater than the derived max_model_len "
        "(max_position_embeddings"
        "=4096 or model_max_length=None in model's config.json). To allow overriding this maximum, set the env var "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with extreme caution.",
        "ValueError: User-specified max_model_len (8192) is greater than the derived max_model_len "
        "(seq_length=2048). This "
        "may lead to incorrect model outputs or CUDA errors. Make sure the value is correct and "
        "within the model context size.",
    ],
)
def test_a_refused_length_is_no_served_one(library: tuple[Loaded, ...], text: str) -> None:
    assert "length-beyond-trained-context" not in causes(library, text)


@pytest.mark.parametrize(
    "log",
    [
        # ours died of something else
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.7]:21733",
        "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
        "AssertionError: tensor model parallel group is not initialized",
    ],
)
def test_what_others_say_is_not_taken(library: tuple[Loaded, ...], log: str) -> None:
    families = {one.id: one.spec.family for one in library}
    first = causes(library, log)[:1]
    assert not first or families.get(first[0]) != "distributed"


def fact(name: str, known: dict[str, Value], launch: Launch | None = None) -> object:
    """The value of `name`, or the reason why it is unknown."""
    facts: dict[str, Fact] = {key: Known(value, "parsed", "a test") for key, value in known.items()}
    answer = lookup_for(launch, facts)(name)
    return answer.value if isinstance(answer, Known) else answer.reason if isinstance(answer, Unknown) else "unset"


def test_flags_are_looked_up_in_the_table_of_releases() -> None:
    assert fact("config.flag_was_removed", {"flag": "swap-space"}) is True
    assert fact("config.flag_was_removed", {"flag": "disable_log_requests"}) is True
    assert fact("config.flag_was_removed", {"flag": "max-model-len"}) is False
    assert fact("config.flag_was_removed", {"flag": "no-enable-prefix-caching"}) is False
    assert fact("config.flag_was_removed", {}) == "no message names the flag"
    assert fact("config.nearest_flag", {"flag": "max_model_lenght"}) == "max-model-len"
    assert fact("config.nearest_flag", {"flag": "zzzzqqqq"}) == "no flag looks like --zzzzqqqq"
    assert fact("config.flag_last_release", {"flag": "zzzz"}) == "no release that was read has --zzzz"


def test_sizes_are_computed_from_the_message() -> None:
    assert fact("config.block_size_that_fits", {"block_size": 16, "block_multiple": 32}) == 32
    assert fact("config.block_size_that_fits", {"block_size": 33, "block_multiple": 16}) == 48
    assert "block_multiple" in str(fact("config.block_size_that_fits", {"block_size": 16}))
    assert fact("config.batched_tokens_needed", {"model_len": 32768, "batched_tokens": 2048}) == 32768
    assert fact("config.batched_tokens_needed", {"num_seqs": 16, "batched_tokens": 8}) == 2048
    tensor = Launch("chat", "/m", {"tensor-parallel-size": 16, "pipeline-parallel-size": 1})
    assert fact("config.tensor_size_for_this_node", {"gpus_here": 8}, tensor) == 8
    assert fact("config.tensor_size_for_this_node", {"gpus_here": 6}, tensor) == 4
    stages = Launch("chat", "/m", {"pipeline-parallel-size": 4})
    assert "need more than the 2 GPUs" in str(fact("config.tensor_size_for_this_node", {"gpus_here": 2}, stages))
    assert fact("config.batched_tokens_needed", {}) == "no message says what a step must hold"


def test_each_engine_of_a_host_gets_ports_of_its_own() -> None:
    ports = [fact("config.own_start_port", {}, Launch("chat", "/m", {"port": port})) for port in range(8000, 8020)]
    assert len(set(ports)) == len(ports)
    assert all(isinstance(port, int) and 20_000 <= port < 50_000 for port in ports)
    assert fact("config.own_start_port", {}, Launch("chat", "/m", {})) == ports[0]
    assert "not known" in str(fact("config.own_start_port", {}))


@pytest.mark.parametrize(
    ("value", "is_on"),
    [
        ("expandable_segments:True", True),
        ("max_split_size_mb:512,expandable_segments: True", True),
        ("backend:native", False),
    ],
)
def test_segments_are_expandable_where_the_launch_says_so(value: str, is_on: bool) -> None:
    launch = Launch("chat", "/m", {}, {"PYTORCH_CUDA_ALLOC_CONF": value})
    assert fact("config.segments_are_expandable", {}, launch) is is_on
    assert fact("config.plain_segments", {}, launch) == value.replace("True", "False")


def test_what_the_launch_does_not_say_stays_unknown_or_off() -> None:
    launch = Launch("chat", "/m", {})
    assert "may" in str(fact("config.segments_are_expandable", {}, launch))
    assert fact("config.compile_caches_are_off", {}, launch) is False
    assert (
        fact("config.compile_caches_are_off", {}, Launch("c", "/m", {}, {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}))
        is True
    )
    assert fact("config.architecture_is_another", {"overriding": "A", "model.architectures": "B"}) is True
    assert fact("config.architecture_is_another", {"overriding": "A", "model.architectures": "A B"}) is False
    assert "unknown" in str(fact("config.architecture_is_another", {"overriding": "A"}))
    assert fact("config.load_format_is_known", {"value": "gguf"}) is True
    assert fact("config.load_format_is_known", {"value": "bogus"}) is False
