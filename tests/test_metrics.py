"""What /metrics of a server says, over releases; and answers that are no answers."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.hardware import metrics_ask
from engine_probe.hardware.metrics import ServerMetrics, read_metrics
from engine_probe.hardware.metrics_ask import Address, address_of, ask
from engine_probe.hardware.server_launch import Started, started_with
from tests.answering import HEAD, answering, sends

NEW = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="chat"} 3.0
vllm:num_requests_running{engine="1",model_name="chat"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="chat"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="chat",reason="capacity"} 99.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="chat"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="chat"} 0.25
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="chat"} 7.0
vllm:num_preemptions_created{engine="0",model_name="chat"} 1.79e+09
# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora="2",running_lora_adapters="",waiting_lora_adapters="old"} 1.7e+09
vllm:lora_requests_info{max_lora="2",running_lora_adapters="sql,chat",waiting_lora_adapters="sql"} 1.8e+09
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="chat"} 5.0
"""
OLD = b"""vllm:num_requests_running{model_name="chat"} 1.0
vllm:num_requests_swapped{model_name="chat"} 0.0
vllm:num_requests_waiting{model_name="chat"} 0.0
vllm:gpu_cache_usage_perc{model_name="chat"} 0.9625
vllm:cpu_cache_usage_perc{model_name="chat"} 0.0
vllm:num_preemptions_total{model_name="chat"} 2.0
"""


def values(found: ServerMetrics) -> list[object]:
    facts = (found.kv_use_percent, found.running, found.waiting, found.preemptions)
    return [fact.value if isinstance(fact, Known) else None for fact in facts]


def test_a_new_server_with_two_engines() -> None:
    found = read_metrics(NEW, "http://h/metrics")
    assert values(found) == [37.5, 5, 4, 7]
    assert found.adapters == ("sql", "chat")
    assert found.models == {"chat"}
    assert found.running == Known(5, "measured", "http://h/metrics vllm:num_requests_running")


def test_an_old_server() -> None:
    assert values(read_metrics(OLD, "o")) == [96.25, 1, 0, 2]


def test_names_of_two_releases_side_by_side_count_once() -> None:
    both = NEW + b'vllm:gpu_cache_usage_perc{engine="0",model_name="chat"} 0.9\n'
    assert values(read_metrics(both, "o"))[0] == 37.5


def test_what_is_missing_is_unknown() -> None:
    found = read_metrics(b'vllm:num_requests_running{model_name="m"} 1\n', "o")
    assert isinstance(found.kv_use_percent, Unknown)
    assert found.kv_use_percent.reason.startswith("o has no vllm:kv_cache_usage_perc")


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-1", "1.5"])
def test_a_use_that_is_none_is_unknown(number: str) -> None:
    found = read_metrics(f'vllm:kv_cache_usage_perc{{model_name="m"}} {number}\n'.encode(), "o")
    assert isinstance(found.kv_use_percent, Unknown)


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-1", "1.7", "5e22", "1e308"])
def test_a_count_that_cannot_be_is_unknown_and_said(number: str) -> None:
    name = "vllm:num_requests_running"
    found = read_metrics(f'{name}{{engine="0"}} 3\n{name}{{engine="1"}} {number}\n'.encode(), "o")
    assert found.running == Unknown(f"o says {name} = {float(number):g}, which cannot be")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>vllm:num_requests_running</html>",
        b"\xff\xfe\x00" * 1000,
        b"vllm:num_requests_running{model_name= 3\n",
        b'vllm:num_requests_running{model_name="m"} many\n',
        b'vllm:num_requests_running{model_name="m"}\n',
        b'vllm:num_requests_running{a="b"} 1\n' * 20_000,
        b'vllm:num_requests_running{a="' + b"x" * 1_000_000 + b'"} 1\n',
    ],
)
def test_what_is_no_metrics(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"it has|cannot be read"):
        read_metrics(content, "o")


def test_names_of_adapters_are_text_and_bounded() -> None:
    names = ",".join(["\\x1b[31mred", *(f"a{number}" for number in range(500))])
    line = f'vllm:lora_requests_info{{running_lora_adapters="{names}",waiting_lora_adapters=""}} 1\n'
    adapters = read_metrics(line.encode().replace(b"\\x1b", b"\x1b"), "o").adapters
    assert len(adapters) == 200
    assert not any("\x1b" in name for name in adapters)


def test_the_library_is_not_set_up_for_its_parser() -> None:
    code = f"""
import sys
from engine_probe.hardware.metrics import read_metrics
read_metrics({OLD!r}, "o")
print([name for name in sys.modules if name.startswith("prometheus_client")])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_an_answer_is_read() -> None:
    with answering(sends(HEAD + f"Content-Length: {len(OLD)}\r\n\r\n".encode() + OLD)) as port:
        answer = ask(Address("127.0.0.1", port))
    assert isinstance(answer.metrics, ServerMetrics)
    assert (answer.is_listening, answer.status) == (True, 200)
    assert values(answer.metrics)[0] == 96.25


@pytest.mark.parametrize(
    ("content", "reason", "status"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "HTTP status 404", 404),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "no metrics of vLLM", 200),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "no HTTP", None),
        (b"x" * 200_000, "no HTTP", None),
        (b"", "no HTTP", None),
        (HEAD + b"\r\n" + b"y" * (9 << 20), "larger than 8 MiB", 200),
        (HEAD + b"Content-Length: -5\r\n\r\n", "no metrics", 200),
    ],
)
def test_other_answers_are_unknown_with_a_reason(content: bytes, reason: str, status: int | None) -> None:
    with answering(sends(content)) as port:
        answer = ask(Address("127.0.0.1", port))
    assert isinstance(answer.metrics, Unknown)
    assert reason in answer.metrics.reason
    assert status is None or answer.status in (status, None)


def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_ask, "TIMEOUT_SECONDS", 0.05)
    over = threading.Event()
    with answering(lambda _: over.wait(30)) as port:
        answer = ask(Address("127.0.0.1", port))
        over.set()
    assert isinstance(answer.metrics, Unknown)
    assert "did not answer within" in answer.metrics.reason
    assert answer.is_listening


def test_a_server_that_answers_a_byte_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is for the whole answer, not for each piece."""
    monkeypatch.setattr(metrics_ask, "TIMEOUT_SECONDS", 0.1)
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        while not over.wait(0.01):
            connection.sendall(b"x")

    with answering(drip) as port:
        answer = ask(Address("127.0.0.1", port))
        over.set()
    assert isinstance(answer.metrics, Unknown)
    assert "did not answer within" in answer.metrics.reason


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    answer = ask(Address("127.0.0.1", port))
    assert (answer.is_listening, answer.status) == (False, None)
    assert isinstance(answer.metrics, Unknown)


def test_a_root_path_is_tried_too() -> None:
    asked: list[bytes] = []

    def behave(connection: socket.socket) -> None:
        asked.append(connection.recv(65536).split()[1])
        connection.sendall(HEAD + b"\r\n" + OLD if asked[-1] == b"/llm/metrics" else b"HTTP/1.1 404 No\r\n\r\n")

    with answering(behave) as port:
        address = address_of(Started("m", "m", (), port, root_path="/llm/"))
        assert isinstance(address, Address)
        answer = ask(address)
    assert isinstance(answer.metrics, ServerMetrics)
    assert asked == [b"/metrics", b"/llm/metrics"]


@pytest.mark.parametrize(
    ("words", "host"),
    [("", "127.0.0.1"), ("--host 0.0.0.0", "127.0.0.1"), ("--host ::", "::1"), ("--host 127.0.0.1", "127.0.0.1")],
)
def test_where_a_server_is_asked(words: str, host: str) -> None:
    started = started_with(["vllm", "serve", "m", *words.split(), "--port", "8123"], None)
    address = address_of(started)
    assert isinstance(address, Address)
    assert (address.host, address.port) == (host, 8123)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--host 192.0.2.7", "no address of this machine"),
        ("--host inference.example.com", "no address of this machine"),
        ("--ssl-keyfile k --ssl-certfile c", "https"),
        ("--uds /run/vllm.sock", "Unix socket"),
        ("--port 99999", "port"),
    ],
)
def test_nothing_else_is_ever_asked(words: str, reason: str) -> None:
    address = address_of(started_with(["vllm", "serve", "m", *words.split()], None))
    assert isinstance(address, Unknown)
    assert reason in address.reason
