"""The keeper alone: orders that are none, are large, or come too late; signals; a console that does not read."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_probe import events as ev
from engine_probe.child import orders, owned
from engine_probe.child.outbox import Outbox
from tests.stand_in.probing import BareKeeper, of_kind, only, texts, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def keeper() -> Iterator[BareKeeper]:
    with BareKeeper() as keeper:
        yield keeper


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"not json", "Expecting value"),
        (b"[1, 2]", "an order is an object"),
        (b'"\xff"', "codec can't decode"),
        (b"[" * 100_000, "RecursionError"),
        (b'{"do": "fly"}', "no such order: 'fly'"),
        (b'{"do": ["load"]}', "no such order: ['load']"),
        (b'{"do": "load", "argv": ["vllm"]}', "model must be a text"),
        (b'{"do": "load", "model": "m", "argv": []}', "argv is empty"),
        (b'{"do": "load", "model": "m", "argv": ["vllm"], "grade": "hot"}', "no such grade: 'hot'"),
        (b'{"do": "load", "model": "m", "argv": ["vllm"], "env": {"A": 1}}', "env must be an object of texts"),
    ],
)
def test_an_order_that_is_none_is_said_and_the_next_is_obeyed(keeper: BareKeeper, line: bytes, complaint: str) -> None:
    keeper.write(line + b"\n")
    assert complaint in only(keeper.up_to(ev.Trouble), ev.Trouble).text
    keeper.load("tell")
    assert only(keeper.up_to(ev.Ended), ev.Started).model == "m"


def test_orders_of_a_megabyte_arrive_whole(keeper: BareKeeper) -> None:
    large = "x" * 100_000  # Linux takes no longer variable than 128 KiB
    keeper.load("tell", env={"LARGE": large, **{f"MORE_{number}": large for number in range(9)}})
    assert texts(keeper.up_to(ev.Ended))[0].startswith("told 100000 ")


def test_order_lines_are_joined_across_reads() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    found = orders.OrderReader(reader)
    os.write(writer, b'{"do": "st')
    assert found.read() == []
    assert found.read() == []
    os.write(writer, b'op"}\n\n{"do"')
    assert found.read() == [b'{"do": "stop"}']
    os.close(writer)
    assert found.read() is None
    os.close(reader)


def test_a_request_to_a_model_that_is_not_there_is_answered(keeper: BareKeeper) -> None:
    keeper.order(do="request", model="nobody", id="r1", path="/health")
    answer = only(keeper.up_to(ev.RequestAnswered), ev.RequestAnswered)
    assert (answer.id, answer.status, answer.error) == ("r1", None, "nobody is not loaded")


def test_a_name_that_is_loaded_is_refused_and_may_be_used_again_after_its_end(keeper: BareKeeper) -> None:
    keeper.load("hang")
    keeper.up_to(ev.Text)
    keeper.load("hang")
    assert only(keeper.up_to(ev.Trouble), ev.Trouble).text == "an order failed: ValueError: m is loaded already"
    keeper.order(do="stop", model="m")
    keeper.order(do="stop", model="m")
    first = keeper.up_to(ev.Ended)
    assert not of_kind(first, ev.Failed)
    keeper.load("traceback")
    second = keeper.up_to(ev.Ended)
    assert [len(of_kind(second, kind)) for kind in (ev.Started, ev.Failed, ev.Ended)] == [1, 1, 1]


def test_descriptors_do_not_grow_with_loads(keeper: BareKeeper) -> None:
    fd_folder = Path(f"/proc/{only(keeper.up_to(ev.ProbeStarted), ev.ProbeStarted).pid}/fd")
    for _ in range(2):
        keeper.load("traceback")
        keeper.up_to(ev.Ended)
    before = descriptors(fd_folder)
    for number in range(4):
        keeper.load("traceback", name=f"m{number}")
        keeper.up_to(ev.Ended)
    keeper.load("tell", cwd="/nowhere")
    keeper.up_to(ev.Ended)
    deadline = time.monotonic() + 10
    while descriptors(fd_folder) > before:  # the thread that asked the last load may hold its socket a moment longer
        assert time.monotonic() < deadline, f"{before} before, {descriptors(fd_folder)} after"


def descriptors(folder: Path) -> int:
    return len(list(folder.iterdir()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_the_keeper_ends_its_loads_in_order(keeper: BareKeeper, number: signal.Signals) -> None:
    keeper.load("hang")
    seen = keeper.up_to(ev.Text)
    os.kill(only(seen, ev.ProbeStarted).pid, number)
    rest = list(keeper.events())
    assert only(rest, ev.Failed).reason == f"the probe was ended by {number.name}"
    assert only(rest, ev.Ended).left_behind == []
    assert keeper.process.wait() == 0


def test_a_load_that_comes_while_the_probe_ends_is_refused(keeper: BareKeeper) -> None:
    """The first one ignores SIGTERM, so there is time to ask for a second."""
    keeper.load("tree")
    seen = keeper.up_to(ev.Text)
    os.kill(only(seen, ev.ProbeStarted).pid, signal.SIGTERM)
    for _ in range(2):  # two rounds of the keeper's loop: by then it has seen the signal
        keeper.order(do="request", model="nobody", id="r1", path="/")
        keeper.up_to(ev.RequestAnswered)
    keeper.load("hang", name="too-late")
    rest = list(keeper.events())
    assert [event.reason for event in of_kind(rest, ev.Failed) if event.model == "too-late"] == ["the probe is ending"]
    assert sorted(event.model or "" for event in of_kind(rest, ev.Ended)) == ["m", "too-late"]


@pytest.mark.timeout(40)  # the keeper must not trickle out what has waited
def test_a_console_that_does_not_read_holds_no_engine_up_and_the_dropped_text_is_counted(
    keeper: BareKeeper, tmp_path: Path
) -> None:
    done = tmp_path / "flooded"
    keeper.load("flood", env={"FLOODED": str(done)})
    wait_for(done)
    seen = keeper.up_to(ev.Ended)
    written = [event.line for event in of_kind(seen, ev.Text)]
    assert set(map(len, written)) == {200_000}
    dropped = sum(int(event.text.split()[0]) for event in of_kind(seen, ev.Trouble))
    samples = len(of_kind(seen, ev.MemorySample))
    assert 400 <= len(written) + dropped <= 400 + samples + 60
    assert dropped > 0
    assert of_kind(seen, ev.Failed)


def test_the_outbox_drops_text_only_and_says_how_much() -> None:
    reader, writer = os.pipe()
    outbox = Outbox(writer, max_waiting_bytes=1000)
    for number in range(3000):
        outbox.send(ev.Text("m", offset=number, line="x" * 100))
    outbox.send(ev.Failed("m", reason="r"))
    outbox.send(ev.Ended("m"))
    content = b""
    while outbox.wants_to_write:
        content += os.read(reader, 65536)
        outbox.flush()
    os.close(writer)
    while more := os.read(reader, 65536):
        content += more
    os.close(reader)
    kinds = [json.loads(line)["event"] for line in content.decode().splitlines()]
    assert kinds[-3:] == ["trouble", "failed", "ended"]
    assert f"{3000 - kinds.count('text')} lines and samples were dropped".encode() in content


def test_an_outbox_whose_reader_has_gone_keeps_nothing() -> None:
    reader, writer = os.pipe()
    outbox = Outbox(writer)
    os.close(reader)
    outbox.send(ev.Trouble(text="nobody hears this"))
    outbox.send(ev.Trouble(text="nor this"))
    os.close(writer)
    assert outbox.broken
    assert not outbox.wants_to_write


@pytest.mark.parametrize("folder", ["relative/vllm-console-x", "/", "/home/someone", "/tmp/vllm-console-x/.."])
def test_only_a_folder_of_the_console_s_own_can_be_owned(tmp_path: Path, folder: str) -> None:
    with pytest.raises(ValueError, match="not a folder of the console's own"):
        owned.add(str(tmp_path), folder)


def test_a_link_is_never_followed_to_be_removed(tmp_path: Path) -> None:
    target = tmp_path / "theirs"
    target.mkdir()
    link = tmp_path / "vllm-console-link"
    link.symlink_to(target)
    with pytest.raises(ValueError, match="not a folder"):
        owned.add(str(tmp_path), str(link))
    assert target.exists()


def test_owned_folders_go_with_the_private_one(tmp_path: Path) -> None:
    private, lab = tmp_path / "private", tmp_path / "vllm-console-lab-1"
    for folder in (private, lab):
        folder.mkdir()
    owned.add(str(private), str(lab))
    owned.remove_all(str(private))
    assert list(tmp_path.iterdir()) == []
