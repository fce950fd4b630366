"""Examinations with a real engine's torch and transformers: ranks, tensors, packages, and that nothing is left."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import threading
import uuid
from typing import TYPE_CHECKING

import psutil
import pytest

from engine_probe.child import process_tree
from engine_probe.deployment import read_deployment
from engine_probe.examine.asking import launch_given, run_script
from engine_probe.launch import Launch
from playbooks.effects import Examine
from playbooks.examining import examine
from tests.test_examinations import model, origin, until, values

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.engine import Engine
    from engine_probe.examine.asking import Examination


@pytest.mark.engine
def test_ranks_meet_over_gloo_and_a_wrong_interface_is_named(engine: Engine) -> None:
    launch = Launch("tiny", "tiny", {"tensor-parallel-size": 2})
    met = values(run_script(engine, "all_reduce", launch_given(launch, "tiny"), 120))
    assert (met["ranks.all_reduce_works"], met["ranks.backend"], met["ranks.count"]) == (True, "gloo", 2)
    lost = Launch("tiny", "tiny", {"tensor-parallel-size": 2}, env={"GLOO_SOCKET_IFNAME": "nosuch0"})
    failed = values(run_script(engine, "all_reduce", launch_given(lost, "tiny"), 120))
    assert failed["ranks.all_reduce_works"] is False
    assert "nosuch0" in str(failed["ranks.silent"])
    alone = run_script(engine, "all_reduce", launch_given(Launch("tiny", "tiny"), "tiny"), 120)
    assert alone.why_not == "the launch has one rank, which has nobody to meet"


def ranks_of(me: psutil.Process) -> list[psutil.Process]:
    return [one for one in me.children(recursive=True) if number_of(one) is not None]


def number_of(one: psutil.Process) -> str | None:
    """None: it is no rank, or not any more."""
    try:
        return one.environ().get("RANK") if "init_process_group" in " ".join(one.cmdline()) else None
    except psutil.Error:
        return None


@pytest.mark.engine
def test_the_rank_that_does_not_answer_is_named_and_none_is_left(engine: Engine) -> None:
    launch, me = Launch("tiny", "tiny", {"tensor-parallel-size": 2}), psutil.Process()
    found: list[Examination] = []
    asking = threading.Thread(
        target=lambda: found.append(run_script(engine, "all_reduce", launch_given(launch, "tiny"), 35))
    )
    asking.start()
    until(lambda: len(ranks_of(me)) == 2)
    ranks = ranks_of(me)
    stopped = next(one for one in ranks if number_of(one) == "1")
    stopped.send_signal(signal.SIGSTOP)
    asking.join()
    assert str(values(found[0])["ranks.silent"]).startswith("rank 1 did not start: nothing more in")
    assert psutil.wait_procs(ranks, timeout=30)[1] == []  # who reaps them may take a moment


@pytest.mark.engine
def test_a_stop_ends_all_ranks(engine: Engine) -> None:
    launch, me, stop = Launch("tiny", "tiny", {"tensor-parallel-size": 2}), psutil.Process(), threading.Event()
    found: list[Examination] = []
    asking = threading.Thread(
        target=lambda: found.append(run_script(engine, "all_reduce", launch_given(launch, "tiny"), 120, stop))
    )
    asking.start()
    until(lambda: len(ranks_of(me)) > 0)
    ranks_of(me)[0].send_signal(signal.SIGSTOP)  # they must not be done before they are stopped
    until(lambda: len(ranks_of(me)) == 2)
    ranks = ranks_of(me)
    stop.set()
    asking.join()
    assert found[0].why_not == "it was stopped"
    assert psutil.wait_procs(ranks, timeout=30)[1] == []  # who reaps them may take a moment


@pytest.mark.engine
def test_tensors_that_the_class_wants(engine: Engine, tmp_path: Path) -> None:
    deployment = read_deployment(model(tmp_path))
    launch = deployment.models[0]
    good = values(examine(Examine("tensor-audit", launch, deployment, {}), engine, threading.Event()))
    assert good == {
        "files.not_finite": 0,
        "files.missing_tensors": 0,
        "files.unknown_tensors": 0,
        "files.other_shapes": 0,
    }
    drop_a_tensor(tmp_path / "tiny" / "model.safetensors")
    bad = examine(Examine("tensor-audit", launch, deployment, {}), engine, threading.Event())
    assert values(bad)["files.missing_tensors"] == 1
    assert "lacks model.norm.weight" in origin(bad.facts["files.missing_tensors"])


def drop_a_tensor(path: Path) -> None:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    del header["model.norm.weight"]
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


@pytest.mark.engine
def test_packages_of_the_engine(engine: Engine, tmp_path: Path) -> None:
    deployment = read_deployment(model(tmp_path))
    found = examine(Examine("package-check", deployment.models[0], deployment, {}), engine, threading.Event())
    assert isinstance(values(found)["packages_unmet.count"], int)


@pytest.mark.engine
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_console_that_is_ended_leaves_no_rank(engine: Engine, tmp_path: Path, number: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    path = tmp_path / "deployment.yaml"
    launch = f"{{name: tiny, model: acme/tiny, args: {{tensor-parallel-size: 2}}, env: {{CONSOLE_TEST: {mark}}}}}"
    path.write_text(f"models:\n  - {launch}\n", encoding="utf-8")
    words = [sys.executable, "-m", "tui.cli", "probe", "--experiment", "all-reduce", "--engine", engine.label]
    console = subprocess.Popen([*words, str(path)], stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: len(process_tree.marked(f"CONSOLE_TEST={mark}")) == 2)
        console.send_signal(number)
        code = console.wait(60)
    finally:
        console.kill()
        console.wait()
    assert code == (-number if number is signal.SIGKILL else 128 + number)
    until(lambda: not process_tree.marked(f"CONSOLE_TEST={mark}"))
