"""Looks at this host again and again: GPUs, memory, disks, vLLM's servers and the processes that matter.

One thread calls it, never one that draws.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.hardware.gpu_watch import GpuWatch
from engine_probe.hardware.host_watch import HostWatch
from engine_probe.hardware.reading import Reading
from engine_probe.hardware.servers import ServerWatch

if TYPE_CHECKING:
    from engine_probe.hardware.reading import Server

_SETTLE_SECONDS = 1.2
_RATE_SECONDS = 0.2
"""What is counted per second needs some time between two looks."""
_MOST_FOLDERS = 8


class Watch:
    """`sample` is cheap and keeps peaks of GPU memory between two calls of `read`."""

    def __init__(self) -> None:
        self._gpus = GpuWatch()
        self._host = HostWatch()
        self._servers = ServerWatch()
        self._caches = _cache_folders()
        self._folders = dict(self._caches)
        self._beside_seconds = 0.0

    def sample(self) -> None:
        self._gpus.sample_memory()

    def read(self) -> Reading:
        began, now = time.thread_time(), time.time()
        gpus = self._gpus.read()
        servers, processes = self._servers.read(gpus, now)
        host = self._host.read(self._folders)
        self._folders = _folders(servers, self._caches)
        return Reading(
            time=now,
            host_name=socket.gethostname(),
            gpus=self._servers.with_ending(gpus),
            host=host,
            servers=servers,
            processes=processes,
            seconds=time.thread_time() - began + self._spent_beside(),
        )

    def wait(self, seconds: float) -> None:
        """Until the servers that were asked have answered, for at most so long."""
        self._servers.wait(seconds)

    def close(self) -> None:
        self._gpus.close()
        self._host.close()
        self._servers.close()

    def _spent_beside(self) -> float:
        total = self._servers.seconds + self._host.seconds
        spent, self._beside_seconds = total - self._beside_seconds, total
        return spent


def look_once() -> Reading:
    """One reading with all that a single look can tell: servers have up to 1.2 s to answer for their /metrics."""
    watch = Watch()
    try:
        began = time.monotonic()
        watch.read()
        watch.wait(_SETTLE_SECONDS)
        time.sleep(max(0.0, began + _RATE_SECONDS - time.monotonic()))
        return watch.read()
    finally:
        watch.close()


def _folders(servers: tuple[Server, ...], caches: dict[str, str]) -> dict[str, str]:
    """Where models lie that are folders of this host, and the caches."""
    models = [one.model for one in servers if one.model.startswith("/") and one.container is None]
    return dict.fromkeys(dict.fromkeys(models[:_MOST_FOLDERS]), "models") | caches


def _cache_folders() -> dict[str, str]:
    """As huggingface_hub and vLLM (vllm/envs.py) find theirs."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{cache}/huggingface"
    hub = os.environ.get("HF_HUB_CACHE") or f"{home}/hub"
    own = os.environ.get("VLLM_CACHE_ROOT") or f"{cache}/vllm"
    return {str(Path(hub).expanduser()): "models", str(Path(own).expanduser()): "caches"}
