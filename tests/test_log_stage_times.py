"""The stages of a load in the viewer: done, running, and failed where the root cause is, not where the log stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.logs.index_wanted import Wanted
from engine_probe.logs.sources import Source
from tests.vllm_log_samples import LOAD
from tui.log_loads import count_loads
from tui.opened_log import OpenedLog
from tui.themes.glyphs import UNICODE
from tui.widgets.log_stages import draw_load, stage_times

if TYPE_CHECKING:
    from pathlib import Path

# torch.compile, which belongs to the warm-up, runs inside memory planning (V1).
COMPILES = b"(Worker_TP0 pid=30) INFO 03-02 10:11:44 [monitor.py:34] torch.compile takes 2.10 s in total\n"
PLANS = b'  File "/x/vllm/v1/core/kv_cache_utils.py", line 7, in get_kv_cache_config'


def states(path: Path, content: bytes) -> dict[str, str]:
    path.write_bytes(content)
    log = OpenedLog.of_file(path)
    while log.step():
        pass
    try:
        return {one.stage: one.state for one in stage_times(log, 0)}
    finally:
        log.close()


def test_the_failed_stage_is_that_of_the_root_cause(tmp_path: Path) -> None:
    log = LOAD.replace(b'  File "/x/vllm/v1/engine/core.py", line 857, in run', PLANS)
    end = log.index(b"(EngineCore_DP0 pid=20) ERROR 03-02 10:11:46 [core.py:866] EngineCore failed")
    log = log[:end] + COMPILES + log[end:]
    found = states(tmp_path / "a.log", log)
    assert found["memory_planning"] == "failed"
    assert found["warmup"] == "done"
    assert found["weight_load"] == "done"
    assert found["serving"] == "not reached"


def test_a_load_without_a_cause_goes_on_in_its_last_stage(tmp_path: Path) -> None:
    whole = b"\n".join(line for line in LOAD.split(b"\n") if b"pid=20) ERROR" not in line and b"Traceback" not in line)
    found = states(tmp_path / "a.log", whole[: whole.index(b"(EngineCore_DP0 pid=20)   File")])
    assert found["memory_planning"] == "running"
    assert "failed" not in found.values()


# A load that works: the same one, without its errors, comes to serve an hour later.
WHOLE = b"\n".join(line for line in LOAD.split(b"\n") if b"pid=20) ERROR" not in line and b"Traceback" not in line)
HEALTHY = WHOLE[: WHOLE.index(b"(EngineCore_DP0 pid=20)   File")].replace(b" 10:", b" 11:") + (
    b"(APIServer pid=10) INFO 03-02 11:12:40 [api_server.py:1] Application startup complete.\n"
)
ONLY_AN_ERROR = b"""Traceback (most recent call last):
  File "/x/vllm/entrypoints/cli/main.py", line 1, in <module>
    raise ValueError("no such model")
ValueError: no such model
"""


def opened(tmp_path: Path, *contents: bytes) -> OpenedLog:
    paths = [tmp_path / f"{number}.log" for number in range(1, len(contents) + 1)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    log = OpenedLog.of_sources([Source("file", str(path)) for path in paths])
    while log.step():
        pass
    return log


def failed(log: OpenedLog, line: int) -> list[str]:
    return [one.stage for one in stage_times(log, line) if one.state == "failed"]


def test_of_several_logs_the_load_is_that_of_the_one_that_is_shown(tmp_path: Path) -> None:
    log = opened(tmp_path, LOAD + b"\n", HEALTHY)
    end = log.index.line_count
    assert failed(log, end) == []
    log.want(Wanted(source=0))
    assert failed(log, end)
    log.want(Wanted(source=1))
    assert failed(log, 0) == []
    log.close()


def test_merged_loads_are_counted_as_far_as_they_fit(tmp_path: Path) -> None:
    log = opened(tmp_path, LOAD + b"\n", HEALTHY, ONLY_AN_ERROR)
    assert count_loads(log) == (3, 2)
    stages = stage_times(log, 0)
    assert draw_load(stages, (3, 2), "1.log", 150, UNICODE).plain.endswith(" 1.log · 3 loads, 2 failed")
    assert draw_load(stages, (3, 2), "1.log", 78, UNICODE).plain.endswith(" 3 loads, 2 failed")
    assert "loads" not in draw_load(stages, (3, 2), "1.log", 40, UNICODE).plain
    assert "loads" not in draw_load(stages, (1, 1), "1.log", 150, UNICODE).plain
    log.close()


def test_a_failure_without_a_word_of_a_stage_is_one_of_the_first(tmp_path: Path) -> None:
    log = opened(tmp_path, ONLY_AN_ERROR)
    assert failed(log, log.index.line_count) == ["config"]
    assert draw_load(stage_times(log, 0), (0, 0), "", 100, UNICODE).plain.startswith("config ✗")
    log.close()


def test_an_error_before_the_first_stage_is_of_the_first_load(tmp_path: Path) -> None:
    log = opened(tmp_path, ONLY_AN_ERROR + b"INFO 03-02 10:11:12 [__init__.py:1] Initializing a V1 LLM engine\n")
    assert failed(log, 0)
    log.close()
