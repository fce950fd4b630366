"""Loads that get in each other's way, that cannot fit together, or that do not move."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from playbooks.alert import Alert, gpu_names, is_loading, number, span, word
from playbooks.gpu_shares import share_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.hardware.reading import Reading, Server

ON_THE_GPU = frozenset(("worker_start", "weight_load", "memory_planning"))
"""From an engine's first look at the free memory to its last one (vllm/v1/worker/gpu_worker.py, MemorySnapshot): what
another engine takes in between, it counts as its own."""
ROUNDING = 0.001
"""0.3 + 0.3 + 0.4 is no more than a card."""
STAGE_SECONDS = {
    "config": 300.0,
    "distributed_init": 600.0,
    "engine_build": 300.0,
    "worker_start": 600.0,
    "weight_load": 1800.0,
    "memory_planning": 900.0,
    "warmup": 1200.0,
}
"""How long a stage may take before a hang is suspected. torch's collectives and vLLM's front end
(VLLM_ENGINE_READY_TIMEOUT_S) give up after 600 s; 140 GB of weights at 100 MB/s, and a large model's compilation and
graphs, honestly take longer."""

LOAD_SECONDS = 3600.0
"""The same for a whole load; for who has only just begun to look, and did not see the stage begin."""


def load_alerts(reading: Reading) -> Iterator[Alert]:
    sliced = {gpu.index for gpu in reading.gpus.gpus if gpu.slices}  # each slice is a card of its own
    for index in sorted({gpu for server in reading.servers for gpu in server.gpus} - sliced):
        here = [one for one in reading.servers if index in one.gpus and one.state in ("loading", "serving")]
        yield from _shares(index, here, reading)
        yield from _together(index, here)
    for server in reading.servers:
        yield from _stuck(server, reading.time)
        yield from _failed(server)


def _shares(index: int, here: list[Server], reading: Reading) -> Iterator[Alert]:
    """Each engine wants its share of the whole card, whatever the others have; asked where all shares are known."""
    shares = [share_of(one.argv, word(one.version)) if one.argv else None for one in here]
    if len(here) < 2 or None in shares:
        return
    known = [share for share in shares if share is not None]
    if sum(known) <= 1 + ROUNDING:
        return
    about = f"GPU {index}"
    gpu = next((one for one in reading.gpus.gpus if one.index == index), None)
    total = None if gpu is None else number(gpu.total_gib)
    size = "" if total is None else f", {sum(known) * total:.1f} of {total:.1f} GiB"
    parts = ", ".join(f"{one.name} {share:g}" for one, share in zip(here, known, strict=True))
    text = f"{about}: the shares of its models add up to {sum(known):.2f} of the card{size} ({parts})"
    what = "Lower --gpu-memory-utilization of one of them, or give it another GPU; the one that starts last fails."
    is_failing = any(map(is_loading, here))
    yield Alert("error" if is_failing else "warning", text, about, "co-located-models-budgets-exceed-gpu", None, what)


def _together(index: int, here: list[Server]) -> Iterator[Alert]:
    loading = [one for one in here if is_loading(one) and word(one.stage) in ON_THE_GPU]
    if len(loading) < 2:
        return
    about = f"GPU {index}"
    names = " and ".join(f"{one.name} ({word(one.stage)})" for one in loading)
    text = f"{about}: {names} load at the same time and measure each other's memory"
    what = "Start them one after the other: the next when the one before it serves."
    yield Alert("warning", text, about, "concurrent-start-memory-race", None, what)


def _stuck(server: Server, now: float) -> Iterator[Alert]:
    stage = word(server.stage)
    if not is_loading(server) or stage not in STAGE_SECONDS:
        return
    in_stage = 0.0 if server.stage_since is None else now - server.stage_since
    in_all = 0.0 if server.started is None else now - server.started
    if in_stage >= STAGE_SECONDS[stage]:
        least = "at least " if server.stage_seen_late else ""
        doing = f"in {stage}{_detail(server)} for {least}{span(in_stage)}"
    elif in_all >= LOAD_SECONDS:
        doing = f"loading for {span(in_all)}, now in {stage}{_detail(server)}"
    else:
        return
    where = f" on {gpu_names(server.gpus)}" if server.gpus else ""
    is_reading = stage == "weight_load"
    what = (
        "See whether its files are read or the hub's cache grows; if not, look at the stacks: py-spy dump --pid PID."
        if is_reading
        else "Look at the stacks of its processes before you end it: py-spy dump --pid PID."
    ).replace("PID", str(server.pid))
    playbook = "slow-download-looks-like-hang" if is_reading else "worker-stopped-hang"
    text = f"{server.name}: {doing}{where}; it may hang"
    yield Alert("warning", text, server.name, playbook, server.pid, what)


def _failed(server: Server) -> Iterator[Alert]:
    """Its log says so, and its process is still there: whatever it holds, it gives nothing back."""
    if server.state != "failed":
        return
    stage = word(server.stage)
    what_failed = "it ended by an error" if stage == "serving" else f"its load failed{f' in {stage}' if stage else ''}"
    text = f"{server.name}: {what_failed}: {server.stage_detail}; pid {server.pid} is still there"
    where = f"vllm-console diagnose {shlex.quote(server.log)}" if server.log else "vllm-console diagnose with its log"
    what = f"Press d for its log, and d there for the causes, or run {where}; then end what is left of it."
    yield Alert("error", text, server.name, None, server.pid, what)


def _detail(server: Server) -> str:
    return f" ({server.stage_detail})" if server.stage_detail else ""
