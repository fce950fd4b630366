"""The log of a load: whatever happens becomes lines that read like vLLM's own, from byte 0, whatever the disk does."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe import events as ev
from engine_probe.logs.index import open_log
from engine_probe.logs.records import read_text
from engine_probe.run_log import RunLog
from engine_probe.run_log_lines import PROBE_LOGGER, lines_of

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.logs.index_stream import LogLine

AT = 1_796_040_000.25
CLOCK = time.strftime("%m-%d %H:%M:%S", time.localtime(AT))
PROBE = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(AT))},250 - {PROBE_LOGGER} -"
TOKEN = "hf_" + "a1B2c3D4e5" * 3
RECORD = ev.LogRecord(
    "tiny",
    AT,
    level="WARNING",
    logger="vllm.v1.engine.core",
    process="EngineCore",
    pid=12,
    file="core.py",
    line=133,
    message="two\nlines",
)
TEXT = f"(EngineCore pid=12) WARNING {CLOCK} [core.py:133] two"


CASES: list[tuple[ev.Event, tuple[str, ...]]] = [
    (RECORD, (TEXT, f"(EngineCore pid=12) WARNING {CLOCK} [core.py:133] lines")),
    (replace(RECORD, process="MainProcess", message="x"), (f"WARNING {CLOCK} [core.py:133] x",)),
    (replace(RECORD, level="SEVERE", file="", message="x"), (f"(EngineCore pid=12) INFO {CLOCK} [core.py:133] x",)),
    (ev.Text("tiny", AT, line="INFO:     Started server process [1]"), ("INFO:     Started server process [1]",)),
    (ev.Text("tiny", AT, line="\tindented", also_record=True), ("\tindented",)),
    (ev.Text("tiny", AT, line=""), ("",)),
    (ev.ProbeStarted(None, AT, pid=1, python_version="3.11", host="node7"), ("probe runs on node7, Python 3.11",)),
    (ev.Warming(None, AT), ()),
    (ev.Warmed(None, AT, seconds=7.9, vllm_version="0.32.0"), ("engine warmed in 7.9 s: vLLM 0.32.0",)),
    (ev.Preflight("tiny", AT), ()),
    (
        ev.Started("tiny", AT, grade="cold", pid=7, argv=["vllm", "serve", "m"], notes=["port 8000 is taken"]),
        ("cold load of tiny started, pid 7: vllm serve m", "  port 8000 is taken"),
    ),
    (ev.StageEntered("tiny", AT), ()),
    (ev.StageLeft("tiny", AT), ()),
    (ev.MemorySample("tiny", AT), ()),
    (ev.ConfigBuilt("tiny", AT, seconds=2.0), ("the configuration of tiny was built in 2.0 s",)),
    (ev.Ready("tiny", AT, seconds=18.2), ("Application startup complete: tiny answers after 18.2 s",)),
    (ev.RequestAnswered("tiny", AT, path="/health", status=200, seconds=0.04), ("request /health: 200 in 0.0 s",)),
    (ev.RequestAnswered("tiny", AT, path="/health", error="refused"), ("ERROR - request /health: refused",)),
    (
        ev.BurstAnswered("tiny", AT, path="/health", at_once=4, seconds=1.04, answered=80, failed=1),
        ("requests /health, 4 at once for 1.0 s: 80 answered, 1 failed",),
    ),
    (
        ev.Failed("tiny", AT, reason="it exited with code 1", seconds=8.0),
        ("ERROR - load of tiny failed after 8.0 s: it exited with code 1",),
    ),
    (
        ev.Hung("tiny", AT, 60.0, [{"pid": 3, "name": "Worker", "stack": ["a\nb"], "unavailable": None}]),
        ("ERROR - nothing has moved for 60 s", "  Worker (pid 3): stands at", "    a", "    b"),
    ),
    (ev.Ended("tiny", AT), ("load of tiny over, cleaned up",)),
    (
        ev.Ended("tiny", AT, left_behind=["/dev/shm/x"]),
        ("WARNING - load of tiny over, cleaned up; left behind: /dev/shm/x",),
    ),
    (ev.Trouble("tiny", AT, text="odd\nline"), ("WARNING - probe: odd", "  line")),
    (ev.Trouble(None, AT, text="lost", fatal=True), ("ERROR - probe: lost",)),
]


@pytest.mark.parametrize(("event", "lines"), CASES)
def test_lines_of_each_kind(event: ev.Event, lines: tuple[str, ...]) -> None:
    found = lines_of(event)
    if lines and not isinstance(event, (ev.Text, ev.LogRecord)):
        first = lines[0] if " - " in lines[0] else f"INFO - {lines[0]}"
        lines = (f"{PROBE} {first}", *lines[1:])
    assert found == lines


def test_every_kind_of_event_has_been_thought_of() -> None:
    assert {type(event) for event, _ in CASES} == set(ev.Event.__subclasses__())


@pytest.mark.parametrize(
    "event",
    [
        ev.Text(line=f"login with {TOKEN}"),
        replace(RECORD, message=f"Authorization: Bearer {TOKEN}"),
        replace(RECORD, exception=[{"type": "OSError", "message": f"401 for {TOKEN}", "frames": []}]),
        ev.Started(argv=["vllm", "serve", "m", "--api-key", "very-secret-1", TOKEN]),
        ev.Trouble(text=f"HF_TOKEN={TOKEN}"),
        ev.Failed(reason=f"cannot open https://user:{TOKEN}@host/"),
    ],
)
def test_no_secret_is_written(event: ev.Event) -> None:
    text = "\n".join(lines_of(event))
    assert "***" in text
    assert TOKEN not in text
    assert "very-secret-1" not in text


HOSTILE = (
    ("\x1b[31mred\x1b[0m \x1b]0;title\x07", ("red ",)),
    ("nul \x00 bell \x07", ("nul ␀ bell ␇",)),
    ("Loading:   0%\rLoading:  50%\rLoading: 100%\r", ("Loading: 100%",)),
    ("WARNING of its own\rLoading: 100%", ("WARNING of its own", "Loading: 100%")),
    ("\u202eevil", ("<U+202E>evil",)),
    ("lone \udc80 surrogate", ("lone <U+DC80> surrogate",)),
    ("\x1b]0;a title\nthat goes on", ()),
)


@pytest.mark.parametrize(("line", "lines"), HOSTILE)
def test_text_is_data(line: str, lines: tuple[str, ...]) -> None:
    found = lines_of(ev.Text(line=line))
    assert not lines or found == lines
    assert not any(ord(character) < 32 and character != "\t" for one in found for character in one)


@pytest.mark.parametrize("line", [line for line, _ in HOSTILE])
@pytest.mark.parametrize(
    "event",
    [
        RECORD,
        ev.Trouble(),
        ev.Failed(),
        ev.Hung(stacks=[{"pid": 1, "name": "\x1b[2J\n", "stack": ["\x1b[H\x00"], "unavailable": None}]),
    ],
)
def test_no_control_character_comes_through_any_event(event: ev.Event, line: str) -> None:
    names = {"message", "text", "reason", "process", "logger", "file"}
    texts: dict[str, Any] = {name: line for name in names if hasattr(event, name)}
    for one in lines_of(replace(event, **texts)):
        assert not any(ord(character) < 32 and character != "\t" for character in one)


CHAIN = [
    {
        "type": "ValueError",
        "message": "the pool is too small\n  by far",
        "frames": [{"file": "/opt/vllm/v1/core/kv_cache_utils.py", "line": 5, "function": "check_enough"}],
    },
    {
        "type": "RuntimeError",
        "message": "Engine core initialization failed.",
        "frames": [{"file": "/opt/vllm/v1/engine/core.py", "line": 9, "function": "run_engine_core"}],
    },
]


def test_a_traceback_is_read_back_as_one_record_with_its_chain() -> None:
    failed = replace(RECORD, level="ERROR", message="EngineCore failed to start.", exception=CHAIN)
    text = "\n".join((*lines_of(ev.ProbeStarted(time=AT)), *lines_of(failed), *lines_of(ev.Ended("tiny", AT))))
    records = read_text([text])
    assert [record.level for record in records] == ["INFO", "ERROR", "INFO"]
    assert [record.layer for record in records] == ["outside", "engine", "outside"]
    assert records[1].process == "EngineCore"
    chain = [one for chain in records[1].chains for one in chain]
    assert [one.type for one in chain] == ["ValueError", "RuntimeError"]
    assert [frame.function for one in chain for frame in one.frames] == ["check_enough", "run_engine_core"]


def written(path: Path, *events: ev.Event) -> list[str]:
    log = RunLog()
    log.open(path)
    for event in events:
        log.add(event)
    log.close()
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("order", ["record first", "text first"])
def test_what_was_printed_and_logged_stands_there_once(tmp_path: Path, order: str) -> None:
    texts = [
        ev.Text("tiny", AT, line=TEXT, also_record=True),
        ev.Text("tiny", AT, line=TEXT.replace("] two", "] lines"), also_record=True),
    ]
    events = [RECORD, *texts] if order == "record first" else [*texts, RECORD]
    assert written(tmp_path / "log", *events) == [text.line for text in texts]


def test_a_record_that_comes_twice_is_printed_twice(tmp_path: Path) -> None:
    text = ev.Text("tiny", AT, line=TEXT, also_record=True)
    lines = written(tmp_path / "log", RECORD, RECORD, text, text, RECORD)
    assert lines.count(TEXT) == 3


def test_a_record_whose_text_was_dropped_is_written_all_the_same(tmp_path: Path) -> None:
    later = ev.Text("tiny", AT + 5, line="later")
    assert written(tmp_path / "log", RECORD, later) == ["later", *lines_of(RECORD)]
    assert written(tmp_path / "ended", RECORD, ev.Ended("tiny", AT))[:2] == list(lines_of(RECORD))


def test_what_only_looks_like_a_record_is_kept(tmp_path: Path) -> None:
    line = "INFO:     Application startup complete."
    assert written(tmp_path / "log", ev.Text("tiny", AT, line=line, also_record=True)) == [line]


def test_lines_come_in_batches_and_all_of_them(tmp_path: Path) -> None:
    log = RunLog()
    log.add(ev.Text(line="before it was opened"))
    log.open(tmp_path / "log")
    log.add(ev.Text(line="waits"))
    assert (tmp_path / "log").read_text() == "before it was opened\n"
    for number in range(10_000):
        log.add(ev.Text(line=f"line {number}"))
    assert len((tmp_path / "log").read_text()) > 64 * 1024
    log.flush()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == ["before it was opened", "waits", *(f"line {number}" for number in range(10_000))]
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    log.close()


def test_a_full_disk_is_said_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "engine.log").symlink_to("/dev/full")
    log = RunLog()
    log.open(tmp_path / "engine.log")
    for number in range(50_000):
        log.add(ev.Text(line=f"a line that the disk does not take, number {number}"))
    log.close()
    log.close()
    assert log.trouble is not None
    assert "No space left on device" in log.trouble


def test_what_a_full_disk_did_not_take_is_counted_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RunLog()
    log.open(tmp_path / "log")
    with monkeypatch.context() as patch:
        patch.setattr("engine_probe.run_log.os.write", _full)
        for number in range(50_000):
            log.add(ev.Text(line=f"a line that the disk does not take, number {number}"))
    log.add(ev.Text(line="there is room again"))
    log.close()
    lines = (tmp_path / "log").read_text().splitlines()
    kept = len(lines) - 2
    assert lines[-1] == "there is room again"
    assert lines[-2].endswith(f"{50_000 - kept:,} lines could not be kept here")


def _full(_file: int, _content: bytes) -> int:
    raise OSError(28, "No space left on device")


def test_without_a_folder_the_log_is_private_and_goes_when_it_is_closed(tmp_path: Path) -> None:
    log = RunLog()
    log.open(tmp_path / "no such folder" / "log")
    assert log.trouble is not None
    assert log.path is not None
    assert log.path.stat().st_mode & 0o777 == 0o600
    log.add(ev.Text(line="kept"))
    log.flush()
    assert log.path.read_text() == "kept\n"
    log.close()
    assert not log.path.exists()


LOAD = (
    "(APIServer pid=2601) INFO 11-29 17:38:40 [api_utils.py:286] non-default args: {'model': 'tiny-llama', 'port': 1}",
    "(EngineCore pid=2620) INFO 11-29 17:38:55 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: "
    "model='tiny-llama', dtype=torch.bfloat16, max_seq_len=4096, load_format=auto, tensor_parallel_size=1",
    "(Worker pid=2632) INFO 11-29 17:39:03 [parallel_state.py:1906] world_size=1 rank=0 local_rank=0 "
    "distributed_init_method=file:///tmp/x backend=gloo",
    "(Worker pid=2632) INFO 11-29 17:39:03 [cpu_model_runner.py:68] Starting to load model tiny-llama...",
)


def load_of(pid: int, end: ev.Event) -> list[ev.Event]:
    started = ev.Started("tiny", AT, pid=pid, argv=["vllm", "serve", "tiny-llama"])
    lines = [ev.Text("tiny", AT, line=line.replace("pid=26", f"pid={pid}")) for line in LOAD]
    return [started, *lines, end, ev.Ended("tiny", AT)]


def test_layers_and_stages_are_those_of_vllm_s_lines_alone(tmp_path: Path) -> None:
    events = load_of(41, ev.Failed("tiny", AT, reason="it exited with code 1")) + load_of(42, ev.Ready("tiny", AT))
    lines = written(tmp_path / "engine.log", ev.ProbeStarted(None, AT), *events)
    log = open_log(tmp_path / "engine.log")
    while not log.advance():
        pass
    stages = [(lines[at].partition("] ")[2][:12], stage) for at, stage in log.stage_changes()]
    log.close()
    serving = [pair for pair in stages if pair[1] == "serving"]
    assert len(serving) == 1
    once = [
        ("Initializing", "engine_build"),
        ("world_size=1", "distributed_init"),
        ("Starting to ", "weight_load"),
    ]
    told = [pair for pair in stages if pair[1] != "config"]
    assert [pair for pair in told if pair not in serving] == once * 2
    read = {line.text: line for line in _lines(tmp_path / "engine.log")}
    assert {read[line].layer for line in lines if PROBE_LOGGER in line} == {"outside"}
    assert [read[line].layer for line in lines if line.startswith("(")][:4] == [
        "frontend",
        "engine",
        "worker",
        "model_runner",
    ]


def _lines(path: Path) -> list[LogLine]:
    log = open_log(path)
    while not log.advance():
        pass
    found = log.lines(0, log.line_count)
    log.close()
    return found
