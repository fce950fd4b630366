"""Load attempts: stages with seconds, outcome and root, with several models and several starts in one log."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_log_records import CORE, LOADER, traceback
from vllm_lines import RELEASES, printed

from engine_probe.logs.attempts import Attempt, attempts
from engine_probe.logs.clock import elapsed_s, seconds_in_year
from engine_probe.logs.records import read_text

DATA = Path(__file__).parent / "data"


def found(text: str | bytes, version: str | None = None) -> list[Attempt]:
    return attempts(read_text([text], version))


def load(
    release: str, model: str = "acme/m-7b", pids: tuple[int, int, int] = (1, 2, 3), clock: str = "10:11"
) -> list[str]:
    """The lines of a good start, a stage every ten seconds."""

    def say(second: int, kind: str, file: str, message: str) -> str:
        line = printed(release, file, 9, "INFO", message, kind)
        pid = pids[("frontend", "engine", "worker").index(kind)]
        return line.replace("pid=4711", f"pid={pid}").replace("10:11:12", f"{clock}:{second:02d}")

    return [
        say(0, "frontend", "api_server.py", f"vLLM API server version {release}"),
        say(1, "frontend", "api_server.py", f"args: Namespace(model='{model}', host=None)"),
        say(
            10, "engine", "core.py", f"Initializing a V1 LLM engine (v{release}) with config: model='{model}', dtype=x"
        ),
        say(
            15, "worker", "parallel_state.py", "world_size=2 rank=1 local_rank=1 distributed_init_method=x backend=nccl"
        ),
        say(20, "worker", "gpu_model_runner.py", f"Starting to load model {model}..."),
        say(30, "worker", "gpu_model_runner.py", "Model loading took 13.5608 GiB and 25.566189 seconds"),
        say(35, "worker", "gpu_worker.py", "Available KV cache memory: 2.87 GiB"),
        say(36, "engine", "kv_cache_utils.py", "GPU KV cache size: 34,736 tokens"),
        say(40, "worker", "gpu_model_runner.py", "Graph capturing finished in 21 secs, took 0.58 GiB"),
        say(45, "engine", "core.py", "init engine (profile, create kv cache, warmup model) took 41.52 seconds"),
        say(50, "frontend", "api_server.py", "Starting vLLM API server 0 on http://0.0.0.0:8000"),
        "INFO:     Application startup complete.",
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_a_good_start_in_every_release(release: str) -> None:
    (attempt,) = found("\n".join(load(release)))
    assert (attempt.outcome, attempt.stage, attempt.root) == ("healthy", "serving", None)
    assert (attempt.model, attempt.version) == ("acme/m-7b", release)
    assert attempt.seconds() == {
        "config": 10.0,
        "engine_build": 5.0,
        "distributed_init": 5.0,
        "weight_load": 10.0,
        "memory_planning": 10.0,
        "warmup": 10.0,
        "serving": 0.0,
    }
    assert attempt.facts["weights.gib"] == 13.5608
    assert attempt.facts["kv.available_gib"] == 2.87
    assert attempt.facts["kv.tokens"] == 34736
    assert attempt.facts["graphs.gib"] == 0.58


def test_stages_of_each_process_overlap() -> None:
    (attempt,) = found("\n".join(load("0.16.0")))
    of_worker = [(one.stage, one.seconds) for one in attempt.by_process if one.process == "Worker_TP1"]
    assert of_worker == [("distributed_init", 5.0), ("weight_load", 10.0), ("memory_planning", 10.0), ("warmup", 0.0)]
    of_engine = [(one.stage, one.seconds) for one in attempt.by_process if one.process == "EngineCore_DP0"]
    assert of_engine == [("engine_build", 26.0), ("memory_planning", 9.0), ("warmup", 0.0)]


@pytest.mark.parametrize(
    ("name", "outcome", "stage"),
    [
        ("vllm-0.32.0-cpu-ready.log", "healthy", "serving"),
        ("vllm-0.32.0-cpu-kv-too-small.log", "failed", "memory_planning"),
    ],
)
def test_real_starts(name: str, outcome: str, stage: str) -> None:
    (attempt,) = found((DATA / name).read_bytes())
    assert (attempt.outcome, attempt.stage, attempt.version) == (outcome, stage, "0.32.0")
    assert (attempt.root is None) == (outcome == "healthy")
    if attempt.root is not None and attempt.root_record is not None:
        assert attempt.root.text.startswith(
            "ValueError: To serve at least one request with the model's max seq len (4096)"
        )
        assert attempt.root_record.layer == "engine"


def test_the_root_is_the_worker_s_not_the_covers_after_it() -> None:
    lines = load("0.16.0")[:5]
    worker = "WorkerProc failed to start.\n" + traceback("ValueError: bad shard", (LOADER, "load_weights"))
    cover = (
        "WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."
    )
    lines += [printed("0.16.0", "multiproc_executor.py", 772, "ERROR", worker, "worker").replace("4711", "3")]
    engine = "EngineCore failed to start.\n" + traceback(f"Exception: {cover}", (CORE, "run_engine_core"))
    lines += [printed("0.16.0", "core.py", 866, "ERROR", engine, "engine").replace("4711", "2")]
    last = traceback("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
    lines += [f"(APIServer pid=1) {line}" for line in last.split("\n")]
    (attempt,) = found("\n".join(lines))
    assert (attempt.outcome, attempt.stage) == ("failed", "weight_load")
    assert attempt.root is not None
    assert attempt.root.text == "ValueError: bad shard"
    assert attempt.root_record is not None
    assert attempt.root_record.layer == "model_runner"


def test_an_error_that_the_load_survives_is_no_failure() -> None:
    lines = load("0.16.0")
    survived = "Failed to import a plugin.\n" + traceback("ImportError: no plugin", (LOADER, "f"))
    lines.insert(3, printed("0.16.0", "x.py", 1, "ERROR", survived, "engine").replace("4711", "2"))
    assert [one.outcome for one in found("\n".join(lines))] == ["healthy"]
    assert [one.outcome for one in found("\n".join(lines[:7]))] == ["incomplete"]


def test_a_container_that_starts_again_with_the_same_pids() -> None:
    broken = [
        *load("0.16.0")[:5],
        *(f"(Worker_TP1 pid=3) {x}" for x in traceback("ValueError: x", (LOADER, "load_model")).split("\n")),
    ]
    first, second = found("\n".join([*broken, *load("0.16.0", clock="10:13")]))
    assert [(one.outcome, one.model, one.pid) for one in (first, second)] == [
        ("failed", "acme/m-7b", 1),
        ("healthy", "acme/m-7b", 1),
    ]
    assert first.stage == "weight_load"


def test_two_models_that_load_side_by_side() -> None:
    one, two = load("0.16.0", "acme/one", (1, 2, 3)), load("0.16.0", "acme/two", (11, 12, 13))
    mixed = [line for pair in zip(one[:-1], two[:-1], strict=True) for line in pair]
    mixed += ["(APIServer pid=11) INFO:     Application startup complete."]
    first, second = found("\n".join(mixed))
    assert [(each.model, each.pid, each.outcome) for each in (first, second)] == [
        ("acme/one", 1, "incomplete"),
        ("acme/two", 11, "healthy"),
    ]
    assert {record.pid for record in first.records} == {1, 2, 3}
    assert {record.pid for record in second.records} == {11, 12, 13}


def test_containers_in_one_compose_log() -> None:
    one = [f"one-1  | {line}" for line in load("0.16.0", "acme/one")]
    two = [f"two-1  | {line}" for line in load("0.16.0", "acme/two")[:6]]
    mixed = [line for pair in zip(one, two, strict=False) for line in pair] + one[6:]
    told = [(each.source, each.model, each.outcome) for each in found("\n".join(mixed))]
    assert told == [("one", "acme/one", "healthy"), ("two", "acme/two", "incomplete")]


def test_data_parallel_engines_are_one_attempt() -> None:
    lines = load("0.16.0")
    lines.insert(3, lines[2].replace("EngineCore_DP0 pid=2", "EngineCore_DP1 pid=22"))
    assert len(found("\n".join(lines))) == 1


@pytest.mark.parametrize(
    ("text", "stage", "root"),
    [
        ("vllm serve: error: argument --dtype: invalid choice: 'f16'", "config", "vllm serve: error: argument --dtype"),
        (
            traceback("ImportError: libcudart.so.12: cannot open", (CORE, "<module>")),
            "config",
            "ImportError: libcudart",
        ),
        ("\n".join([*load("0.16.0")[:5], "Killed"]), "weight_load", "Killed"),
    ],
)
def test_ends_without_a_logger(text: str, stage: str, root: str) -> None:
    (attempt,) = found(text)
    assert (attempt.outcome, attempt.stage) == ("failed", stage)
    assert attempt.root_record is not None
    told = attempt.root.text if attempt.root is not None else attempt.root_record.message
    assert told.startswith(root)


def test_a_server_fails_by_what_ends_it_only() -> None:
    lines = load("0.16.0")
    request = "ERROR:    Exception in ASGI application\n" + traceback("ValueError: bad request", (CORE, "f"))
    assert [one.outcome for one in found("\n".join([*lines, request]))] == ["healthy"]
    died = "EngineCore encountered a fatal error.\n" + traceback("RuntimeError: CUDA error: x", (LOADER, "f"))
    died = printed("0.16.0", "core.py", 1, "ERROR", died, "engine").replace("4711", "2")
    (attempt,) = found("\n".join([*lines, died]))
    assert attempt.outcome == "failed"
    assert attempt.root is not None
    assert attempt.root.text == "RuntimeError: CUDA error: x"
    bound = "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"
    assert [(one.outcome, one.stage) for one in found("\n".join([*lines, bound]))] == [("failed", "serving")]


def test_times_over_new_year() -> None:
    before, after = seconds_in_year("12-31 23:59:50"), seconds_in_year("01-01 00:00:10")
    assert before is not None
    assert after is not None
    assert elapsed_s(before, after) == 20.0
    assert elapsed_s(after, after - 1) == 0.0
    assert seconds_in_year("2026-03-02 10:11:12,500") == seconds_in_year("03-02 10:11:12.5")
    assert seconds_in_year("99-99 10:11:12") is None
    assert seconds_in_year(None) is None


def test_a_log_without_any_start() -> None:
    assert found("") == []
    (attempt,) = found("hello\nworld\n")
    assert (attempt.outcome, attempt.stage, attempt.model, attempt.version) == ("incomplete", None, None, None)


SERVED = """\
(APIServer pid=1) INFO 11-29 10:00:00 [utils.py:233] vLLM API server version 0.11.2
(EngineCore_DP0 pid=2) INFO 11-29 10:00:01 [core.py:77] Initializing a V1 LLM engine (v0.11.2) with config: model='m'
(APIServer pid=1) INFO:     Application startup complete.
"""
DIED = (
    "(APIServer pid=1) ERROR 11-29 10:09:00 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly.\n"
)
OOM = (
    "ERROR 11-29 10:08:59 [engine.py:157] OutOfMemoryError('CUDA out of memory.')\n"
    "ERROR 11-29 10:08:59 [engine.py:157] Traceback (most recent call last):\n"
    'ERROR 11-29 10:08:59 [engine.py:157]   File "/v/vllm/worker/model_runner.py", line 7, in execute_model\n'
    "ERROR 11-29 10:08:59 [engine.py:157] torch.OutOfMemoryError: CUDA out of memory.\n"
)
DEAD = "CRITICAL 11-29 10:09:00 [launcher.py:101] MQLLMEngine is already dead, terminating server process\n"
HANGS = (
    "(EngineCore_DP0 pid=2) INFO 11-29 10:09:00 [shm_broadcast.py:466] No available shared memory broadcast block "
    "found in 60 seconds. This typically happens when some processes are hanging.\n"
)
GIVEN_UP = "2026-11-29 10:09:00,100 - vllm_console.probe - ERROR - load of m failed after 9.0 s: port 8000 is taken\n"
ACCESS = '(APIServer pid=1) INFO:     127.0.0.1:5 - "GET /health HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize(
    ("after", "outcome", "root"),
    [
        (ACCESS, "healthy", None),
        (DIED, "failed", None),
        (OOM + DEAD, "failed", "OutOfMemoryError: CUDA out of memory."),
        (OOM, "healthy", None),
        ("INFO:     Shutting down\n" + DIED, "healthy", None),
        (HANGS + HANGS + ACCESS, "incomplete", None),
        (HANGS + ACCESS, "healthy", None),
        (GIVEN_UP, "incomplete", None),
        ("INFO:     Shutting down\n" + GIVEN_UP, "incomplete", None),
        (GIVEN_UP.replace("failed after", "over, cleaned up after"), "healthy", None),
    ],
)
def test_how_a_server_ends(after: str, outcome: str, root: str | None) -> None:
    (attempt,) = attempts(read_text([SERVED + after]))
    assert (attempt.outcome, attempt.root.text if attempt.root else None) == (outcome, root)
    assert attempt.stage == "serving"


def test_a_program_of_ones_own_fails_by_an_exception_after_a_good_load() -> None:
    load = (
        "INFO 11-29 10:00:01 [core.py:77] Initializing a V1 LLM engine (v0.11.2) with config: model='m'\n"
        "INFO 11-29 10:00:30 [core.py:248] init engine (profile, create kv cache, warmup model) took 2.50 seconds\n"
    )
    end = 'Traceback (most recent call last):\n  File "/app/run.py", line 7, in <module>\nValueError: no runner\n'
    (attempt,) = attempts(read_text([load + end]))
    assert (attempt.outcome, attempt.root.text if attempt.root else None) == (
        "failed",
        "ValueError: no runner",
    )
    (fine,) = attempts(read_text([load]))
    assert fine.outcome == "healthy"
