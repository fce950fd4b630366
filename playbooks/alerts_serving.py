"""Servers whose KV cache is full: requests wait, or are put back and computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.alert import Alert, number, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.hardware.reading import Reading, Server

KV_FULL_PERCENT = 95.0
"""vLLM fills the cache on purpose and preempts when a running request finds no free block; above this the next long
request does."""
_MORE_ROOM = (
    "Give it a larger KV cache (--gpu-memory-utilization, another GPU), or let fewer or shorter requests in "
    "(--max-num-seqs, --max-model-len)."
)


def serving_alerts(reading: Reading, before: Reading | None) -> Iterator[Alert]:
    earlier = {(one.pid, one.started): one for one in before.servers} if before is not None else {}
    for server in reading.servers:
        if server.state == "serving":
            yield from _full(server)
            yield from _preempted(server, earlier.get((server.pid, server.started)), reading, before)


def _full(server: Server) -> Iterator[Alert]:
    use = number(server.kv_use_percent)
    if use is None or use <= KV_FULL_PERCENT:
        return
    waiting, running = number(server.waiting), number(server.running)
    text = f"{server.name}: {use:.0f} % of its KV cache are in use"
    text += f" by {running:.0f} requests" if running else ""
    text += f", and {waiting:.0f} wait" if waiting else ""
    yield Alert("warning", text, server.name, None, server.pid, _MORE_ROOM)


def _preempted(server: Server, earlier: Server | None, reading: Reading, before: Reading | None) -> Iterator[Alert]:
    now, then = number(server.preemptions), None if earlier is None else number(earlier.preemptions)
    if now is None or then is None or before is None or now <= then:
        return
    seconds = max(reading.time - before.time, 0.0)
    text = f"{server.name}: {now - then:.0f} requests lost their KV cache within {span(seconds)} and are computed again"
    yield Alert("warning", text, server.name, None, server.pid, _MORE_ROOM)
