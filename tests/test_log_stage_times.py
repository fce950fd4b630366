"""The stages of a load in the viewer: done, running, and failed where the root cause is, not where the log stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.vllm_log_samples import LOAD
from tui.opened_log import OpenedLog
from tui.widgets.log_stages import stage_times

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
