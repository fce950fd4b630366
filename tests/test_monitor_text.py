"""What `monitor --once` prints for a reading: whose memory it is, and the reasons of what is not known."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from readings import NOT_KNOWN, gpu, gpu_process, host, known, process, reading, server, serving, with_gpus

from engine_probe.facts import Unknown
from engine_probe.hardware.gpus import GpuState, MigSlice
from engine_probe.hardware.reading import MemorySplit
from playbooks.alerts import find_alerts
from tui.commands.monitor_bar import ASCII, UNICODE, Share, drawn, legend, shares_of
from tui.commands.monitor_text import lines_of

if TYPE_CHECKING:
    from engine_probe.hardware.reading import Reading


def text_of(seen: Reading, width: int = 100, **options: bool) -> str:
    return "\n".join(line.text for line in lines_of(seen, find_alerts(seen), width, **options))


BUSY: dict[str, Any] = {
    "utilization_percent": known(87),
    "power_watts": known(312.4),
    "temperature_celsius": known(64),
    "peak_used_gib": known(72.4),
}


def test_a_look_as_it_is_printed() -> None:
    orphan = server("VLLM::EngineCore", 4711, state="orphan", gpus=(1,), stage=NOT_KNOWN, pids=(4711,))
    split = (MemorySplit(0, known(71.2), known(33.1), known(35.8), known(2.3)),)
    numbers = {"kv_use_percent": known(63.0), "kv_pool_gib": known(35.8), "running": known(12), "waiting": known(3)}
    chat = server(memory=split, **numbers)
    seen = with_gpus(
        gpu(0, used=71.8, processes=(gpu_process(4201, 71.2),), **BUSY),
        gpu(1, used=70.1, processes=(gpu_process(4711, 70.1),), **BUSY),
        servers=(chat, orphan),
        processes=(process(4711, gpu_gib=((1, known(70.1)),)),),
    )
    shown = text_of(seen).splitlines()
    assert re.fullmatch(r"node7 · 2026-03-0\d \d\d:\d\d:11 · 2 GPUs · driver 580\.65\.06 · CUDA 13\.0", shown[0])
    clock = re.search(r"started (\d\d:\d\d)", "\n".join(shown))
    assert clock is not None
    assert "\n".join(shown[1:]) == (
        """\
GPU  memory                             used / GiB   peak   util   °C     W  held by
  0  ████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓▒···    71.8 / 80.0   72.4   87 %   64   312  chat-70b 71.2
  1  ╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳╳····    70.1 / 80.0   72.4   87 %   64   312  orphan pid 4711 70.1
     █ weights   ▓ KV pool   ▒ graphs and rest   ╳ others   · free

Host    RAM 212.0 / 503.0 GiB   this container 231.0 / 256.0 GiB (180.0 file cache)
        /dev/shm 0.2 / 64.0 GiB   swap 0.0 / 8.0 GiB   CPU 12 %
        models (/models) 812.0 of 2000.0 GiB free, read 1.3 GB/s

MODEL             STATE    STAGE OR KV USE  POOL      RUNNING / WAITING  GPUS  SINCE       PID
chat-70b          serving  KV 63 %          35.8 GiB  12 / 3             0     2 h 11 min  4200
VLLM::EngineCore  orphan   ?                ?         -                  1     2 h 11 min  4711

error    GPU 1: 70.1 GiB held by an engine whose parent is gone (pid 4711, started HH:MM)
         End it, with its children: kill 4711, and kill -9 what is still there some seconds later.
         playbook: orphan-engine-holds-gpu"""
    ).replace("HH:MM", clock[1])


def test_nothing_wrong_is_said() -> None:
    assert text_of(reading()).endswith("\n\nNothing that was looked at is wrong.")


@pytest.mark.parametrize("width", [30, 60, 80, 120, 250])
def test_lines_fit_the_terminal(width: int) -> None:
    """Only what cannot be parted may be longer than a very narrow one."""
    seen = reading(servers=(serving(),), host=host(shm_free_gib=known(1.0)))
    for line in lines_of(seen, find_alerts(seen), width):
        assert len(line.text) <= max(width, 64), line.text


def test_a_narrow_terminal_goes_without_columns() -> None:
    seen = with_gpus(gpu(0, **BUSY))
    assert "peak" not in text_of(seen, 80)
    assert " 312 " not in text_of(seen, 60) + " "
    assert "87 %" in text_of(seen, 60)
    assert "87 %" not in text_of(seen, 50)


def test_what_is_not_known_is_a_sign_with_its_reason_below() -> None:
    unknown = Unknown("this GPU or its mode does not support the question")
    quiet = {"utilization_percent": unknown, "power_watts": unknown, "temperature_celsius": known(41)}
    shown = text_of(with_gpus(gpu(0, **quiet), gpu(1, **quiet)), 80)
    assert re.search(r"0\.0 / 80\.0 +\? +41 +\?\n", shown)
    assert "? util, W of GPUs 0-1: this GPU or its mode does not support the question" in shown


def test_a_lost_gpu_is_said_in_its_row() -> None:
    lost = Unknown("a GPU is lost")
    shown = text_of(with_gpus(gpu(0, **BUSY), gpu(1, total_gib=lost, used_gib=lost)))
    assert "\n  1  unknown, because a GPU is lost\n" in shown
    assert shown.count("a GPU is lost") == 2  # once more as an alert


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (GpuState(unavailable="no NVIDIA driver library"), "GPUs unknown, because no NVIDIA driver library"),
        (GpuState(), "GPUs: the driver counts none"),
    ],
)
def test_no_gpus(state: GpuState, said: str) -> None:
    assert said in text_of(reading(gpus=state, servers=(), processes=()))


def test_slices_have_rows_of_their_own_and_no_utilisation() -> None:
    part = MigSlice(1, "MIG-1", "1g.10gb", known(9.8), known(4.9), known(4.9), (gpu_process(9, 4.2, slice_index=1),))
    shown = text_of(with_gpus(gpu(0, used=5, slices=(part,), processes=part.processes, **BUSY)), 80).splitlines()
    (row,) = [line for line in shown if line.startswith("0.1")]
    assert re.search(r"╳{10}·{10} +4\.9 / 9\.8 +n/a +n/a +n/a  1g\.10gb", row)
    assert sum("pid 9" in line for line in shown) == 1


def test_every_holder_is_named_in_as_many_lines_as_it_takes() -> None:
    strangers = tuple(gpu_process(number, 1.5, f"process-{number}") for number in range(100, 105))
    shown = text_of(with_gpus(gpu(0, used=7.5, processes=strangers, **BUSY)), 80)
    assert all(f"process-{number} (pid {number}) 1.5" in shown for number in range(100, 105))


def test_processes_that_may_not_be_listed_are_not_none() -> None:
    shown = text_of(with_gpus(gpu(0, processes_unavailable="no permission")))
    assert "unknown, because no permission" in shown


def test_what_of_the_host_is_not_known_says_why() -> None:
    odd = host(ram_total_gib=NOT_KNOWN, cgroup_limit_gib=NOT_KNOWN, cgroup_used_gib=NOT_KNOWN, swap_total_gib=known(0))
    shown = text_of(reading(host=odd))
    assert "RAM unknown, because nobody said it" in shown
    assert "container's limit unknown, because nobody said it" in shown
    assert "no swap" in shown
    free = text_of(reading(host=host(cgroup_limit_gib=None, cgroup_used_gib=None)))
    assert "container" not in free


def test_why_a_load_failed_is_in_its_alert_and_breaks_no_table() -> None:
    why = "ValueError: " + "no room " * 40
    failed = server("code-13b", 5000, state="failed", stage=known("warmup"), stage_detail=why, gpus=())
    shown = text_of(reading(servers=(failed,)))
    (row,) = [line for line in shown.splitlines() if line.startswith("code-13b")]
    assert re.split("  +", row)[:3] == ["code-13b", "failed", "warmup"]
    assert "error    code-13b: its load failed in warmup" in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_a_loading_model_shows_its_stage_and_no_zero_for_what_it_does_not_say() -> None:
    loading = server(
        "code-13b", 5000, state="loading", stage=known("weight_load"), stage_detail="4 of 6 shards", gpus=()
    )
    (row,) = [line for line in text_of(reading(servers=(loading,))).splitlines() if line.startswith("code-13b")]
    cells = re.split("  +", row)
    assert cells == ["code-13b", "loading", "weights 4 of 6 shards", "?", "-", "-", "2 h 11 min", "5000"]


def test_in_ascii_each_purpose_still_has_its_own_sign() -> None:
    shown = text_of(reading(servers=(serving(),)), ascii_only=True)
    bar = next(line for line in shown.splitlines() if line.startswith("  0")).split()[1]
    assert bar.isascii()
    assert set(bar) == {"#", "=", "-", "."}
    assert len(set(vars(ASCII).values())) == len(set(vars(UNICODE).values())) == 6


@pytest.mark.parametrize("width", [1, 10, 37, 40])
def test_a_bar_is_as_wide_as_it_is_asked_for(width: int) -> None:
    shares = [Share("weights", 10 / 3), Share("kv_pool", 10 / 3), Share("others", 10 / 3)]
    assert len(drawn(shares, 10.0, width, UNICODE)) == width
    assert drawn(shares, 10.0, width, UNICODE).count("·") == 0
    assert drawn(shares, 5.0, width, UNICODE).count("·") == 0
    assert drawn([], 10.0, width, UNICODE) == "·" * width


def test_what_a_model_uses_without_a_known_purpose_is_not_given_one() -> None:
    one = server(memory=(MemorySplit(0, known(30.0), known(10.0), NOT_KNOWN, NOT_KNOWN),))
    seen = with_gpus(gpu(0, used=40.0), servers=(one,))
    weights, rest = Share("weights", 10.0, one.pid), Share("not_known", 20.0, one.pid)
    assert shares_of(seen.gpus.gpus[0], seen) == [weights, rest, Share("others", 10.0)]
    unknown = with_gpus(gpu(0, used_gib=NOT_KNOWN), servers=(one,))
    assert shares_of(unknown.gpus.gpus[0], unknown) == []


def test_the_legend_names_only_what_is_drawn() -> None:
    assert legend(["█·"], UNICODE) == "█ weights   · free"


def test_two_models_on_one_gpu_are_drawn_one_after_the_other() -> None:
    small = server("b", 9, pids=(9,), memory=(MemorySplit(0, known(8.0), known(4.0), known(4.0), known(0.0)),))
    seen = with_gpus(gpu(0, used=79.2, processes=()), servers=(replace(serving(), gpus=(0,)), small))
    signs = [share.sign for share in shares_of(seen.gpus.gpus[0], seen)]
    assert signs == ["weights", "kv_pool", "rest", "weights", "kv_pool", "rest"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_title_of_any_length_is_cut_to_the_width(width: int) -> None:
    long = "ray::RayWorkerWrapper" + "A" * 5000
    orphan = server(long, 4711, state="orphan", gpus=(1,), stage=NOT_KNOWN, pids=(4711,))
    loading = server("chat", 4712, stage_detail="B" * 5000)
    seen = with_gpus(
        gpu(0, used=71.8, processes=(gpu_process(4201, 71.2, name="C" * 5000),), **BUSY),
        gpu(1, used=70.1, processes=(gpu_process(4711, 70.1),), **BUSY),
        servers=(orphan, loading),
        processes=(process(4711, gpu_gib=((1, known(70.1)),)),),
    )
    lines = [line.text for line in lines_of(seen, (), width)]
    assert [line for line in lines if len(line) > width and "models (/models)" not in line] == []
    (row,) = [line for line in lines if line.startswith("ray::") and "orphan" in line]
    assert "…" in row
