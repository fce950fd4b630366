"""Whatever processes, commands, logs and ports say: an answer or a reason, and never an exception."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from engine_probe.facts import Known, Unknown
from engine_probe.hardware.gpus import GpuState
from engine_probe.hardware.metrics import ServerMetrics, read_metrics
from engine_probe.hardware.processes_read import parse_stat
from engine_probe.hardware.server_launch import started_with
from engine_probe.hardware.server_titles import part_of
from engine_probe.hardware.servers import ServerWatch
from tests.fake_proc import FakeProc

repeatable = settings(max_examples=60, deadline=None, derandomize=True, database=None)

WORDS = st.one_of(
    st.sampled_from(
        [
            "vllm",
            "serve",
            "--port",
            "-tp",
            "--model",
            "--host",
            "--served-model-name",
            "--api-key",
            "-O3",
            "--",
            "=",
            "--x=",
        ]
    ),
    st.text(max_size=20).filter(lambda word: "\0" not in word),
)
METRIC = st.sampled_from(
    [
        b"vllm:num_requests_running",
        b"vllm:kv_cache_usage_perc",
        b"vllm:lora_requests_info",
        b'{model_name="m"}',
        b"{",
        b"}",
        b'"',
        b" 1e999",
        b" NaN",
        b" 0.5",
        b"\n",
        b"# TYPE vllm:num_requests_running gauge\n",
        b"\\",
    ]
)


@repeatable
@given(st.binary(max_size=400))
def test_stat(content: bytes) -> None:
    stat = parse_stat(7, content)
    assert stat is None or stat.pid == 7


@repeatable
@given(st.lists(WORDS, max_size=8))
def test_words(words: list[str]) -> None:
    part_of(words)


@repeatable
@given(st.lists(WORDS, max_size=10), st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_commands(words: list[str], env: dict[str, str]) -> None:
    started = started_with(["vllm", "serve", *words], env)
    assert started.argv
    assert "\x1b" not in started.name + started.model + " ".join(started.argv)


@repeatable
@given(st.lists(st.one_of(METRIC, st.binary(max_size=10)), max_size=12).map(b"".join))
def test_metrics(content: bytes) -> None:
    try:
        found = read_metrics(content, "o")
    except ValueError:
        return
    assert isinstance(found, ServerMetrics)
    for fact in (found.kv_use_percent, found.running, found.waiting, found.preemptions):
        assert isinstance(fact, Unknown) or 0 <= float(fact.value) < float("inf")


PIECE = st.one_of(
    st.sampled_from(
        [
            b"(APIServer pid=100) ",
            b"(Worker_TP0 pid=102) ",
            b"INFO 03-02 10:11:12 [a.py:1] ",
            b"Model loading took 1.5 GiB memory and 3.0 seconds",
            b"Loading safetensors checkpoint shards:  67% Completed | 4/6 [",
            b"Available KV cache memory: -3 GiB",
            b"Application startup complete.",
            b'{"log": "x", "time": 3}',
            b"\n",
            b"\r",
            b"\0",
            b"\x1b[2J",
        ]
    ),
    st.binary(max_size=30),
)


@repeatable
@given(st.lists(st.lists(PIECE, max_size=12).map(b"".join), max_size=3))
def test_logs(parts: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fake, log = FakeProc(Path(folder)), Path(folder, "log")
        log.touch()
        fake.add(100, ["vllm", "serve", "m", "--port", "1"], outputs=(log,))
        fake.add(102, "VLLM::Worker_TP0", 100)
        watch = ServerWatch(fake.root)
        for part in parts:
            with log.open("ab") as file:
                file.write(part)
            (server,), _ = watch.read(GpuState(), time.time())
            assert server.state in ("loading", "serving", "ending")
            assert "\x1b" not in server.stage_detail
            assert not isinstance(server.kv_pool_gib, Known) or float(server.kv_pool_gib.value) >= 0
        watch.close()


@repeatable
@given(
    st.lists(
        st.tuples(
            st.integers(1, 6),
            st.integers(0, 6),
            st.sampled_from(
                ["VLLM::EngineCore", "VLLM::Worker_TP0", "VLLM::APIServer_1", "vllm serve m", "sleep 1", ""]
            ),
            st.sampled_from("SZ"),
        ),
        max_size=8,
    )
)
def test_any_tree_of_processes(rows: list[tuple[int, int, str, str]]) -> None:
    """Also with parents that are their own children: numbers are read at different times."""
    with tempfile.TemporaryDirectory() as folder:
        fake = FakeProc(Path(folder))
        watch = ServerWatch(fake.root)
        for pid, parent, title, state in rows:
            fake.add(pid, title.split() if " " in title else title, parent, state=state)
            servers, processes = watch.read(GpuState(), time.time())
            members = [pid for one in servers for pid in one.pids]
            assert sorted(members) == sorted(set(members)), "no process belongs to two servers"
            assert sorted(row.pid for row in processes) == sorted(members)
        watch.close()
