"""A probe whose models share one memory limit: above it the kernel ends what serves while another loads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from engine_probe.events import Ended, Failed, LogRecord, MemorySample, Ready, Started, Text
from tests.stand_in.ruled_probe import RuledProbe

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.launch import Launch

KILLED = "Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor."
NODE = "(Worker pid=5) INFO 11-29 10:00:00 [cpu_worker.py:243] Explicitly set (0.5/23.54) GiB for KV cache on node 0."
MIB = 2**20
DEPLOYMENT = """\
start: {start}
models:
  - name: chat
    model: acme/chat
    args: {{kv-cache-memory-bytes: 900M}}   # the first one
  - name: code
    model: acme/code
    args: {{kv-cache-memory-bytes: 900M}}
"""


def two_models(folder: Path, start: str) -> Path:
    """A deployment of two models, each with a KV cache of 900 MiB."""
    path = folder / "deployment.yaml"
    path.write_text(DEPLOYMENT.format(start=start), encoding="utf-8")
    return path


def pool_mib(launch: Launch) -> int:
    value = launch.args["kv-cache-memory-bytes"]
    assert isinstance(value, int)
    return value // MIB


class LimitedProbe(RuledProbe):
    """A limit for all: above it, what serves is killed while another loads.

    Where `one_by_one` is said, the last of those that load at once is killed too.
    """

    def __init__(self, limit_mib: int = 1400, *, one_by_one: bool = False) -> None:
        super().__init__(lambda _launch, _up: None)
        self.limit_mib = limit_mib
        self.one_by_one = one_by_one
        self.loading: dict[str, Launch] = {}

    async def load(self, launch: Launch, grade: str) -> None:
        self.asked.append(f"{grade} load of {launch.name}")
        self.loading[launch.name] = launch
        self._tell(Started(launch.name, grade=grade))
        self._tell(Text(launch.name, line=NODE))
        limit = self.limit_mib * MIB
        self._tell(MemorySample(launch.name, limit_bytes=limit, limit_used_bytes=0, host_available_bytes=2**34))
        asyncio.get_running_loop().call_soon(self._come_up)

    def _come_up(self) -> None:
        """All that load come up, or what is too much ends one of them."""
        names, self.loading = list(self.loading.values()), {}
        for launch in names:
            others = [one for one in self.up.values() if one.name != launch.name]
            together = sum(map(pool_mib, (launch, *others)))
            if self.one_by_one and len(names) > 1 and launch is names[-1]:
                self._kill(launch.name)
                continue
            for one in others if together > self.limit_mib - 400 else ():
                self.up.pop(one.name)
                self._kill(one.name)
            self.up[launch.name] = launch
            self._tell(Ready(launch.name, seconds=1.0, served_models=[launch.model], max_model_len=64, port=8000))

    def _kill(self, name: str) -> None:
        self._tell(LogRecord(name, level="ERROR", logger="vllm.v1.executor.multiproc_executor", message=KILLED))
        self._tell(Text(name, line=f"(EngineCore pid=7) ERROR 11-29 10:00:00 [multiproc_executor.py:315] {KILLED}"))
        self._tell(Failed(name, reason="vllm exited with code 1", exit_code=1, oom_kills=1))
        self._tell(Ended(name))
