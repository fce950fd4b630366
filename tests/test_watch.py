"""All of a host in one reading, with the stand-in driver library below unchanged nvidia-ml-py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.test_servers_real import running

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1024**3
READ = """
import dataclasses, json, sys
from engine_probe.hardware.watch import Watch, look_once
watch = Watch()
while True:
    watch.sample()
    reading = watch.read()
    if any(len(one.pids) == 3 and one.gpus for one in reading.servers if one.pid == int(sys.argv[1])):
        break
watch.close()
once = look_once()
print(json.dumps([dataclasses.asdict(reading), dataclasses.asdict(once)]))
"""


def read(folder: Path, state: Path, pid: int) -> list[dict[str, Any]]:
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_NVML_STATE": str(state)}
    words = [sys.executable, "-c", READ, str(pid)]
    said = subprocess.run(words, env=env, capture_output=True, text=True, check=True, timeout=120)
    result: list[dict[str, Any]] = json.loads(said.stdout)
    return result


def test_one_reading(nvml_folder: Path, tmp_path: Path) -> None:
    with running(tmp_path, "chat") as process:
        state = tmp_path / "state"
        state.write_text(
            f"driver 580.65.06\ncuda 13000\ngpu 0 GPU-aaaa {80 * GIB} {20 * GIB} 0 NVIDIA A100\n"
            f"process 0 {process.pid} {19 * GIB}\nprocess 0 4194999 {GIB}\n"
        )
        readings = read(nvml_folder, state, process.pid)
    for reading in readings:
        server = next(one for one in reading["servers"] if one["pid"] == process.pid)
        assert (server["name"], server["gpus"], server["state"]) == ("/models/chat", [0], "loading")
        assert server["memory"][0]["used_gib"]["value"] == 19.0
        rows = {row["pid"]: row for row in reading["processes"]}
        assert rows[process.pid]["gpu_gib"][0][1]["value"] == 19.0
        assert rows[4194999]["title"] == "host PID, not visible here"
        assert reading["gpus"]["driver_version"] == "580.65.06"
        assert {"models", "caches"} & set(" and ".join(one["what"] for one in reading["host"]["disks"]).split(" and "))
        assert reading["seconds"] > 0
    assert "value" in readings[1]["host"]["cpu_percent"], "one look takes two, for what is counted per second"
