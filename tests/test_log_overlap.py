"""Stages of processes that overlap: a line is in the stage of the process that printed it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from engine_probe.logs.index import LogIndex, open_log
from engine_probe.logs.index_stream import PipeCutter, Stream
from engine_probe.logs.index_wanted import Wanted

if TYPE_CHECKING:
    from pathlib import Path

_TOOK = "[gpu_model_runner.py:1347] Model loading took 3.3750 GiB and 33.051549 seconds"
_WARNS = "[fused_moe.py:668] Using default MoE config. Performance might be sub-optimal!"


def _worker(rank: int, text: str, level: str = "INFO") -> str:
    return f"(Worker_TP{rank} pid={30 + rank}) {level} 07-14 19:21:11 {text}"


def _load(version: str) -> list[str]:
    return [
        f"(APIServer pid=1) INFO 07-14 19:20:40 [api_server.py:1289] vLLM API server version {version}",
        f"(EngineCore_0 pid=2) INFO 07-14 19:20:51 [core.py:5] Initializing a V1 LLM engine (v{version}) with config: ",
        _worker(0, "[gpu_model_runner.py:1329] Starting to load model acme/m-7b..."),
        _worker(1, "[gpu_model_runner.py:1329] Starting to load model acme/m-7b..."),
        _worker(0, _TOOK),
        _worker(1, _WARNS, "WARNING"),
        "(Worker_TP1 pid=31)   a bare line of the same process",
        _worker(0, _WARNS, "WARNING"),
        "(EngineCore_0 pid=2) INFO 07-14 19:21:12 [core.py:60] hello",
        _worker(1, _TOOK),
        _worker(1, _WARNS, "WARNING"),
        "(EngineCore_0 pid=2) INFO 07-14 19:21:32 [core.py:171] init engine (profile, create kv cache, warmup model) "
        "took 20.58 seconds",
        _worker(1, _WARNS, "WARNING"),
        "(APIServer pid=1) INFO:     Application startup complete.",
        _worker(0, _WARNS, "WARNING"),
    ]


def _index(path: Path, lines: list[str]) -> LogIndex:
    path.write_text("".join(f"{line}\n" for line in lines))
    log = open_log(path)
    while not log.advance():
        pass
    return log


def _stages(log: LogIndex) -> list[str | None]:
    return [line.stage for line in log.lines(0, log.line_count)]


_OVERLAPPING = [
    *("config", "engine_build", "weight_load", "weight_load", "memory_planning"),
    *("weight_load", "weight_load", "memory_planning", "memory_planning"),
    *("memory_planning", "memory_planning", "warmup", "warmup", "serving", "serving"),
]


def test_a_worker_that_still_loads_is_not_where_another_one_is(tmp_path: Path) -> None:
    log = _index(tmp_path / "a.log", _load("0.8.5"))
    assert _stages(log) == _OVERLAPPING
    shown = log.filter(Wanted(stages=frozenset({"weight_load"})))
    assert shown.rows(0, 9) == [2, 3, 5, 6]


def test_where_ranks_are_silent_one_tells_of_all(tmp_path: Path) -> None:
    """From 0.11.2 on, only the first rank says that weights are loaded."""
    lines = _load("0.13.0")
    del lines[9]
    stages = _stages(_index(tmp_path / "a.log", lines))
    assert stages[5:8] == ["memory_planning"] * 3


def test_changes_of_stage_are_those_that_lines_tell(tmp_path: Path) -> None:
    log = _index(tmp_path / "a.log", _load("0.8.5"))
    assert log.stage_changes() == [
        *((0, "config"), (1, "engine_build"), (2, "weight_load"), (4, "memory_planning")),
        *((11, "warmup"), (13, "serving")),
    ]


def test_engines_of_one_log_overlap(tmp_path: Path) -> None:
    def engine(number: int, text: str) -> str:
        return f"(EngineCore_DP{number} pid={40 + number}) INFO 07-14 19:21:11 {text}"

    kv = "[kv_cache_utils.py:1229] GPU KV cache size: 1,000 tokens"
    lines = [
        *_load("0.13.0")[:1],
        engine(0, "[gpu_model_runner.py:1329] Starting to load model acme/m-7b..."),
        engine(1, "[gpu_model_runner.py:1329] Starting to load model acme/m-7b..."),
        engine(0, kv),
        engine(1, "[core.py:60] hello"),
        engine(0, "[core.py:60] hello"),
        engine(1, kv),
        engine(1, "[core.py:60] hello"),
    ]
    expected = ["config", *["weight_load"] * 2, "memory_planning", "weight_load", *["memory_planning"] * 3]
    assert _stages(_index(tmp_path / "a.log", lines)) == expected


@pytest.mark.parametrize("seed", range(4))
def test_however_lines_come_stages_are_the_same(tmp_path: Path, seed: int) -> None:
    content = "".join(f"{line}\n" for line in _load("0.8.5")).encode()
    path = tmp_path / "a.log"
    path.write_bytes(b"")
    log, chance, at = open_log(path), random.Random(seed), 0
    pipe, stream, printed = PipeCutter(), Stream(), []
    while at < len(content):
        piece = content[at : at + chance.choice((1, 9, 80, 300))]
        at += len(piece)
        with path.open("ab") as file:
            file.write(piece)
        while not log.advance():
            pass
        block = pipe.feed(piece)
        printed += [] if block is None else stream.feed(block)
    assert _stages(log) == _OVERLAPPING
    assert [line.stage for line in printed] == _OVERLAPPING
