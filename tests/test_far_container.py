"""An engine in a container, running or made of an image for one load: real namespaces, docker's words."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine_probe import events as ev
from engine_probe.child import process_tree
from engine_probe.engine import Engine, container_engine, image_engine
from engine_probe.engine_check import check_engine
from engine_probe.supervisor import Probe
from playbooks.lab.tiny_model import write_tiny_llama
from tests.box_host import IMAGE, NAME, Boxes, boxes, with_boxes
from tests.test_probe_engine import ask_at_full_length, assert_served_at_full_length, follow, launch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boxes]:
    with boxes(tmp_path_factory.mktemp("boxes")) as found:
        yield found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_llama(tmp_path_factory.mktemp("tiny") / "m"))


@pytest.fixture
def container(running: Boxes, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine in a container that runs."""
    monkeypatch.setenv("PATH", with_boxes(os.environ["PATH"], running))
    return replace(container_engine(NAME, "the test", engine.python), env={"BOX_MARK": uuid.uuid4().hex})


@pytest.fixture
def image(running: Boxes, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine in a container that is made for one probe, as for one that dies at its start."""
    monkeypatch.setenv("PATH", with_boxes(os.environ["PATH"], running))
    return replace(image_engine(IMAGE, "the test", engine.python), env={"BOX_MARK": uuid.uuid4().hex})


def living(boxed: Engine) -> set[int]:
    ((name, value),) = boxed.env.items()
    return process_tree.marked(f"{name}={value}")


def assert_gone(boxed: Engine, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while living(boxed):
        assert time.monotonic() < deadline, [process_tree.title(pid) for pid in living(boxed)]
        time.sleep(0.05)


async def test_a_load_in_a_container_of_its_own_serves_at_full_length_and_leaves_nothing(
    image: Engine, model: str
) -> None:
    async with Probe(image) as probe:
        await probe.load(launch(model, max_model_len=1408), "warm")
        events = await follow(probe, ask_at_full_length(probe))
    assert_served_at_full_length(events)
    assert_gone(image)


async def test_a_killed_client_leaves_nothing_in_a_running_container(container: Engine, model: str) -> None:
    async with Probe(container) as probe:
        await probe.load(launch(model, max_model_len=1408), "warm")
        async for event in probe.events():
            if isinstance(event, ev.Ready) and probe._process is not None:
                assert living(container)
                probe._process.kill()
    assert_gone(container)


def test_an_engine_in_a_container_is_checked(container: Engine) -> None:
    assert not check_engine(container).troubles
