"""Servers that serve: what /metrics tells of them, and ports that answer wrongly, for others or not at all."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.hardware import server_followed
from engine_probe.hardware.gpus import GpuState
from engine_probe.hardware.servers import ServerWatch
from tests.answering import HEAD, answering, sends
from tests.fake_proc import FakeProc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine_probe.hardware.reading import Server

METRICS = b"""vllm:num_requests_running{engine="0",model_name="chat"} 3.0
vllm:num_requests_waiting{engine="0",model_name="chat"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="chat"} 0.5
vllm:num_preemptions_total{engine="0",model_name="chat"} 7.0
vllm:lora_requests_info{max_lora="2",running_lora_adapters="sql",waiting_lora_adapters=""} 1.7e+09
"""


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


@pytest.fixture
def watch(fake: FakeProc) -> Iterator[ServerWatch]:
    watch = ServerWatch(fake.root)
    yield watch
    watch.close()


def add(fake: FakeProc, pid: int, name: str, port: int, started: float | None = None) -> None:
    words = ["/opt/venv/bin/vllm", "serve", "m", "--served-model-name", name, "--port", str(port)]
    fake.add(pid, words, started=started)


def read(watch: ServerWatch) -> dict[int, Server]:
    """What is known once the servers have been asked."""
    watch.read(GpuState(), time.time())
    watch.wait(10)
    return {one.pid: one for one in watch.read(GpuState(), time.time())[0]}


def test_a_server_that_answers_serves(fake: FakeProc, watch: ServerWatch) -> None:
    with answering(sends(HEAD + b"\r\n" + METRICS)) as port:
        add(fake, 100, "chat", port)
        server = read(watch)[100]
    assert server.state == "serving"
    assert server.stage == Known("serving", "computed", "it answers on its port")
    facts = (server.kv_use_percent, server.running, server.waiting, server.preemptions)
    assert [fact.value for fact in facts if isinstance(fact, Known)] == [50.0, 3, 4, 7]
    assert server.adapters == ("sql",)


def test_nobody_answers_while_it_loads(fake: FakeProc, watch: ServerWatch) -> None:
    with answering(sends(b"")) as port:
        pass
    add(fake, 100, "chat", port)
    server = read(watch)[100]
    assert server.state == "loading"
    assert isinstance(server.kv_use_percent, Unknown)
    assert f"127.0.0.1:{port}" in server.kv_use_percent.reason


def test_another_server_on_its_port_is_not_taken_for_it(fake: FakeProc, watch: ServerWatch) -> None:
    with answering(sends(HEAD + b"\r\n" + METRICS)) as port:
        add(fake, 100, "code", port)
        server = read(watch)[100]
    assert server.state == "loading"
    assert isinstance(server.kv_use_percent, Unknown)
    assert "another server, of chat" in server.kv_use_percent.reason


def test_of_two_that_claim_one_port_the_first_has_it(fake: FakeProc, watch: ServerWatch) -> None:
    now = time.time()
    with answering(sends(HEAD + b"\r\n" + METRICS)) as port:
        add(fake, 100, "chat", port, now - 10)
        add(fake, 200, "chat", port, now - 500)
        servers = read(watch)
    assert (servers[100].state, servers[200].state) == ("loading", "serving")
    assert servers[100].running == Unknown(f"port {port} is that of pid 200, which was started before")


def test_of_two_that_claim_one_port_that_which_listens_has_it(fake: FakeProc, watch: ServerWatch) -> None:
    """The first may still load, or have found the port taken."""
    now = time.time()
    with answering(sends(HEAD + b"\r\n" + METRICS)) as port:
        add(fake, 100, "chat", port, now - 10)
        add(fake, 200, "chat", port, now - 500)
        listens(fake, 100, port, 77)
        listens(fake, 200, port, 6)
        servers = read(watch)
    assert (servers[100].state, servers[200].state) == ("serving", "loading")
    assert servers[200].running == Unknown(f"port {port} is that of pid 100, which listens on it")


def test_a_server_that_hangs_delays_no_reading(
    fake: FakeProc, watch: ServerWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_followed, "_LONG_SECONDS", 0.0)
    over, asked = threading.Event(), threading.Event()

    def hang(_: object) -> None:
        asked.set()
        over.wait(30)

    with answering(hang) as port, answering(sends(HEAD + b"\r\n" + METRICS)) as other:
        add(fake, 100, "chat", port)
        add(fake, 200, "chat", other)
        watch.read(GpuState(), time.time())
        assert asked.wait(10)
        servers = {one.pid: one for one in watch.read(GpuState(), time.time())[0]}
        assert isinstance(servers[100].running, Unknown)
        assert not over.is_set(), "the reading has come while it hangs"
        while servers[200].state != "serving":
            servers = {one.pid: one for one in watch.read(GpuState(), time.time())[0]}
        over.set()


def test_numbers_of_a_server_that_has_stopped_answering_are_not_kept(fake: FakeProc, watch: ServerWatch) -> None:
    with answering(sends(HEAD + b"\r\n" + METRICS)) as port:
        add(fake, 100, "chat", port)
        assert isinstance(read(watch)[100].running, Known)
    server = read(watch)[100]
    while isinstance(server.running, Known):
        server = read(watch)[100]
    assert server.state == "serving"


def test_an_orphan_that_still_answers_says_so(fake: FakeProc, watch: ServerWatch) -> None:
    """One of several API servers goes on without the process that started it (0.32.0)."""
    fake.add(1, ["/sbin/init"], 0, name="systemd")
    with answering(sends(HEAD + b"\r\n" + METRICS)) as port:
        add(fake, 100, "chat", port)
        for pid, title in ((101, "VLLM::APIServer_0"), (102, "VLLM::EngineCore")):
            fake.add(pid, title, 100, group=100)
        read(watch)
        fake.end(100)
        for pid, title in ((101, "VLLM::APIServer_0"), (102, "VLLM::EngineCore")):
            fake.add(pid, title, 1, group=100)
        (orphan,) = read(watch).values()
    assert (orphan.state, orphan.name, orphan.pids) == ("orphan", "chat", (101, 102))
    assert orphan.running == Known(3, "measured", f"http://127.0.0.1:{port}/metrics vllm:num_requests_running")


def listens(fake: FakeProc, pid: int, port: int, inode: int) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = f"   0: 00000000:{port:04X} 00000000:0000 {{}} 00000000:00000000 00:00000000 00000000 0 0 {{}} 1 0\n"
    (fake.proc / str(pid) / "net").mkdir()
    (fake.proc / str(pid) / "net/tcp").write_text(head + row.format("01", 5) + row.format("0A", 77))
    (fake.proc / str(pid) / "fd/9").symlink_to(f"socket:[{inode}]")


@pytest.mark.parametrize(("inode", "state"), [(77, "serving"), (5, "loading"), (6, "loading")])
def test_whose_socket_it_is_tells_where_no_name_does(
    fake: FakeProc, watch: ServerWatch, inode: int, state: str
) -> None:
    """A server with --disable-log-stats has no metrics; nor has whatever else may have its port."""
    with answering(sends(HEAD + b"\r\npython_info 1.0\n")) as port:
        add(fake, 100, "chat", port)
        listens(fake, 100, port, inode)
        assert read(watch)[100].state == state


def test_another_program_on_its_port(fake: FakeProc, watch: ServerWatch) -> None:
    with answering(sends(b"HTTP/1.1 404 Not Found\r\n\r\n")) as port:
        add(fake, 100, "chat", port)
        assert read(watch)[100].state == "loading"


def in_own_network(fake: FakeProc, pid: int) -> None:
    for name, number in ((str(pid), 1), ("self", 2)):
        folder = fake.proc / name / "ns"
        folder.mkdir()
        (folder / "net").symlink_to(f"net:[{number}]")


def test_a_server_in_a_network_of_its_own_may_have_its_port_published(fake: FakeProc, watch: ServerWatch) -> None:
    with answering(sends(HEAD + b"\r\n" + METRICS)) as port:
        add(fake, 100, "chat", port)
        in_own_network(fake, 100)
        server = read(watch)[100]
    assert server.state == "serving"
    assert isinstance(server.running, Known)


@pytest.mark.parametrize("body", [METRICS, METRICS.replace(b',model_name="chat"', b""), b"hello"])
def test_what_is_not_known_to_be_it_is_not_taken_for_it(fake: FakeProc, watch: ServerWatch, body: bytes) -> None:
    with answering(sends(HEAD + b"\r\n" + body)) as port:
        add(fake, 100, "code", port)
        in_own_network(fake, 100)
        server = read(watch)[100]
    assert server.state == "loading"
    assert isinstance(server.running, Unknown)
    assert "network of its own" in server.running.reason
