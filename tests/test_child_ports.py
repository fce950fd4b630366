"""The port of a load: kept, replaced, and promised to one load at a time across all probes of the host."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from engine_probe.child.ports import Port, choose_port
from engine_probe.child.surroundings import argument
from tests.stand_in.probing import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def closing(port: Port) -> Iterator[Port]:
    """As a load holds its port."""
    try:
        yield port
    finally:
        assert port.promise is not None
        port.promise.close()


def test_a_free_port_stays_as_it_was_asked_for() -> None:
    port = free_port()
    argv = ["vllm", "serve", "m", "--port", str(port)]
    for keep in (False, True):
        with closing(choose_port(argv, keep)) as chosen:
            assert (chosen.number, chosen.argv, chosen.note) == (port, argv, None)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_taken_port_is_replaced_by_a_last_word(host: str) -> None:
    with socket.socket() as holder:
        holder.bind((host, 0))
        holder.listen()
        taken = holder.getsockname()[1]
        with closing(choose_port(["vllm", "serve", "m", f"--port={taken}"], keep=False)) as chosen:
            pass
        with pytest.raises(OSError, match=f"^port {taken} is in use$"):
            choose_port(["vllm", "serve", "m", f"--port={taken}"], keep=True)
    assert chosen.number != taken
    assert argument(chosen.argv, "--port") == str(chosen.number)
    assert chosen.note == f"port {taken} is in use: port {chosen.number} instead"


def test_a_promised_port_counts_as_taken_until_its_load_is_over() -> None:
    port = free_port()
    argv = ["vllm", "serve", "m", "--port", str(port)]
    with closing(choose_port(argv, keep=False)) as first, closing(choose_port(argv, keep=False)) as second:
        assert first.number == port
        assert second.number != port
        with pytest.raises(OSError, match=f"^port {port} is in use$"):
            choose_port(argv, keep=True)
    with closing(choose_port(argv, keep=True)) as third:
        assert third.number == port


def test_a_promise_is_seen_by_other_processes_and_goes_with_its_holder() -> None:
    port = free_port()
    argv = ["vllm", "serve", "m", "--port", str(port)]
    code = (
        "import sys; from engine_probe.child.ports import choose_port\n"
        f"port = choose_port({argv!r}, True); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(OSError, match="in use"):
        choose_port(argv, keep=True)
    holder.kill()
    holder.communicate()
    with closing(choose_port(argv, keep=True)) as chosen:
        assert chosen.number == port


@pytest.mark.parametrize(("wanted", "number"), [("nonsense", 8000), ("99999", 99999)])
def test_a_port_that_is_none_is_vllm_s_to_refuse(wanted: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_probe.child.ports._promise", lambda _: socket.socket())
    argv = ["vllm", "serve", "m", "--port", wanted]
    with closing(choose_port(argv, keep=False)) as chosen:
        assert (chosen.number, chosen.argv, chosen.note) == (number, argv, None)


def test_a_port_above_the_last_does_not_stop_us() -> None:
    with closing(choose_port(["vllm", "--port", "99999"], keep=True)) as chosen:
        assert chosen.number == 99999
