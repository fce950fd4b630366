"""Which processes are a part of vLLM, by their words or the title that they gave themselves, and which only look so."""

from __future__ import annotations

import pytest

from engine_probe.hardware.server_titles import Part, entry_length, part_of

SERVE = ["vllm", "serve", "m"]
SPAWN = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        (SERVE, 2),
        (["/usr/local/bin/vllm", "serve", "m"], 2),
        (["/opt/venv/bin/python3.12", "/opt/venv/bin/vllm", "serve", "m"], 3),
        (["python", "-u", "-X", "faulthandler", "/opt/venv/bin/vllm", "serve", "m"], 6),
        (["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], 3),
        (["python3", "-m", "vllm.entrypoints.cli.main", "serve", "m"], 4),
        (["python3", "-m", "vllm.entrypoints.api_server", "--model", "m"], 3),
        (["python", "/src/vllm/entrypoints/openai/api_server.py", "--model", "m"], 2),
        (["/opt/venv/bin/vllm serve /models/m --port 8001"], 2),
    ],
)
def test_commands_that_start_a_server(words: list[str], entry: int) -> None:
    assert part_of(words) == Part("api_server", None, entry)


@pytest.mark.parametrize(
    "words",
    [
        ["vim", "vllm.py"],
        ["vim", "vllm", "serve"],
        ["grep", "-r", "vllm", "serve"],
        ["grep", "vllm serve"],
        ["tail", "-f", "vllm.log"],
        ["less", "/var/log/vllm/serve"],
        ["bash", "-c", "vllm serve m > log"],
        ["sudo", "vllm", "serve", "m"],
        ["docker", "run", "vllm/vllm-openai", "--model", "m"],
        ["ssh", "host", "vllm", "serve", "m"],
        ["python", "-c", "import vllm; serve()"],
        ["python", "train.py", "vllm", "serve"],
        ["vllm", "bench", "serve", "--model", "m"],
        ["vllm", "--version"],
        ["python", "/opt/bin/vllm-console", "monitor"],
        ["/opt/bin/vllm-console", "probe", "--", "vllm", "serve", "m"],
        ["python", "-c", "import sys; exec(sys.stdin.buffer.read())", "12345"],
        ["python", "/tmp/x/child.zip", "--warm", "5", "[]"],
        ["python", "-c", SPAWN],
        ["tmux", "new", "-s", "VLLM::EngineCore"],
        ["ray::IDLE"],
        ["ray::MyActor.train"],
        ["std::vector"],
        [""],
        [],
    ],
)
def test_what_only_looks_like_one(words: list[str]) -> None:
    assert part_of(words) is None


@pytest.mark.parametrize(
    ("title", "part"),
    [
        ("VLLM::EngineCore", Part("engine_core")),
        ("VLLM::EngineCore_0", Part("engine_core")),
        ("VLLM::EngineCore_DP0", Part("engine_core", 0)),
        ("VLLM::EngineCore_DP3", Part("engine_core", 3)),
        ("VLLM::Worker", Part("worker")),
        ("VLLM::Worker_TP1", Part("worker", 1)),
        ("VLLM::Worker_TP0_EP0", Part("worker", 0)),
        ("VLLM::Worker_DP1_PP0_TP2_EP5", Part("worker", 2)),
        ("VLLM::Worker_PP1", Part("worker", 1)),
        ("VLLM::APIServer_1", Part("api_server", 1)),
        ("VLLM::APIServer_DP2", Part("api_server", 2)),
        ("VLLM::DPCoordinator", Part("helper")),
        ("mine::EngineCore_DP0", Part("engine_core", 0)),
        ("VLLM::EngineCor", Part("engine_core")),
        ("ray::RayWorkerWrapper", Part("ray")),
        ("ray::RayWorkerWrapper.execute_method", Part("ray")),
        ("ray::RayWorkerProc.run", Part("ray")),
        ("ray::WorkerWrapper.__init__", Part("ray")),
    ],
)
def test_titles_of_all_releases(title: str, part: Part) -> None:
    assert part_of((title,)) == part


def test_a_title_tells_no_command() -> None:
    assert entry_length(["VLLM::EngineCore"]) == 0
