"""What a person gets for wrong input or a broken engine: one clear error, the right exit code, no traceback."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from datetime import date
from typing import TYPE_CHECKING

import pytest

from engine_probe.child import process_tree
from engine_probe.deployment import read_deployment
from playbooks.case import new_case
from playbooks.lab.tiny_model import write_tiny_llama
from playbooks.wording import arguments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine_probe.engine import Engine

pytestmark = pytest.mark.timeout(180)


def run(*words: str, engine: str | None = None) -> subprocess.CompletedProcess[str]:
    """The console as its own process, without a terminal."""
    options = ["--engine", engine] if engine else []
    command = [sys.executable, "-m", "tui.cli", words[0], *options, *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def assert_clear(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert len(done.stderr.strip().splitlines()) <= 8, done.stderr


def broken_engine(folder: Path, code: str) -> str:
    """A Python of its own whose `vllm` does what `code` says at import."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    (site / "vllm").mkdir(parents=True)
    (site / "vllm" / "__init__.py").write_text(code, encoding="utf-8")
    return str(folder / "bin" / "python")


@pytest.mark.parametrize("grade", ["dry", "warm", "cold"])
def test_an_engine_whose_import_fails(tmp_path: Path, grade: str) -> None:
    engine = broken_engine(tmp_path / "engine", "raise RuntimeError('operator torchvision::nms does not exist')\n")
    model = write_tiny_llama(tmp_path / "tiny")
    done = run("probe", "--grade", grade, "--", "vllm", "serve", str(model), engine=engine)
    assert_clear(done, 4, "torchvision")


def test_an_engine_that_is_not_there(tmp_path: Path) -> None:
    done = run("probe", "--", "vllm", "serve", "org/model", engine=str(tmp_path / "nowhere"))
    assert_clear(done, 2, "no engine at", "nowhere")


def test_an_engine_that_dies_at_import(tmp_path: Path) -> None:
    engine = broken_engine(tmp_path / "engine", "import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n")
    done = run("probe", "--grade", "warm", "--", "vllm", "serve", "org/model", engine=engine)
    assert_clear(done, 4, "SIGILL")


@pytest.mark.engine
def test_a_model_folder_that_is_not_there(engine: Engine, tmp_path: Path) -> None:
    done = run("probe", "--", "vllm", "serve", str(tmp_path / "nowhere" / "tiny"), engine=engine.label)
    assert_clear(done, 2, "model folder of tiny not found", str(tmp_path))


@pytest.mark.engine
def test_a_folder_that_holds_no_model(engine: Engine, tmp_path: Path) -> None:
    done = run("probe", "--", "vllm", "serve", str(tmp_path), engine=engine.label)
    assert_clear(done, 2, "holds no config.json")


@pytest.mark.engine
def test_a_flag_that_this_version_does_not_have(engine: Engine, tmp_path: Path) -> None:
    model = write_tiny_llama(tmp_path / "tiny")
    done = run("probe", "--", "vllm", "serve", str(model), "--swap-space", "4", engine=engine.label)
    assert_clear(done, 2, "--swap-space is not in vLLM 0.32.0", "last seen in")


@pytest.mark.engine
def test_a_misspelt_flag_on_the_command_line(engine: Engine, tmp_path: Path) -> None:
    model = write_tiny_llama(tmp_path / "tiny")
    done = run("probe", "--", "vllm", "serve", str(model), "--max-modl-len=4", engine=engine.label)
    assert_clear(done, 2, "max-modl-len", 'did you mean "max-model-len"')


@pytest.mark.parametrize(
    ("line", "wrong", "nearest"),
    [
        ("    modle: ./tiny", "modle", "model"),
        ("    args: {max-modl-len: 4096}", "max-modl-len", "max-model-len"),
        ("    gpu: [0]", "gpu", "gpus"),
    ],
)
def test_a_deployment_with_a_misspelt_key(tmp_path: Path, line: str, wrong: str, nearest: str) -> None:
    write_tiny_llama(tmp_path / "tiny")
    known = [] if wrong == "modle" else ["    model: ./tiny"]
    content = ["models:", "  - name: tiny", *known, line]
    path = tmp_path / "deployment.yaml"
    path.write_text("\n".join(content) + "\n", encoding="utf-8")
    for command in (["probe", str(path)], ["wizard", "--deployment", str(path)]):
        done = run(*command)
        assert_clear(done, 2, f"{path}:{len(content)}", wrong, f'did you mean "{nearest}"')


def test_a_deployment_that_is_not_there_is_answered_alike(tmp_path: Path) -> None:
    path = str(tmp_path / "nope.yaml")
    said = {run(*words).stderr for words in (["probe", path], ["wizard", "--deployment", path])}
    said |= {run("replay", "kv-cache-too-small-for-max-model-len", "--deployment", path).stderr}
    assert said == {f"Error: {path}: cannot be read: No such file or directory\n"}


def test_the_beginning_of_a_playbook_s_name_is_enough_for_a_hint(tmp_path: Path) -> None:
    done = run("replay", "kv-cache-too", "--deployment", str(tmp_path / "nope.yaml"))
    assert_clear(done, 2, "no playbook 'kv-cache-too'", 'did you mean "kv-cache-too-small-for-max-model-len"?')


@pytest.mark.engine
def test_a_port_that_is_taken_and_must_be_kept(engine: Engine, tmp_path: Path) -> None:
    model = write_tiny_llama(tmp_path / "tiny")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        words = ["--keep-port", "--", "vllm", "serve", str(model), "--port", str(port)]
        done = run("probe", *words, engine=engine.label)
    assert done.returncode == 1
    assert f"port {port} is in use" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.engine
def test_a_port_that_is_taken_is_replaced_and_the_load_goes_on(engine: Engine, tmp_path: Path) -> None:
    model = write_tiny_llama(tmp_path / "tiny")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        args = ["--enforce-eager", "--kv-cache-memory-bytes", "96M", "--max-model-len", "1408", "--port", str(port)]
        done = run("probe", "--grade", "warm", "--", "vllm", "serve", str(model), *args, engine=engine.label)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"port {port} is in use: port" in done.stdout
    assert "loaded and answered" in done.stdout


@pytest.mark.parametrize("stage", ["version", "probe"])
def test_an_engine_that_never_answers_is_ended_with_all_that_it_started(tmp_path: Path, stage: str) -> None:
    answer = "case $2 in *importlib.metadata*) echo 0.32.0; exit;; esac" if stage == "probe" else ""
    pids = tmp_path / "pids"
    script = f"#!/bin/sh\n{answer}\nsleep 333 &\necho $$ $! > {pids}.new && mv {pids}.new {pids}\nwait\n"
    slow = tmp_path / "slow"
    slow.write_text(script, encoding="utf-8")
    slow.chmod(0o755)
    words = ["probe", "--engine", str(slow), "--", "vllm", "serve", "org/model"]
    console = subprocess.Popen(
        [sys.executable, "-m", "tui.cli", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    until(pids.exists)
    console.terminate()
    _, said = console.communicate(timeout=60)
    assert console.returncode == 143
    assert "Traceback" not in said
    started = [int(pid) for pid in pids.read_text(encoding="utf-8").split()]
    assert len(started) == 2, "the script and its child"
    until(lambda: not any(is_running(pid) for pid in started))


def is_running(pid: int) -> bool:
    process = process_tree.read_one(pid)
    return process is not None and process.state not in "ZX"


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "still not so"
        time.sleep(0.02)


@pytest.mark.parametrize("where", ["model", "template"])
def test_a_path_too_long_to_be_one_is_taken_as_the_text_that_it_is(tmp_path: Path, where: str) -> None:
    long = "x" * 300
    args = f"    args: {{chat-template: '{long}'}}\n" if where == "template" else ""
    path = tmp_path / "deployment.yaml"
    path.write_text(
        f"models:\n  - name: m\n    model: {long if where == 'model' else 'org/m'}\n{args}", encoding="utf-8"
    )
    [launch] = read_deployment(path).models
    assert long in (launch.model, launch.arg("chat-template"))


def test_secrets_are_in_no_word_that_is_shown_or_kept(tmp_path: Path) -> None:
    path = tmp_path / "deployment.yaml"
    path.write_text(
        "models:\n  - name: m\n    model: org/m\n    args:\n      api-key:\n        - PLAINSECRET1\n"
        "    env:\n      GITHUB_TOKEN: >\n        PLAINSECRET2\n",
        encoding="utf-8",
    )
    deployment = read_deployment(path)
    case = new_case(tmp_path, date(2026, 11, 29))
    case.keep_deployment(deployment, "before")
    shown = arguments(deployment.models[0]) + "".join(p.read_text("utf-8") for p in case.path.iterdir())
    assert "PLAINSECRET" not in shown
