"""Reading GPUs, through nvidia-ml-py and a stand-in driver library, and the host's memory, from trees of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.hardware.host import read_host

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1024**3
READ = """
import dataclasses, json
from engine_probe.hardware.gpus import read_gpus
print(json.dumps(dataclasses.asdict(read_gpus())))
"""


def read(state: str, folder: Path, tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "state"
    file.write_text(state)
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_NVML_STATE": str(file)}
    said = subprocess.run([sys.executable, "-c", READ], env=env, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(said.stdout)
    return result


TWO_GPUS = f"""
driver 580.65.06
cuda 13000
gpu 0 GPU-aaaa {80 * GIB} {20 * GIB} {GIB // 2} NVIDIA H100 80GB HBM3
gpu 1 GPU-bbbb {80 * GIB} 0 {GIB // 2} NVIDIA H100 80GB HBM3
"""


def test_gpus_with_memory_and_processes(nvml_folder: Path, tmp_path: Path) -> None:
    state = f"{TWO_GPUS}process 0 {os.getpid()} {19 * GIB}\nprocess 0 4194999 -1\n"
    found = read(state, nvml_folder, tmp_path)
    assert found["unavailable"] is None
    assert (found["driver_version"], found["cuda_version"]) == ("580.65.06", "13.0")
    first, second = found["gpus"]
    assert (first["index"], first["uuid"], first["name"]) == (0, "GPU-aaaa", "NVIDIA H100 80GB HBM3")
    assert [first[key]["value"] for key in ("total_gib", "used_gib", "free_gib")] == [80, 20, 59.5]
    mine, foreign = first["processes"]
    assert (mine["pid"], mine["used_gib"]["value"]) == (os.getpid(), 19)
    assert mine["name"].startswith(("python", "pytest"))
    assert (foreign["pid"], foreign["name"]) == (4194999, "not visible here")
    assert (mine["is_visible"], foreign["is_visible"]) == (True, False)
    assert "driver does not say" in foreign["used_gib"]["reason"]
    assert (first["reserved_gib"]["value"], first["cuda_total_gib"]["value"]) == (0.5, 79.5)
    assert first["power_watts"]["reason"] == "it was not asked for"
    assert (second["index"], second["processes"], second["processes_unavailable"]) == (1, [], None)


def test_an_old_driver_without_the_second_memory_call(nvml_folder: Path, tmp_path: Path) -> None:
    first = read(f"{TWO_GPUS}memory-v2 13\n", nvml_folder, tmp_path)["gpus"][0]
    assert [first[key]["value"] for key in ("used_gib", "free_gib")] == [20.5, 59.5]


def test_processes_that_may_not_be_listed_are_not_none_at_all(nvml_folder: Path, tmp_path: Path) -> None:
    first = read(f"{TWO_GPUS}processes 0 4\nprocess 0 1 1\n", nvml_folder, tmp_path)["gpus"][0]
    assert first["processes"] == []
    assert first["processes_unavailable"] == "no permission to ask the NVIDIA driver"


def test_a_lost_gpu_leaves_the_others_readable(nvml_folder: Path, tmp_path: Path) -> None:
    first, second = read(f"{TWO_GPUS}handle 0 15\n", nvml_folder, tmp_path)["gpus"]
    assert "lost" in first["total_gib"]["reason"]
    assert second["total_gib"]["value"] == 80


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (9, "the NVIDIA kernel driver is not loaded"),
        (18, "different versions"),
        (4, "no permission"),
        (999, "the NVIDIA driver says"),
    ],
)
def test_a_driver_that_does_not_start_gives_its_reason(
    nvml_folder: Path, tmp_path: Path, code: int, reason: str
) -> None:
    found = read(f"init {code}\n{TWO_GPUS}", nvml_folder, tmp_path)
    assert found["gpus"] == []
    assert reason in found["unavailable"]


def test_no_driver_library_is_said(tmp_path: Path) -> None:
    # An empty file in front of any real library: the loader refuses it, as it does a missing one.
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")
    found = read(TWO_GPUS, tmp_path, tmp_path)
    assert found["gpus"] == []
    assert found["unavailable"] == "no NVIDIA driver library (libnvidia-ml.so.1) on this host"


MEMINFO = "MemTotal:       33554432 kB\nMemAvailable:   16777216 kB\nSwapTotal:   2097152 kB\nSwapFree:  1048576 kB\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def value(fact: object) -> float:
    assert isinstance(fact, Known)
    return float(fact.value)


def test_host_memory(tmp_path: Path) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    host = read_host(tree(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/\n"}))
    sizes = [host.ram_total_gib, host.ram_available_gib, host.swap_total_gib, host.swap_free_gib]
    assert [value(size) for size in sizes] == [32, 16, 2, 1]
    assert 0 <= value(host.shm_free_gib) <= value(host.shm_total_gib)
    assert host.cgroup_limit_gib is None


def test_what_cannot_be_read_is_unknown_with_its_reason(tmp_path: Path) -> None:
    host = read_host(tree(tmp_path, {"proc/meminfo": "MemTotal: 1024 kB\n"}))
    assert host.ram_available_gib == Unknown(f"{tmp_path}/proc/meminfo has no MemAvailable")
    assert isinstance(host.shm_total_gib, Unknown)
    assert isinstance(host.cgroup_limit_gib, Unknown)
    assert "No such file" in host.cgroup_limit_gib.reason


def test_the_tightest_limit_above_a_process_counts(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/kube/pod/box"
    files = {
        "proc/self/cgroup": "0::/kube/pod/box\n",
        f"{group}/memory.max": "max\n",
        "sys/fs/cgroup/kube/pod/memory.max": f"{8 * GIB}\n",
        "sys/fs/cgroup/kube/pod/memory.current": f"{3 * GIB}\n",
        "sys/fs/cgroup/kube/memory.max": f"{64 * GIB}\n",
    }
    host = read_host(tree(tmp_path, files))
    assert host.cgroup_limit_gib == Known(8.0, "measured", f"{tmp_path}/sys/fs/cgroup/kube/pod/memory.max")
    assert host.cgroup_used_gib == Known(3.0, "measured", f"{tmp_path}/sys/fs/cgroup/kube/pod/memory.current")


def test_a_version_1_limit_seen_from_inside_a_container(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "12:cpu:/docker/abc\n5:memory:/docker/abc\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
    }
    host = read_host(tree(tmp_path, files))
    assert host.cgroup_limit_gib is not None
    assert host.cgroup_used_gib is not None
    assert (value(host.cgroup_limit_gib), value(host.cgroup_used_gib)) == (2, 1)


def test_version_1s_no_limit_is_no_limit(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:memory:/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    }
    assert read_host(tree(tmp_path, files)).cgroup_limit_gib is None
