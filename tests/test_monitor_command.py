"""`vllm-console monitor` as a person and a script meet it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from fake_gpus import FakeGpu, FakeProcess
from readings import NOW, known, reading, serving, with_gpus
from terminals import PROGRAM as ON_TERMINAL
from terminals import on_terminal

from engine_probe.hardware import watch as watch_module
from tui import cli, failures
from tui.commands import monitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fake_gpus import FakeDriver

    from engine_probe.hardware.reading import Reading

PROGRAM = [sys.executable, "-m", "tui.cli", "monitor"]
FULL = FakeGpu(used_gib=71.75, utilization_percent=87, temperature_celsius=64, power_watts=312)


def run(driver: FakeDriver, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = driver.env() | more
    return subprocess.run(
        [*PROGRAM, *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.fixture
def two_gpus(fake_driver: FakeDriver) -> FakeDriver:
    fake_driver.show(replace(FULL, processes=(FakeProcess(os.getpid(), 71.5),)), FakeGpu())
    return fake_driver


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Callable[[Reading], None]:
    """The command looks at this reading."""
    return lambda one: monkeypatch.setattr(watch_module, "look_once", lambda: one)


def end_of(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["monitor", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_once_prints_the_gpus_of_this_host(two_gpus: FakeDriver) -> None:
    ended = run(two_gpus, "--once")
    assert ended.stderr == ""
    assert "2 GPUs · driver 580.65.06 · CUDA 13.0" in ended.stdout.splitlines()[0]
    assert "71.8 / 80.0" in ended.stdout
    assert f"(pid {os.getpid()}) 71.5" in ended.stdout


def test_without_a_terminal_and_options_it_prints_once(two_gpus: FakeDriver) -> None:
    ended = run(two_gpus)
    assert ended.returncode in (0, 1)
    assert ended.stdout.count("used / GiB") == 1


def test_once_as_json_is_one_object_with_the_same(two_gpus: FakeDriver) -> None:
    ended = run(two_gpus, "--once", "--json")
    found = json.loads(ended.stdout)
    assert ended.stdout.count("\n") == 1
    assert (found["schema"], [one["used_gib"] for one in found["gpus"]]) == (1, [71.75, 0.0])
    assert found["gpus"][0]["processes"][0]["pid"] == os.getpid()
    has_error = any(one["severity"] == "error" for one in found["alerts"])
    assert ended.returncode == int(has_error)
    assert run(two_gpus, "--json").stdout.startswith('{"schema": 1, ')


def test_a_saved_object_is_what_diagnose_takes_as_the_hosts_state(two_gpus: FakeDriver, tmp_path: Path) -> None:
    saved, log = tmp_path / "host.json", tmp_path / "vllm.log"
    saved.write_text(run(two_gpus, "--once", "--json").stdout)
    log.write_text(
        "ERROR 03-02 10:11:46 [core.py:708] ValueError: Free memory on device (7.5/79.25 GiB) on startup is less than "
        "desired GPU memory utilization (0.9, 71.33 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.\n"
    )
    argv = [sys.executable, "-m", "tui.cli", "diagnose", str(log), "--json"]
    from_file = subprocess.run([*argv, "--host-state", str(saved)], capture_output=True, text=True, check=False)
    here = subprocess.run([*argv, "--here"], env=two_gpus.env(), capture_output=True, text=True, check=False)
    assert from_file.returncode == here.returncode == 1, from_file.stderr + here.stderr
    for ended in (from_file, here):
        assert f"pid {os.getpid()}" in ended.stdout or str(os.getpid()) in ended.stdout


def test_the_exit_code_says_whether_something_is_wrong(
    seen: Callable[[Reading], None], capsys: pytest.CaptureFixture[str]
) -> None:
    seen(reading())
    assert end_of("--once") == 0
    seen(reading(servers=(replace(serving(), kv_use_percent=known(99.0)),)))
    assert end_of("--once") == 0
    seen(reading(servers=(replace(serving(), state="orphan"),)))
    assert end_of("--once") == 1
    assert end_of("--once", "--json") == 1
    assert '"playbook": "orphan-engine-holds-gpu"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--once", "--follow"], "--once and --follow exclude each other"),
        (["--once", "--interval", "2"], "--interval goes with --follow"),
        (["--json", "--interval", "2"], "--interval goes with --follow"),
        (["--follow", "--interval", "0"], "0: seconds from 0.1 to 3600 are wanted"),
        (["--follow", "--interval", "nan"], "nan: seconds from 0.1 to 3600 are wanted"),
        (["--follow", "--interval", "soon"], "'soon' is not a valid float"),
        (["--folow"], "--follow"),
    ],
)
def test_bad_usage_is_one_clear_error(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(*words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err


def test_in_ascii_all_is_ascii(two_gpus: FakeDriver) -> None:
    for ended in (run(two_gpus, "--once", "--ascii"), run(two_gpus, "--once", LC_ALL="C", PYTHONIOENCODING="")):
        assert ended.stdout.isascii()
        assert "xxxxxxxx" in ended.stdout
        assert "x others   . free" in ended.stdout


def test_printing_loads_no_screen_and_no_parser_of_playbooks(two_gpus: FakeDriver) -> None:
    code = (
        "import sys\nfrom tui.cli import main\n"
        "try:\n    main(['monitor', '--once', '--json'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], env=two_gpus.env(), capture_output=True, text=True, check=True)
    loaded = set(json.loads(ended.stdout.splitlines()[-1].replace("'", '"')))
    assert loaded.isdisjoint({"textual", "rich", "msgspec", "ruamel", "prometheus_client"})
    assert "click" in loaded


def test_on_a_terminal_it_opens_the_console_on_its_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    import tui.app

    opened: list[dict[str, Any]] = []
    monkeypatch.setattr(monitor, "_has_terminal", lambda: True)
    monkeypatch.setattr(tui.app, "run_console", lambda **options: opened.append(options) or 0)
    assert end_of() == 0
    assert end_of("--interval", "5", "--ascii") == 0
    assert opened == [
        {"start": "monitor", "interval_seconds": 1.0, "ascii_only": None},
        {"start": "monitor", "interval_seconds": 5.0, "ascii_only": True},
    ]


def test_on_a_terminal_the_text_is_as_wide_as_it(two_gpus: FakeDriver, tmp_path: Path) -> None:
    settings = " ".join(f"{name}={value}" for name, value in two_gpus.settings().items())
    with on_terminal(
        f"env -u COLUMNS NO_COLOR=1 {settings} {ON_TERMINAL} monitor --once", tmp_path, columns=60
    ) as terminal:
        assert terminal.wait_for_end() in (0, 1)
    (head,) = [line for line in terminal.drawn.splitlines() if line.startswith("GPU  memory")]
    assert head.split() == ["GPU", "memory", "used", "/", "GiB", "util", "held", "by"]
    (row,) = [line for line in terminal.drawn.splitlines() if "71.8 / 80.0" in line]
    assert len(row) <= 60


@pytest.mark.parametrize("term", ["dumb", ""])
def test_on_a_terminal_that_cannot_be_drawn_on_it_prints(two_gpus: FakeDriver, tmp_path: Path, term: str) -> None:
    settings = " ".join(f"{name}={value}" for name, value in two_gpus.settings().items())
    with on_terminal(f"env {settings} TERM={term} {ON_TERMINAL} monitor", tmp_path) as terminal:
        assert terminal.wait_for_end() in (0, 1)
    assert "71.8 / 80.0" in terminal.drawn


class Following:
    """The command with --follow; what it prints is waited for."""

    def __init__(self, driver: FakeDriver, *words: str) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, "--follow", *words], env=driver.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.fixture
def follow(two_gpus: FakeDriver) -> Iterator[Callable[..., Following]]:
    started: list[Following] = []

    def start(*words: str) -> Following:
        started.append(Following(two_gpus, *words))
        return started[-1]

    yield start
    for one in started:
        with one.process as process:
            process.kill()


def test_follow_as_json_prints_an_object_a_line_as_the_host_changes(
    two_gpus: FakeDriver, follow: Callable[..., Following]
) -> None:
    following = follow("--json", "--interval", "0.1")
    first = json.loads(following.line())
    assert first["gpus"][1]["used_gib"] == 0.0
    two_gpus.show(FULL, FakeGpu(used_gib=33.0))
    found = first
    while found["gpus"][1]["used_gib"] != 33.0:
        later = json.loads(following.line())
        assert later["time"] > found["time"]
        found = later
    two_gpus.say("init 9\n")
    while found["gpus_unavailable"] is None:
        found = json.loads(following.line())
    assert (found["gpus"], following.end(signal.SIGINT)) == ([], (failures.INTERRUPTED, "stopped\n"))


def test_follow_prints_a_block_every_interval_until_it_is_ended(follow: Callable[..., Following]) -> None:
    following = follow("--interval", "0.1")
    heads = 0
    while heads < 2:
        heads += following.line().startswith("GPU  memory")
    assert following.end(signal.SIGTERM) == (128 + signal.SIGTERM, "")


def test_follow_ends_when_nobody_reads_any_more_not_only_at_the_next_look(follow: Callable[..., Following]) -> None:
    following = follow("--json", "--interval", "3600")
    assert json.loads(following.line())["schema"] == 1
    process = following.process
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=60) == failures.BROKEN_PIPE


class Looks:
    """A watch that has seen these readings; then somebody presses Ctrl-C."""

    def __init__(self, *readings: Reading) -> None:
        self._readings = list(readings)
        self.samples = 0
        self.is_closed = False

    def sample(self) -> None:
        self.samples += 1

    def read(self) -> Reading:
        if not self._readings:
            raise KeyboardInterrupt
        return self._readings.pop(0)

    def close(self) -> None:
        self.is_closed = True


def test_follow_sees_what_grows_and_closes_its_watch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = with_gpus(servers=(replace(serving(), preemptions=known(3)),))
    second = replace(with_gpus(servers=(replace(serving(), preemptions=known(8)),)), time=NOW + 1)
    looks = Looks(first, second)
    monkeypatch.setattr(watch_module, "Watch", lambda: looks)
    assert end_of("--follow", "--json", "--interval", "0.1") == failures.INTERRUPTED
    before, after = map(json.loads, capsys.readouterr().out.splitlines())
    assert before["alerts"] == []
    assert "5 requests lost their KV cache" in after["alerts"][0]["text"]
    assert looks.is_closed


def test_between_two_looks_memory_is_asked_more_often() -> None:
    looks: Any = Looks()
    ticks = monitor._ticks(looks, 0.6)
    next(ticks)
    assert looks.samples == 0
    next(ticks)
    assert looks.samples >= 1
