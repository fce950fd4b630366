"""All ranks of a launch on this host meet and add one tensor up, as vLLM's workers do when they start.

NCCL between GPUs, Gloo on CPUs, with the launch's own variables. Each rank is a process of its own, and none of them
outlives its time.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from engine_probe.examine.scripts.side import Side, die_with_parent, last_line

_WORDS = ("nothing", "started", "met", "done")
_ENDING_S = 2.0
_KEPT_BYTES = 1 << 16
# A rank's whole program. Its words go to a pipe of its own, so that nothing NCCL prints is taken for one.
_RANK = """
import datetime, os
def say(word): os.write(int(os.environ["CONSOLE_WORDS"]), (word + "\\n").encode())
import torch, torch.distributed as ranks
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
on_gpu = os.environ["CONSOLE_BACKEND"] == "nccl"
say("started")
if on_gpu: torch.cuda.set_device(rank)
limit = datetime.timedelta(seconds=float(os.environ["CONSOLE_LIMIT_S"]))
ranks.init_process_group(os.environ["CONSOLE_BACKEND"], rank=rank, world_size=size, timeout=limit)
say("met")
one = torch.ones(1 << 20, device="cuda" if on_gpu else "cpu")
ranks.all_reduce(one)
if on_gpu: torch.cuda.synchronize()
assert float(one[0]) == size == float(one[-1]), "the sum is wrong: " + str(float(one[0]))
say("done")
os._exit(0)
"""


class Rank:
    """One process and how far it has come."""

    def __init__(self, number: int, env: dict[str, str]) -> None:
        self.number = number
        self.words = ["nothing"]
        self.reading, writing = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- it lives as long as this
        env = {**os.environ, **env, "RANK": str(number), "LOCAL_RANK": str(number), "CONSOLE_WORDS": str(writing)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _RANK],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=(writing,),
            preexec_fn=die_with_parent,  # noqa: PLW1509 -- the only other thread waits for stdin
        )
        os.close(writing)

    @property
    def step(self) -> int:
        return _WORDS.index(self.words[-1])

    @property
    def error(self) -> str:
        file = self._errors.fileno()
        size = os.fstat(file).st_size
        return last_line(os.pread(file, _KEPT_BYTES, max(0, size - _KEPT_BYTES)).decode("utf-8", "replace"))


def meet(side: Side, count: int, backend: str, limit_s: float) -> tuple[list[Rank], float]:
    """Until all are done, one has failed, or the time is over; the seconds from the first start."""
    began = time.monotonic()
    env = {
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "CONSOLE_BACKEND": backend,
        "CONSOLE_LIMIT_S": str(limit_s),
    }
    ranks: list[Rank] = []
    side.at_end.append(lambda: end(ranks))
    try:
        for number in range(count):
            ranks.append(Rank(number, env))  # noqa: PERF401 -- what has begun is known at once
        _listen(ranks, began + limit_s)
    finally:
        end(ranks)
    return ranks, time.monotonic() - began


def end(ranks: list[Rank]) -> None:
    for rank in ranks:
        rank.process.kill()
    for rank in ranks:
        rank.process.wait()


def _listen(ranks: list[Rank], ends_at: float) -> None:
    waiting = selectors.DefaultSelector()
    for rank in ranks:
        waiting.register(rank.reading, selectors.EVENT_READ, rank)
    while waiting.get_map() and time.monotonic() < ends_at:
        for key, _ in waiting.select(min(1.0, max(0.0, ends_at - time.monotonic()))):
            words = os.read(key.fd, 4096).decode("ascii", "replace").split()
            key.data.words += [word for word in words if word in _WORDS]
            if not words:
                waiting.unregister(key.fd)
                if key.data.words[-1] != "done":  # the others wait for it now: they may tell why for a moment more
                    ends_at = min(ends_at, time.monotonic() + _ENDING_S)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def judged(ranks: list[Rank], seconds: float, backend: str, limit_s: float) -> tuple[dict[str, Any], dict[str, str]]:
    """Facts, and reasons for those that are not known. The rank that came least far is the one to look at."""
    facts: dict[str, Any] = {"ranks.count": len(ranks), "ranks.backend": backend}
    if all(rank.words[-1] == "done" for rank in ranks):
        facts |= {"ranks.all_reduce_works": True, "ranks.all_reduce_s": round(seconds, 1)}
        return facts, {"ranks.silent": "all ranks answered"}
    ended = [rank for rank in ranks if rank.process.returncode not in (0, -9)]
    first = min(ended or ranks, key=lambda rank: rank.step)
    reached = {"nothing": "did not start", "started": "did not meet the others", "met": "did not finish the sum"}
    how = reached.get(first.words[-1], "answered")
    why = first.error if ended else f"nothing more in {limit_s:.0f} s"
    facts |= {"ranks.all_reduce_works": False, "ranks.silent": f"rank {first.number} {how}: {why}"}
    return facts, {"ranks.all_reduce_s": "it did not come to its end"}


def backend_of(count: int) -> tuple[str, str | None]:
    """NCCL or Gloo, and why not where the ranks have no devices."""
    import torch

    if not torch.cuda.is_available():
        return "gloo", None
    if torch.cuda.device_count() < count:
        return "nccl", f"torch sees {torch.cuda.device_count()} GPUs there, and the launch has {count} ranks"
    return "nccl", None


def main() -> None:
    side = Side()
    count, gpus = int(side.given.get("ranks") or 1), side.given.get("gpus")
    if gpus:
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    if count < 2:
        side.answer({"ranks.count": count}, why_not="the launch has one rank, which has nobody to meet")
        return
    if int(side.given.get("nodes") or 1) > 1:
        side.answer(
            {"ranks.count": count}, why_not="the launch's ranks are on several hosts, and this one asks its own"
        )
        return
    try:
        backend, why_not = backend_of(count)
    except Exception as error:
        backend, why_not = "", f"torch cannot be imported there: {error}"
    if why_not is not None:
        side.answer({"ranks.count": count}, why_not=why_not)
        return
    limit_s = max(5.0, side.limit_s - 10.0)
    ranks, seconds = meet(side, count, backend, limit_s)
    facts, unknown = judged(ranks, seconds, backend, limit_s)
    side.answer(facts, unknown, origin=f"all-reduce of {count} ranks over {backend}")


if __name__ == "__main__":
    main()
