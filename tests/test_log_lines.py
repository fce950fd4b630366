"""One line at a time: vLLM's own shapes, the other writers', and what containers and journals put in front."""

from __future__ import annotations

import json

import pytest

from engine_probe.logs.lines import Line, read_line
from engine_probe.logs.shapes import read_shapes, shapes

PLAIN = "(EngineCore_DP0 pid=4711) INFO 03-02 10:11:12 [core.py:97] Starting to load model acme/m-7b..."


def told(line: Line) -> tuple[object, ...]:
    return line.level, line.file, line.line, line.process, line.pid, line.message


def test_a_shape_without_brackets() -> None:
    line = read_line("INFO 03-02 10:11:12 model_runner.py:1097] Starting to load model acme/m-7b...")
    assert told(line) == ("INFO", "model_runner.py", 1097, None, None, "Starting to load model acme/m-7b...")
    assert (line.format, line.time) == ("vllm_0.7", "03-02 10:11:12")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(VllmWorker rank=1 pid=7) ERROR 03-02 10:11:12 [v1/engine/core.py:866] bad", ("VllmWorker rank=1", 7, 1)),
        ("(EngineCore pid=2620) ERROR 11-29 17:39:04 [utils.py:347] bad", ("EngineCore", 2620, None)),
        ("(Worker_DP0_TP1_EP1 pid=9) ERROR 03-02 10:11:12 [a.py:1] bad", ("Worker_DP0_TP1_EP1", 9, None)),
        ("(RayWorkerWrapper pid=3, ip=10.0.0.2) ERROR 03-02 10:11:12 a.py:1] bad", ("RayWorkerWrapper", 3, None)),
        ("(RayWorkerProc pid=3) (Worker_TP0 pid=9) ERROR 03-02 10:11:12 [a.py:1] bad", ("Worker_TP0", 9, None)),
        ("(pid=8) (VllmWorkerProcess pid=9) ERROR 03-02 10:11:12 [a.py:1] bad", ("VllmWorkerProcess", 9, None)),
        ("\x1b[1;36m(EngineCore_0 pid=5)\x1b[0;0m ERROR 03-02 10:11:12 [a.py:1] bad", ("EngineCore_0", 5, None)),
        (
            "\x1b[0;36m(APIServer pid=5)\x1b[0;0m \x1b[31mERROR\x1b[0m \x1b[90m03-02 10:11:12\x1b[0m "
            "\x1b[90m[a.py:1]\x1b[0m bad",
            ("APIServer", 5, None),
        ),
        ("my prefix ERROR 03-02 10:11:12 [a.py:1] bad", (None, None, None)),
        ("(Worker_TP1 pid=5) my prefix: ERROR 03-02 10:11:12 [a.py:1] bad", ("Worker_TP1", 5, None)),
        ("my prefix (EngineCore pid=5) ERROR 03-02 10:11:12 [a.py:1] bad", ("EngineCore", 5, None)),
    ],
)
def test_process_tags(text: str, wanted: tuple[str | None, int | None, int | None]) -> None:
    line = read_line(text)
    assert (line.level, line.message) == ("ERROR", "bad")
    assert (line.process, line.pid, line.rank) == wanted


WRAPPERS = {
    "docker -t": ("2026-03-02T10:11:12.123456789Z {}", None),
    "kubectl --timestamps --prefix": (
        "[pod/vllm-7c9f-abcde/server] 2026-03-02T10:11:12.1Z {}",
        "vllm-7c9f-abcde/server",
    ),
    "cri": ("2026-03-02T10:11:12.123456789+00:00 stdout F {}", None),
    "compose": ("vllm-1  | {}", "vllm"),
    "compose with a name": ("server    | {}", "server"),
    "compose -t": ("vllm-1  | 2026-03-02T10:11:12.123456789Z {}", "vllm"),
    "foreman": ("10:11:12 web.1  | {}", "web"),
    "pm2": ("0|vllm  | {}", "vllm"),
    "journald": ("Mar 02 10:11:12 gpu-host vllm[4711]: {}", "vllm"),
    "journald iso": ("2026-03-02T10:11:12+0000 gpu-host vllm.service[1]: {}", "vllm.service"),
    "tai64n": ("@400000005f5e1000075bcd15 {}", None),
    "supervisor": ("2026-03-02 10:11:12,345 {}", None),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_stands_in_front_is_peeled(name: str) -> None:
    wrapper, source = WRAPPERS[name]
    line = read_line(wrapper.format(PLAIN))
    assert told(line) == told(read_line(PLAIN))
    assert line.source == source
    assert line.time == "03-02 10:11:12"
    assert line.prefixes[-1] == "process"


def test_json_envelopes() -> None:
    docker = json.dumps({"log": PLAIN + "\r\n", "stream": "stdout", "time": "2026-03-02T10:11:12Z"})
    assert told(read_line(docker)) == told(read_line(PLAIN))
    assert read_line(docker).is_continued
    journal = json.dumps({"MESSAGE": PLAIN, "_SYSTEMD_UNIT": "vllm.service", "__REALTIME_TIMESTAMP": "1767225600"})
    assert told(read_line(journal)) == told(read_line(PLAIN))
    assert read_line(journal).source == "vllm.service"
    as_bytes = json.dumps({"MESSAGE": list(PLAIN.encode()), "_SYSTEMD_UNIT": "vllm.service"})
    assert told(read_line(as_bytes)) == told(read_line(PLAIN))


def test_json_records_of_vllm() -> None:
    record = {"asctime": "2026-03-02 10:11:12,345", "levelname": "ERROR", "name": "vllm.v1.engine.core"}
    record |= {"processName": "EngineCore", "process": 4711, "message": "no", "exc_info": "Traceback …"}  # type: ignore[dict-item]
    line = read_line(json.dumps(record))
    assert (line.logger, line.level, line.process, line.pid) == ("vllm.v1.engine.core", "ERROR", "EngineCore", 4711)
    assert line.message == "no\nTraceback …"
    assert read_line('{"prompt": "no record"}').message == '{"prompt": "no record"}'
    assert read_line("{" * 5_000 + "}").message.startswith("{{{")


@pytest.mark.parametrize(
    ("text", "format_name", "level", "message"),
    [
        ("INFO:     Application startup complete.", "uvicorn", "INFO", "Application startup complete."),
        ("\x1b[32mINFO\x1b[0m:     Started server process [7]", "uvicorn", "INFO", "Started server process [7]"),
        ("node7:47:49 [1] NCCL WARN Duplicate GPU", "nccl", "WARNING", "Duplicate GPU"),
        ("[rank1]:[W302 10:11:12.345678901 P.cpp:4115] unused", "torch_cpp", "WARNING", "unused"),
        ("/x/torch/a.py:61: FutureWarning: old", "python_warning", "WARNING", "FutureWarning: old"),
        ("Killed", "shell", None, "Killed"),
        ("Loading:   0%\rLoading: 100%\r\n", None, None, "Loading: 100%"),
        ("2026-03-02 10:11:12,345\tINFO worker.py:1724 -- Started", "ray_log", "INFO", "Started"),
        ("anything at all", None, None, "anything at all"),
        ("", None, None, ""),
    ],
)
def test_other_writers(text: str, format_name: str | None, level: str | None, message: str) -> None:
    line = read_line(text)
    assert (line.format, line.level, line.message) == (format_name, level, message)


def test_a_progress_bar_shows_its_last_state() -> None:
    bar = "Capturing CUDA graphs (decode, FULL):   3%|3  | 1/35 [00:00<00:26,  1.27it/s]"
    line = read_line(f"\r{bar}\r{bar.replace('3%', '9%')}\r")
    assert (line.format, line.message) == ("tqdm_graphs", bar.replace("3%", "9%"))


def test_what_ray_folds_is_counted() -> None:
    line = read_line("(RayWorkerWrapper pid=3) INFO 03-02 10:11:12 a.py:1] hello [repeated 7x across cluster]")
    assert (line.message, line.repeats) == ("hello", 7)


def test_every_shape_is_proved_by_samples() -> None:
    assert {"vllm", "vllm_0.7", "uvicorn", "nccl"} <= {shape.name for shape in shapes()}
    wrong = "line\tx\t-\t(?P<message>a+)\n\tbbb\n"
    with pytest.raises(ValueError, match=r"formats\.tsv:2: x does not match"):
        list(read_shapes(wrong))
    with pytest.raises(ValueError, match=r"formats\.tsv:2: x yields message='aa'"):
        list(read_shapes(wrong.replace("bbb", "aa\tmessage=a")))
    with pytest.raises(ValueError, match=r"formats\.tsv:1: the pattern does not compile"):
        list(read_shapes("line\tx\t-\t("))
    with pytest.raises(ValueError, match=r"formats\.tsv:1: 3 columns"):
        list(read_shapes("line\tx\t-"))
