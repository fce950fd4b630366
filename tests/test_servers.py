"""vLLM's engines as their processes, commands and logs show them, in trees of files that stand for /proc."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware import server_failure
from engine_probe.hardware.gpus import Gpu, GpuProcess, GpuState, MigSlice
from engine_probe.hardware.servers import ServerWatch
from engine_probe.logs.lines import read_line
from tests.fake_proc import FakeProc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine_probe.hardware.reading import ProcessReading, Server

NO_GPUS = GpuState()
SPAWN = ["python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)", "--multiprocessing-fork"]
TRACKER = ["python3", "-B", "-c", "from multiprocessing.resource_tracker import main;main(32)"]


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


@pytest.fixture
def watch(fake: FakeProc) -> Iterator[ServerWatch]:
    watch = ServerWatch(fake.root)
    yield watch
    watch.close()


def serve(model: str, *more: str) -> list[str]:
    """Where no port is given, one on which nobody listens."""
    more = more if "--port" in more else ("--port", "1", *more)
    return ["/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", model, *more]


def gib(value: float) -> Known:
    return Known(value, "measured", "NVML")


def gpu(index: int, *processes: tuple[int, float], is_visible: bool = True) -> Gpu:
    held = tuple(GpuProcess(pid, "python", gib(size), is_visible) for pid, size in processes)
    return Gpu(index, f"GPU-{index}", "A100", gib(80), gib(1), gib(79), held)


def read(watch: ServerWatch, gpus: GpuState = NO_GPUS) -> tuple[dict[int, Server], dict[int, ProcessReading]]:
    servers, processes = watch.read(gpus, time.time())
    return {one.pid: one for one in servers}, {one.pid: one for one in processes}


def value(fact: Fact) -> object:
    assert isinstance(fact, Known), fact
    return fact.value


def test_a_host_without_engines(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(1, ["/sbin/init"])
    fake.add(2, ["vim", "vllm.py"])
    fake.add(3, ["bash", "-c", "vllm serve m"])
    assert read(watch) == ({}, {})


def test_a_server_with_ranks(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(1, ["/sbin/init"])
    fake.add(50, ["bash", "run.sh"])
    words = serve(
        "/models/m", "--served-model-name", "chat", "-tp", "2", "--port", "8001", "--api-key", "sk-secret-1234"
    )
    fake.add(100, words, 50)
    fake.add(101, TRACKER, 100)
    fake.add(102, "VLLM::EngineCore_DP0", 100)
    fake.add(103, "VLLM::Worker_TP0", 102)
    fake.add(104, "VLLM::Worker_TP1", 102)
    servers, processes = read(watch, GpuState((gpu(0, (103, 30.0)), gpu(1, (104, 30.0)))))
    assert servers.keys() == {100}
    server = servers[100]
    assert (server.name, server.model, value(server.port)) == ("chat", "/models/m", 8001)
    assert (server.pids, server.gpus) == ((100, 101, 102, 103, 104), (0, 1))
    assert "sk-secret-1234" not in repr((server, processes))
    assert server.argv[-2:] == ("--api-key", "***")
    roles = {pid: (one.role, one.rank, one.server) for pid, one in processes.items()}
    assert roles == {
        100: ("api_server", None, 100),
        101: ("helper", None, 100),
        102: ("engine_core", 0, 100),
        103: ("worker", 0, 100),
        104: ("worker", 1, 100),
    }
    assert [value(size) for index, size in processes[103].gpu_gib if index == 0] == [30.0]


def test_children_without_titles_are_told_by_where_they_stand(fake: FakeProc, watch: ServerWatch) -> None:
    """0.7 to 0.10: spawned ones have Python's words, forked ones those of their parent."""
    for root, words in ((100, SPAWN), (200, serve("b"))):
        fake.add(root, serve("a" if root == 100 else "b"))
        fake.add(root + 1, words, root)
        fake.add(root + 2, words, root + 1)
        fake.add(root + 3, ["ninja"], root + 2)
    servers, processes = read(watch)
    assert {pid: one.name for pid, one in servers.items()} == {100: "a", 200: "b"}
    roles = [processes[pid].role for pid in (100, 101, 102, 103, 200, 201, 202, 203)]
    assert roles == ["api_server", "engine_core", "worker", "helper"] * 2


def test_several_api_servers_are_one_server(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(100, serve("m", "--api-server-count", "2"))
    for number in (0, 1):
        fake.add(101 + number, f"VLLM::APIServer_{number}", 100)
        fake.add(103 + number, f"VLLM::EngineCore_DP{number}", 100)
    fake.add(105, "VLLM::DPCoordinator", 100)
    servers, processes = read(watch)
    assert servers.keys() == {100}
    assert [processes[pid].rank for pid in (101, 102, 103, 104)] == [0, 1, 0, 1]
    assert processes[105].role == "helper"


@pytest.mark.parametrize(
    ("parts", "stage"),
    [
        ([], "config"),
        ([(101, "VLLM::EngineCore", 100)], "engine_build"),
        ([(101, "VLLM::EngineCore", 100), (102, "VLLM::Worker_TP0", 101)], "worker_start"),
    ],
)
def test_without_a_log_the_stage_follows_from_the_processes(
    fake: FakeProc, watch: ServerWatch, parts: list[tuple[int, str, int]], stage: str
) -> None:
    fake.add(100, serve("m"))
    for pid, title, parent in parts:
        fake.add(pid, title, parent)
    server = read(watch)[0][100]
    assert isinstance(server.stage, Known)
    assert (server.state, server.stage.value, server.stage.source) == ("loading", stage, "computed")
    assert isinstance(server.version, Unknown)


def test_memory_on_a_gpu_means_that_weights_are_loaded(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(100, serve("m"))
    fake.add(101, "VLLM::EngineCore", 100)
    assert value(read(watch, GpuState((gpu(0, (101, 0.4)),)))[0][100].stage) == "engine_build"
    assert value(read(watch, GpuState((gpu(0, (101, 9.4)),)))[0][100].stage) == "weight_load"


LOAD = """\
(APIServer pid=100) INFO 03-02 10:11:12 [api_server.py:1] vLLM API server version 0.25.1
(EngineCore pid=101) INFO 03-02 10:11:13 [core.py:1] Initializing a V1 LLM engine (v0.25.1) with config: model='/m'
(Worker_TP0 pid=102) INFO 03-02 10:11:14 [gpu_model_runner.py:1] Starting to load model /m...
(Worker_TP0 pid=102) Loading safetensors checkpoint shards:   0% Completed | 0/6 [00:00<?, ?it/s]
(Worker_TP0 pid=102) Loading safetensors checkpoint shards:  67% Completed | 4/6 [00:05<00:02,  1.6s/it]
"""
LOADED = """\
(Worker_TP0 pid=102) INFO 03-02 10:11:24 [gpu_model_runner.py:1] Model loading took 29.34 GiB memory and 13.7 seconds
(Worker_TP0 pid=102) INFO 03-02 10:11:34 [gpu_worker.py:1] Available KV cache memory: 9.35 GiB
(EngineCore pid=101) INFO 03-02 10:11:34 [kv_cache_utils.py:1] GPU KV cache size: 76,592 tokens
"""
SERVING = "(APIServer pid=100) INFO:     Application startup complete.\n"


def add_tp2(fake: FakeProc, log: Path, root: int = 100, model: str = "/m") -> None:
    fake.add(root, serve(model, "-tp", "2"), outputs=(log, log))
    fake.add(root + 1, "VLLM::EngineCore", root)
    fake.add(root + 2, "VLLM::Worker_TP0", root + 1)
    fake.add(root + 3, "VLLM::Worker_TP1", root + 1)


def test_a_log_tells_stage_version_and_what_memory_is_for(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(LOAD)
    add_tp2(fake, log)
    gpus = GpuState((gpu(0, (102, 40.0)), gpu(1, (103, 40.5))))
    server = read(watch, gpus)[0][100]
    assert server.stage == Known("weight_load", "parsed", f"{log}:3")
    assert (server.state, server.stage_detail, server.log) == ("loading", "4 of 6 shards", str(log))
    assert server.version == Known("0.25.1", "parsed", f"{log}:2")
    assert all(isinstance(one.weights_gib, Unknown) for one in server.memory)
    since = server.stage_since
    with log.open("a") as file:
        file.write(LOADED)
    server = read(watch, gpus)[0][100]
    assert value(server.stage) == "memory_planning"
    assert server.stage_since is not None
    assert since is not None
    assert server.stage_since > since
    first, second = server.memory
    assert [value(fact) for fact in (first.used_gib, first.weights_gib, first.kv_pool_gib)] == [40.0, 29.34, 9.35]
    assert value(first.rest_gib) == pytest.approx(1.31)
    assert isinstance(second.weights_gib, Known)
    assert (second.weights_gib.value, second.weights_gib.source) == (29.34, "computed")
    assert value(server.kv_pool_gib) == pytest.approx(18.7)
    with log.open("a") as file:
        file.write(SERVING)
    server = read(watch, gpus)[0][100]
    assert (server.state, value(server.stage), server.stage_detail) == ("serving", "serving", "")


FAILURE = """\
(EngineCore pid=101) ERROR 03-02 10:11:40 [core.py:770] EngineCore failed to start.
(EngineCore pid=101) ERROR 03-02 10:11:40 [core.py:770] Traceback (most recent call last):
(EngineCore pid=101) ERROR 03-02 10:11:40 [core.py:770]   File "/v/vllm/v1/engine/core.py", line 761, in run_engine_core
(EngineCore pid=101) ERROR 03-02 10:11:40 [core.py:770]     engine_core = EngineCoreProc(*args, **kwargs)
(EngineCore pid=101) ERROR 03-02 10:11:40 [core.py:770] ValueError: No available memory for the cache blocks. Try it
"""
COVER = """\
(APIServer pid=100) Traceback (most recent call last):
(APIServer pid=100)   File "/v/vllm/v1/engine/utils.py", line 984, in wait_for_engine_startup
(APIServer pid=100)     raise RuntimeError(
(APIServer pid=100) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def test_a_load_that_its_log_says_failed_is_failed(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    """Its processes may stay: a worker that hangs, or a server that waits for its engine."""
    log = tmp_path / "engine.log"
    log.write_text(LOAD + LOADED)
    add_tp2(fake, log)
    assert read(watch)[0][100].state == "loading"
    with log.open("a") as file:
        file.write(FAILURE + COVER)
    server = read(watch)[0][100]
    assert (server.state, value(server.stage)) == ("failed", "memory_planning")
    assert server.stage_detail == "ValueError: No available memory for the cache blocks. Try it"
    with log.open("a") as file:
        file.write(LOAD)  # a supervisor in the same process tries again
    assert read(watch)[0][100].state == "loading"


@pytest.mark.parametrize(
    "after",
    [
        "(EngineCore pid=101) ERROR 03-02 10:11:40 [x.py:1] Failed to import a kernel\n",
        FAILURE + LOADED + "(EngineCore pid=101) INFO 03-02 10:11:50 [x.py:1] Warming up \n",
        "(EngineCore pid=101) INFO 03-02 10:11:40 [core.py:1454] [shutdown] trigger received signal=SIGTERM\n"
        + FAILURE,
        SERVING + "(APIServer pid=100) ERROR 03-02 10:12:00 [serving.py:1] Error in preprocessing prompt inputs\n"
        "(APIServer pid=100) Traceback (most recent call last):\n(APIServer pid=100) ValueError: too long\n",
    ],
    ids=["only logged", "the load went on", "it was asked to end", "of a request"],
)
def test_not_every_error_is_a_failed_load(fake: FakeProc, watch: ServerWatch, tmp_path: Path, after: str) -> None:
    log = tmp_path / "engine.log"
    log.write_text(LOAD + LOADED + after)
    add_tp2(fake, log)
    assert read(watch)[0][100].state in ("loading", "serving")


def test_a_log_of_many_errors_is_not_looked_at_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((100.0, 101.0, 110.0, 160.0, 160.0))
    monkeypatch.setattr(server_failure.time, "monotonic", lambda: next(clock))
    looks: list[None] = []
    monkeypatch.setattr(server_failure.Failure, "_look", lambda _self: looks.append(None))
    failure = server_failure.Failure()
    for expected in (1, 1, 2):
        failure.take(read_line("ERROR 03-02 10:11:40 [x.py:1] once more"), "ERROR", "log:1")
        assert failure.told() is None
        assert len(looks) == expected


def test_a_server_whose_engine_died_is_failed(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    died = FAILURE.replace("EngineCore failed to start.", "EngineCore encountered a fatal error.")
    log.write_text(LOAD + LOADED + SERVING)
    add_tp2(fake, log)
    assert read(watch)[0][100].state == "serving"
    with log.open("a") as file:
        file.write(died)
    server = read(watch)[0][100]
    assert (server.state, server.stage_detail[:11]) == ("failed", "ValueError:")


def test_a_stage_begins_when_its_log_says_so(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    """Whenever a console is opened."""
    log, now = tmp_path / "engine.log", float(int(time.time()))
    with log.open("w") as file:
        file.write(stamped(now - 500, "api_server.py:1] vLLM API server version 0.25.1"))
        file.write(stamped(now - 400, "gpu_model_runner.py:1] Starting to load model /m..."))
    fake.add(100, serve("/m"), outputs=(log,), started=now - 510)
    (server,) = watch.read(NO_GPUS, now)[0]
    assert (server.stage_since, server.stage_seen_late) == (now - 400, False)


@pytest.mark.parametrize("apart", [-7200, 7200])
def test_times_of_another_zone_tell_no_moment(fake: FakeProc, watch: ServerWatch, tmp_path: Path, apart: int) -> None:
    log, now = tmp_path / "engine.log", float(int(time.time()))
    log.write_text(stamped(now - 400 + apart, "gpu_model_runner.py:1] Starting to load model /m..."))
    fake.add(100, serve("/m"), outputs=(log,), started=now - 510)
    (server,) = watch.read(NO_GPUS, now)[0]
    assert (server.stage_since, server.stage_seen_late) == (now, True)
    (server,) = watch.read(NO_GPUS, now + 10)[0]
    assert (server.stage_since, server.stage_seen_late) == (now, True)


def test_a_server_that_was_just_started_is_no_older(fake: FakeProc, watch: ServerWatch) -> None:
    now = time.time()
    fake.add(100, serve("/m"), started=now - 1)
    fake.add(200, serve("/n"), started=now - 100)
    late = {one.pid: one.stage_seen_late for one in watch.read(NO_GPUS, now)[0]}
    assert late == {100: False, 200: True}


def test_numbers_that_cannot_both_be_are_no_rest(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(LOAD + LOADED)
    add_tp2(fake, log)
    split = read(watch, GpuState((gpu(0, (102, 31.0)),)))[0][100].memory[0]
    assert isinstance(split.rest_gib, Unknown)
    assert value(split.kv_pool_gib) == 9.35


def test_a_driver_that_does_not_say_a_size(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(LOAD + LOADED)
    add_tp2(fake, log)
    unknown = Unknown("the driver does not say it here")
    one = Gpu(0, "GPU-0", "A100", gib(80), gib(1), gib(79), (GpuProcess(102, "python", unknown),))
    server = read(watch, GpuState((one,)))[0][100]
    assert (server.memory[0].used_gib, server.memory[0].rest_gib) == (unknown, unknown)


def test_ranks_of_a_pipeline_are_not_taken_for_each_other(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(LOAD + LOADED)
    add_tp2(fake, log)
    fake.add(100, serve("/m", "-pp", "2"), outputs=(log, log))
    server = read(watch, GpuState((gpu(0, (102, 40.0)), gpu(1, (103, 40.0)))))[0][100]
    assert isinstance(server.memory[1].weights_gib, Unknown)
    assert isinstance(server.kv_pool_gib, Unknown)


def test_an_unfinished_bar_is_seen(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    bar = "(Worker_TP0 pid=102) Capturing CUDA graphs (decode, FULL):   0%|  | 0/67 [00:00<?]"
    log.write_text(f"{LOAD}{LOADED}(EngineCore pid=101) INFO 03-02 10:11:40 [x.py:1] Warming up \n{bar}")
    add_tp2(fake, log)
    read(watch)
    with log.open("a") as file:
        file.write("\rCapturing CUDA graphs (decode, FULL):  46%|##  | 31/67 [00:01<00:02]")
    assert read(watch)[0][100].stage_detail == "31 of 67 CUDA graphs"


def test_two_servers_in_one_file(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "both.log"
    other = LOAD.replace("pid=10", "pid=20").replace("29.34", "7.0")
    uvicorn = "INFO:     Started server process [200]\nINFO:     Application startup complete.\n"
    log.write_text(LOAD + other + LOADED.replace("pid=10", "pid=20").replace("29.34", "7.00") + uvicorn)
    add_tp2(fake, log)
    add_tp2(fake, log, 200, "/other")
    servers, _ = read(watch, GpuState((gpu(0, (102, 5.0)), gpu(1, (202, 20.0)))))
    assert (servers[100].state, value(servers[100].stage)) == ("loading", "weight_load")
    assert (servers[200].state, value(servers[200].stage)) == ("serving", "serving")
    assert value(servers[200].memory[0].weights_gib) == 7.0
    assert isinstance(servers[100].memory[0].weights_gib, Unknown)


def test_an_older_load_in_the_same_file_is_not_this_ones(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "appended.log"
    older = (LOAD + LOADED + SERVING).replace("pid=10", "pid=90")
    log.write_text(older)
    add_tp2(fake, log)
    assert value(read(watch)[0][100].stage) == "worker_start"
    with log.open("a") as file:
        file.write(LOAD)
    server = read(watch)[0][100]
    assert (server.state, value(server.stage)) == ("loading", "weight_load")
    assert isinstance(server.kv_pool_gib, Unknown)


def stamped(seconds: float, text: str) -> str:
    return f"INFO {time.strftime('%m-%d %H:%M:%S', time.localtime(seconds))} {text}\n"


def test_a_large_file_is_not_read_from_its_start(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    """Lines without pids, as of 0.7: what is this server's begins with the time of its start."""
    log, now = tmp_path / "large.log", time.time()
    with log.open("w") as file:
        file.write(stamped(now - 90_000, "model_runner.py:1] Loading model weights took 99.0 GB"))
        for number in range(80_000):
            file.write(stamped(now - 90_000 + number, f"metrics.py:455] Avg prompt throughput: {number} tokens/s"))
        file.write(stamped(now - 900, "api_server.py:1] vLLM API server version 0.7.3"))
        file.write(stamped(now - 890, "model_runner.py:1] Loading model weights took 15.5 GB"))
    assert log.stat().st_size > 4 << 20
    fake.add(100, serve("/m"), outputs=(log,), started=now - 1000)
    server = read(watch, GpuState((gpu(0, (100, 20.0)),)))[0][100]
    assert value(server.memory[0].weights_gib) == 15.5
    assert server.version == Known("0.7.3", "parsed", str(log))


def test_a_large_file_with_times_of_another_zone(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log, now = tmp_path / "large.log", time.time()
    with log.open("w") as file:
        for line in LOAD.splitlines(keepends=True):
            file.write(line.replace("03-02 10:11:", time.strftime("%m-%d %H:", time.localtime(now - 30_000)) + "11:"))
        for number in range(60_000):
            stamp = stamped(now - 29_000 + number / 3, f"[loggers.py:2] Avg prompt throughput: {number} tokens/s")
            file.write(f"(APIServer pid=100) {stamp}")
    add_tp2(fake, log)
    for _ in range(50):
        server = read(watch)[0][100]
        if isinstance(server.version, Known):
            break
    assert value(server.version) == "0.25.1"


def test_a_file_that_is_cut_begins_anew(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(LOAD)
    add_tp2(fake, log)
    read(watch)
    log.write_text(LOADED)
    assert value(read(watch)[0][100].stage) == "memory_planning"


def test_a_renamed_or_removed_file_is_followed(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    """As a process's descriptor does; in this tree the link is a name, so the file is opened before."""
    log = tmp_path / "engine.log"
    log.write_text(LOAD)
    add_tp2(fake, log)
    read(watch)
    moved = log.rename(tmp_path / "engine.log.1")
    with moved.open("a") as file:
        file.write(LOADED)
    assert value(read(watch)[0][100].stage) == "memory_planning"


def test_a_pipe_is_never_read(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    os.write(end, LOAD.encode())
    add_tp2(fake, pipe)
    server = read(watch, GpuState((gpu(0, (102, 40.0)),)))[0][100]
    assert server.log is None
    assert isinstance(server.memory[0].weights_gib, Unknown)
    assert "goes to a pipe" in server.memory[0].weights_gib.reason
    assert os.read(end, 1 << 16) == LOAD.encode()
    os.close(end)


HOSTILE = [
    b"\x00" * 3_000_000,
    b"x" * 3_000_000,
    b"\xff\xfe\n" * 10_000,
    b"(APIServer pid=100) " * 100_000,
    b"(APIServer pid=100) INFO 03-02 10:11:12 [a.py:1] vLLM API server version \x1b]0;owned\x07\x1b[2J0.1\n",
    b"(APIServer pid=99999999999999999999) INFO 03-02 10:11:12 [a.py:1] Model loading took 1e999 GiB and 1 seconds\n",
    b"(Worker pid=102) INFO 13-45 99:99:99 [a.py:1] Model loading took 99999999999999999999.0 GiB and 1.0 seconds\n",
    b"\r" * 500_000 + b"\n" * 200_000,
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_logs(fake: FakeProc, watch: ServerWatch, tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "engine.log"
    log.write_bytes(content)
    add_tp2(fake, log)
    for _ in range(3):
        servers, processes = read(watch, GpuState((gpu(0, (102, 40.0)),)))
    assert servers[100].state == "loading"
    assert "\x1b" not in repr((servers, processes)).encode().decode("unicode_escape")
    assert isinstance(servers[100].memory[0].weights_gib, Unknown)


def test_an_engine_whose_server_is_gone(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(1, ["/sbin/init"], 0, name="systemd")
    fake.add(100, serve("/m", "--served-model-name", "chat", "--port", "8001"))
    fake.add(102, "VLLM::EngineCore", 100)
    fake.add(103, "VLLM::Worker_TP0", 102)
    assert read(watch)[0].keys() == {100}
    fake.end(100)
    fake.add(102, "VLLM::EngineCore", 1)
    servers, processes = read(watch, GpuState((gpu(5, (103, 70.1)),)))
    assert servers.keys() == {102}
    orphan = servers[102]
    assert (orphan.state, orphan.name, orphan.model, orphan.pids) == ("orphan", "chat", "/m", (102, 103))
    assert orphan.gpus == (5,)
    assert isinstance(orphan.port, Unknown)
    assert processes[103].server == 102


def test_when_it_became_an_orphan_is_told(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(1, ["/sbin/init"], 0, name="systemd")
    fake.add(100, serve("/m"))
    fake.add(102, "VLLM::EngineCore", 100)
    fake.add(202, "VLLM::EngineCore", 1, group=202)
    servers, _ = watch.read(NO_GPUS, 1000.0)
    assert [one.state_since for one in servers] == [None, None]
    fake.end(100)
    fake.add(102, "VLLM::EngineCore", 1)
    assert {one.pid: one.state_since for one in watch.read(NO_GPUS, 1010.0)[0]} == {102: 1010.0, 202: None}
    assert {one.pid: one.state_since for one in watch.read(NO_GPUS, 1020.0)[0]} == {102: 1010.0, 202: None}


def test_one_that_has_just_ended_is_no_stranger(fake: FakeProc, watch: ServerWatch) -> None:
    """The driver lists a process for some seconds more, while it gives back its memory."""
    fake.add(100, serve("/m"))
    fake.add(101, "VLLM::EngineCore", 100)
    gpus = GpuState((gpu(0, (101, 60.0), (31_337, 5.0)),))
    watch.read(gpus, 1000.0)
    fake.end(101)
    fake.end(100)
    for now, is_ending in ((1001.0, True), (1004.0, True), (1020.0, False)):
        rows = {one.pid: one for one in watch.read(gpus, now)[1]}
        assert rows[101].title.startswith("ending") == is_ending
        assert rows[31_337].title == "host PID, not visible here"
        mine, other = watch.with_ending(gpus).gpus[0].processes
        assert (mine.is_ending, mine.is_visible, other.is_ending) == (is_ending, not is_ending, False)


def test_a_zombie_is_no_orphan(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(1, ["/sbin/init"], 0, name="systemd")
    fake.add(102, "VLLM::EngineCore", 1, state="Z")
    assert read(watch) == ({}, {})


def test_an_orphan_never_seen_with_its_server_has_its_title_for_a_name(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(1, ["/usr/bin/tini", "--"], 0, name="tini")
    fake.add(102, "VLLM::EngineCore", 1)
    orphan = read(watch)[0][102]
    assert (orphan.state, orphan.name, orphan.model) == ("orphan", "VLLM::EngineCore", "")
    assert orphan.stage == Unknown("the server that it belonged to is gone")


def test_orphans_of_one_dead_server_are_one(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(1, ["/sbin/init"], 0, name="systemd")
    for rank in range(4):
        fake.add(200 + rank, f"VLLM::Worker_TP{rank}", 1, group=199)
        fake.add(300 + rank, f"VLLM::Worker_TP{rank}", 1, group=299)
    servers, _ = read(watch)
    assert {pid: one.pids for pid, one in servers.items()} == {
        200: (200, 201, 202, 203),
        300: (300, 301, 302, 303),
    }


def test_a_script_with_vllm_in_it_is_no_orphan(fake: FakeProc, watch: ServerWatch) -> None:
    """Its EngineCore's parent is a Python that has torch; whatever else is Python has only adopted it."""
    fake.add(300, ["python", "offline.py"])
    (fake.proc / "300/maps").write_text("7f00-7f01 r-xp 0 00:00 1 /opt/venv/torch/lib/libtorch.so\n")
    fake.add(301, "VLLM::EngineCore", 300)
    fake.add(302, "VLLM::DPCoordinator", 300)
    fake.add(400, ["/usr/bin/python3", "/usr/bin/supervisord"])
    (fake.proc / "400/maps").write_text("7f00-7f01 r-xp 0 00:00 1 /usr/lib/libc.so\n")
    fake.add(401, "VLLM::EngineCore", 400)
    servers, processes = read(watch)
    assert {pid: (one.state, one.name) for pid, one in servers.items()} == {
        300: ("unknown", "python offline.py"),
        401: ("orphan", "VLLM::EngineCore"),
    }
    assert 400 not in processes


def test_a_zombie_is_ending_under_its_own_name(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(100, serve("m"))
    read(watch)
    fake.add(100, [], state="Z")
    server = read(watch)[0][100]
    assert (server.state, server.name) == ("ending", "m")


def test_a_server_that_says_that_it_ends(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(LOAD + SERVING + "(APIServer pid=100) INFO:     Shutting down\n")
    add_tp2(fake, log)
    assert read(watch)[0][100].state == "ending"


def test_a_pid_that_is_another_process_now(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(100, serve("first"), started=time.time() - 900)
    assert read(watch)[0][100].name == "first"
    fake.add(100, serve("second"), started=time.time() - 10)
    assert read(watch)[0][100].name == "second"


def test_a_title_that_comes_later_is_seen(fake: FakeProc, watch: ServerWatch) -> None:
    """A process of any age: all are read again in turn."""
    for pid in range(200, 260):
        fake.add(pid, ["sleep", "1000"])
    fake.add(230, ["python", "x.py"])
    read(watch)
    fake.add(230, "VLLM::EngineCore", 1)
    assert any(230 in read(watch)[0] for _ in range(20))


@pytest.mark.parametrize("words", [("--distributed-executor-backend", "ray"), ("--distributed-executor-backend=ray",)])
def test_rays_workers_go_to_the_only_server_that_can_have_them(
    fake: FakeProc, watch: ServerWatch, words: tuple[str, ...]
) -> None:
    fake.add(50, ["/ray/raylet"])
    fake.add(100, serve("m", *words))
    fake.add(101, "ray::RayWorkerWrapper.execute_method", 50)
    servers, processes = read(watch)
    assert servers[100].pids == (100, 101)
    assert processes[101].role == "ray"


def test_rays_workers_of_a_server_elsewhere(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(50, ["/ray/raylet"])
    for pid in (101, 102):
        fake.add(pid, "ray::RayWorkerWrapper", 50)
    servers, _ = read(watch)
    assert {pid: (one.state, one.pids) for pid, one in servers.items()} == {101: ("unknown", (101, 102))}
    assert isinstance(servers[101].stage, Unknown)


CONTAINER = "4f5a" * 16


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        (f"0::/system.slice/docker-{CONTAINER}.scope\n", "docker 4f5a4f5a4f5a"),
        (f"12:memory:/docker/{CONTAINER}\n0::/\n", "docker 4f5a4f5a4f5a"),
        (f"0::/machine.slice/libpod-{CONTAINER}.scope/container\n", "podman 4f5a4f5a4f5a"),
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-pod12.slice/cri-containerd-{CONTAINER}.scope\n",
            "kubernetes 4f5a4f5a4f5a",
        ),
        ("0::/user.slice/user-1000.slice\n", None),
    ],
)
def test_containers(fake: FakeProc, watch: ServerWatch, cgroup: str, container: str | None) -> None:
    fake.add(100, serve("m"), cgroup=cgroup)
    assert read(watch)[0][100].container == container


def test_pids_in_a_containers_log_are_the_containers_own(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    text = (LOAD + LOADED).replace("pid=100", "pid=1").replace("pid=101", "pid=22").replace("pid=102", "pid=23")
    log.write_text(text)
    for pid, own, words, parent in ((5100, 1, serve("/m"), 50), (5101, 22, "VLLM::EngineCore", 5100)):
        fake.add(pid, words, parent, own_pid=own, outputs=(log,))
    fake.add(5102, "VLLM::Worker_TP0", 5101, own_pid=23)
    server = read(watch, GpuState((gpu(0, (5102, 40.0)),)))[0][5100]
    assert value(server.memory[0].weights_gib) == 29.34


def test_what_docker_keeps_of_a_containers_output_is_its_log(
    fake: FakeProc, watch: ServerWatch, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    log = tmp_path / f"var/lib/docker/containers/{CONTAINER}/{CONTAINER}-json.log"
    log.parent.mkdir(parents=True)
    text = (LOAD + LOADED).replace("pid=100", "pid=1").replace("pid=101", "pid=22").replace("pid=102", "pid=23")
    time_key = "2026-03-02T10:11:12.123456789Z"
    rows = [{"log": line, "stream": "stdout", "time": time_key} for line in text.splitlines(keepends=True)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cgroup = f"0::/system.slice/docker-{CONTAINER}.scope\n"
    fake.add(5100, serve("/m"), 50, own_pid=1, outputs=(pipe, pipe), cgroup=cgroup)
    fake.add(5101, "VLLM::EngineCore", 5100, own_pid=22)
    fake.add(5102, "VLLM::Worker_TP0", 5101, own_pid=23)
    server = read(watch, GpuState((gpu(0, (5102, 40.0)),)))[0][5100]
    assert (server.log, value(server.stage)) == (str(log), "memory_planning")
    assert value(server.memory[0].weights_gib) == 29.34


def test_stderr_in_a_file_of_its_own_tells_no_stage_but_the_end(
    fake: FakeProc, watch: ServerWatch, tmp_path: Path
) -> None:
    """Bars and uvicorn's lines stand there, in no order to the records of stdout."""
    out, err = tmp_path / "out.log", tmp_path / "err.log"
    out.write_text("\n".join(line for line in (LOAD + LOADED).splitlines() if "shards" not in line) + "\n")
    err.write_text("".join(line + "\n" for line in LOAD.splitlines() if "shards" in line))
    add_tp2(fake, out)
    fake.add(100, serve("/m", "-tp", "2"), outputs=(out, err))
    server = read(watch)[0][100]
    assert (value(server.stage), server.stage_detail, server.log) == ("memory_planning", "", str(out))
    with err.open("a") as file:
        file.write("INFO:     Started server process [100]\nINFO:     Application startup complete.\n")
    assert read(watch)[0][100].state == "serving"


def test_a_process_that_only_the_driver_knows(fake: FakeProc, watch: ServerWatch) -> None:
    """Nor is it taken for the process that has its number here."""
    fake.add(100, serve("m"))
    servers, processes = read(watch, GpuState((gpu(0, (100, 5.0), (9999, 7.0), is_visible=False),)))
    assert servers[100].memory == ()
    hidden = processes[9999]
    assert (hidden.title, hidden.is_mine, hidden.user) == ("host PID, not visible here", False, "not known")
    assert isinstance(hidden.rss_gib, Unknown)
    assert value(hidden.gpu_gib[0][1]) == 7.0


def test_another_program_on_a_gpu_is_shown(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(700, ["python", "train.py", "--password", "hunter2"])
    servers, processes = read(watch, GpuState((gpu(0, (700, 5.0)),)))
    assert servers == {}
    assert (processes[700].role, processes[700].server) == ("other", None)
    assert "hunter2" not in processes[700].title


def test_memory_on_slices_counts_once(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(100, serve("m"))
    process = GpuProcess(100, "python", gib(3), slice_index=0)
    part = MigSlice(0, "MIG-0", "1g.10gb", gib(10), gib(3), gib(7), (process,))
    one = Gpu(0, "GPU-0", "A100", gib(80), gib(3), gib(77), (process,), slices=(part,))
    assert value(read(watch, GpuState((one,)))[0][100].memory[0].used_gib) == 3.0


@pytest.mark.parametrize(
    ("env", "gpus"),
    [
        ({}, (0, 1)),
        ({"CUDA_VISIBLE_DEVICES": "3,1,0"}, (3, 1)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-2"}, (2,)),
        ({"CUDA_VISIBLE_DEVICES": "2,9,1"}, (2,)),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        (None, ()),
    ],
)
def test_gpus_before_anything_is_on_them(
    fake: FakeProc, watch: ServerWatch, env: dict[str, str] | None, gpus: tuple[int, ...]
) -> None:
    fake.add(100, serve("m", "-tp", "2"), env=None if env is None else {"HOME": "/root", **env})
    assert read(watch, GpuState(tuple(gpu(index) for index in range(4))))[0][100].gpus == gpus


def test_a_command_that_our_reader_refuses_still_has_a_name(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(100, serve("m", "stray", "--port", "8005", "--served_model_name=x"))
    server = read(watch)[0][100]
    assert (server.name, value(server.port)) == ("x", 8005)


def test_a_model_that_only_the_log_tells(fake: FakeProc, watch: ServerWatch, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text(LOAD)
    fake.add(100, [*serve("")[:3], "--config", "c.yaml"], outputs=(log,))
    assert read(watch)[0][100].name == "/m"


def test_what_one_process_costs(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(100, serve("m"), cpu_ticks=0, rss_gib=2.0)
    began = time.time()
    watch.read(NO_GPUS, began)
    fake.add(100, serve("m"), cpu_ticks=os.sysconf("SC_CLK_TCK"), rss_gib=2.0)
    _, (row,) = watch.read(NO_GPUS, began + 2.0)
    sizes = [row.rss_gib, row.shared_gib, row.pss_gib, row.threads, row.cpu_percent]
    assert [value(one) for one in sizes] == pytest.approx([2.0, 1.0, 1.0, 7, 50.0], abs=0.001)
    assert value(row.open_files) == 0
    assert row.is_mine


def test_processes_that_vanish_while_they_are_read(fake: FakeProc, watch: ServerWatch) -> None:
    fake.add(100, serve("m"))
    (fake.proc / "200").mkdir()  # nothing in it can be read
    for name in ("cmdline", "statm", "status", "smaps_rollup", "cgroup"):
        (fake.proc / "100" / name).unlink()
    (fake.proc / "100/cmdline").write_bytes(b"\0".join(word.encode() for word in serve("m")))
    servers, processes = read(watch)
    assert servers.keys() == {100}
    assert isinstance(processes[100].pss_gib, Unknown)
    fake.end(100)
    assert read(watch) == ({}, {})


def test_a_look_reads_few_of_many_processes(fake: FakeProc) -> None:
    from engine_probe.hardware.processes import Processes

    for pid in range(1000, 1300):
        fake.add(pid, ["sleep", "1000"])
    processes = Processes(str(fake.proc))
    processes.look(time.time(), ())
    assert processes.reads == 300
    processes.look(time.time(), ())
    assert processes.reads <= 310
