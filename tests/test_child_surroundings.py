"""What a load gets around it: arguments read as vLLM reads them, ports, environment, logging config."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from engine_probe.child import log_tap
from engine_probe.child.surroundings import argument, command, read_at_import, surround


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("--max-model-len 8", "8"),
        ("--max_model_len 8", "8"),
        ("--max-model-len=8", "8"),
        ("--max_model_len=a=b", "a=b"),
        ("--max-model-len 8 --max_model_len=9", "9"),
        ("--max-model-len", None),
        ("--max-model-length 8", None),
        ("", None),
    ],
)
def test_an_argument_is_found_in_each_of_its_forms(words: str, value: str | None) -> None:
    assert argument(["vllm", "serve", *words.split()], "--max-model-len") == value


def test_leavings_go_into_the_private_folder_and_caches_do_not(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    env = surround({}, ["vllm", "serve", "m"], str(private), 1).env
    assert env["TMPDIR"] == env["VLLM_RPC_BASE_PATH"] == str(private)
    assert Path(env["TORCHINDUCTOR_CACHE_DIR"]).parent == tmp_path


def test_an_own_temporary_folder_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    env = surround({"TMPDIR": "/mine", "VLLM_RPC_BASE_PATH": "/sockets"}, ["vllm"], str(tmp_path), 1).env
    assert (env["TMPDIR"], env["VLLM_RPC_BASE_PATH"]) == ("/mine", "/sockets")
    assert "TORCHINDUCTOR_CACHE_DIR" not in env


def test_the_consoles_own_settings_stay_away_from_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_CONSOLE_ENGINE", "x")
    monkeypatch.setenv("VLLM_USE_V1", "1")
    env = surround({"HF_HUB_OFFLINE": "1"}, ["vllm"], str(tmp_path), 1).env
    assert "VLLM_CONSOLE_ENGINE" not in env
    assert (env["VLLM_USE_V1"], env["HF_HUB_OFFLINE"]) == ("1", "1")


def test_each_load_is_tapped_with_its_own_level_and_channel(tmp_path: Path) -> None:
    around = surround({"VLLM_LOGGING_LEVEL": "debug", "PYTHONPATH": "/mine"}, ["vllm"], str(tmp_path), 3)
    assert around.tapped
    assert around.env[log_tap.CHANNEL_VARIABLE] == around.channel == str(tmp_path / "records-3")
    assert around.env["PYTHONPATH"] == os.pathsep.join([str(tmp_path), "/mine"])
    config = json.loads(Path(around.env["VLLM_LOGGING_CONFIG_PATH"]).read_text())
    assert config["loggers"]["vllm"]["level"] == "DEBUG"
    assert config["handlers"]["vllm"]["()"] == "vllm_console_log_tap.tapped_handler"


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"VLLM_LOGGING_CONFIG_PATH": "/mine.json"}, []),
        ({"VLLM_CONFIGURE_LOGGING": "0"}, []),
        ({}, ["--log-config-file", "/mine.json"]),
        ({}, ["--log_config_file=/mine.json"]),
    ],
)
def test_a_launch_that_configures_logging_itself_is_left_alone(
    env: dict[str, str], words: list[str], tmp_path: Path
) -> None:
    around = surround(env, ["vllm", "serve", "m", *words], str(tmp_path), 1)
    assert not around.tapped
    assert around.env.get("VLLM_LOGGING_CONFIG_PATH") == env.get("VLLM_LOGGING_CONFIG_PATH")
    assert around.notes == ["the launch configures vLLM's logging itself: no structured records, text only"]
    assert list(tmp_path.iterdir()) == []


def test_what_is_read_at_import_is_known_by_name() -> None:
    env = {"HF_HUB_OFFLINE": "1", "LD_PRELOAD": "x.so", "TMPDIR": "/t", "VLLM_LOGGING_LEVEL": "DEBUG", "CUDA": "0"}
    assert read_at_import(env) == {"HF_HUB_OFFLINE": "1", "LD_PRELOAD": "x.so", "TMPDIR": "/t"}


def test_a_command_runs_with_this_interpreter() -> None:
    assert command(["python3", "-m", "vllm.entrypoints.openai.api_server", "--port", "1"]) == [
        sys.executable,
        *["-m", "vllm.entrypoints.openai.api_server", "--port", "1"],
    ]


def test_vllm_is_the_script_beside_the_interpreter_or_else_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, script = tmp_path / "python", tmp_path / "vllm"
    monkeypatch.setattr(sys, "executable", str(python))
    assert command(["vllm", "serve", "m"]) == [str(python), "-m", "vllm.entrypoints.cli.main", "serve", "m"]
    script.touch(mode=0o755)
    assert command(["/elsewhere/vllm", "serve", "m"]) == [str(script), "serve", "m"]
