"""Records of several lines, exceptions and their chains, and who printed them, while processes interleave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_log_lines import WRAPPERS
from vllm_lines import RELEASES, printed

from engine_probe.logs.records import Reader, Record, read_text
from engine_probe.logs.stages import Wordings, read_wordings
from engine_probe.logs.tracebacks import JOINED

DATA = Path(__file__).parent / "data"
CORE = "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py"
LOADER = "/opt/venv/lib/python3.12/site-packages/vllm/model_executor/model_loader/weight_utils.py"


@pytest.fixture(scope="module")
def wordings() -> Wordings:
    return read_wordings()


def read(text: str, version: str | None = None) -> list[Record]:
    return read_text([text], version)


def traceback(error: str, *frames: tuple[str, str]) -> str:
    lines = ["Traceback (most recent call last):"]
    for file, function in frames:
        lines += [f'  File "{file}", line 7, in {function}', "    call()"]
    return "\n".join([*lines, error])


FAILURE = "EngineCore failed to start.\n" + traceback("ValueError: no room", (CORE, "run_engine_core"), (LOADER, "get"))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("returns", [True, False])
def test_a_traceback_of_the_logger_is_one_record(release: str, returns: bool) -> None:
    text = printed(release, "core.py", 866, "ERROR", FAILURE, kind="engine") + "\n"
    text += printed(release, "core.py", 866, "INFO", "hello", kind="engine") + "\n"
    first, second = read(text if returns else text.replace("\r", ""), release)
    assert (first.first_line, first.last_line, first.message) == (1, 7, "EngineCore failed to start.")
    ((raised,),) = first.chains
    assert (raised.type, raised.message, raised.text) == ("ValueError", "no room", "ValueError: no room")
    assert [(frame.file, frame.function) for frame in raised.frames] == [(CORE, "run_engine_core"), (LOADER, "get")]
    assert (first.layer, first.level, second.message) == ("model_runner", "ERROR", "hello")


def test_two_records_of_one_place_and_second() -> None:
    lines = [printed("0.11.2", "launcher.py", 31, "INFO", text) for text in ("Route: /a\nMethods: GET", "Route: /b")]
    assert [one.message for one in read("\n".join(lines))] == ["Route: /a\nMethods: GET", "Route: /b"]
    # without carriage returns only a first line that comes again, or a second traceback, tells them apart
    twice = "\n".join([printed("0.11.2", "core.py", 3, "ERROR", FAILURE)] * 2).replace("\r", "")
    assert [one.message for one in read(twice)] == ["EngineCore failed to start."] * 2


def test_a_chain_that_begins_a_record_is_one_record() -> None:
    chained = traceback("KeyError: 'a'") + f"\n\n{JOINED[1]}\n\n" + traceback("ValueError: no a")
    (record,) = read(printed("0.11.2", "serving.py", 3, "ERROR", chained).replace("\r", ""))
    assert [[raised.text for raised in chain] for chain in record.chains] == [["KeyError: 'a'", "ValueError: no a"]]


def test_processes_interleave_line_by_line() -> None:
    def worker(pid: int, error: str) -> list[str]:
        message = "WorkerProc failed to start.\n" + traceback(error, (LOADER, "load_model"))
        return (
            printed("0.16.0", "multiproc_executor.py", 772, "ERROR", message, "worker")
            .replace("4711", str(pid))
            .split("\n")
        )

    mixed = [line for pair in zip(worker(1, "ValueError: a"), worker(2, "KeyError: 'b'"), strict=True) for line in pair]
    records = read("\n".join(mixed))
    assert [(one.pid, one.chains[0][0].text) for one in records] == [(1, "ValueError: a"), (2, "KeyError: 'b'")]
    assert {one.stage for one in records} == {"weight_load"}


def test_a_bare_traceback_behind_a_stream_prefix() -> None:
    text = traceback("RuntimeError: CUDA error\nCompile with `TORCH_USE_CUDA_DSA`", (CORE, "f"))
    prefixed = "\n".join(f"(EngineCore_0 pid=5) {line}" for line in text.split("\n"))
    (record,) = read(prefixed)
    assert record.message == "RuntimeError: CUDA error\nCompile with `TORCH_USE_CUDA_DSA`"
    assert (record.process, record.pid, record.layer) == ("EngineCore_0", 5, "engine")


def test_a_traceback_whose_beginning_is_not_in_the_log() -> None:
    whole = traceback("acme.hub.OfflineIsOn: no network", (CORE, "g"), (LOADER, "f"))
    lines = whole.split("\n")
    for cut in range(1, len(lines) - 2):
        records = read("\n".join(lines[cut:]))
        told = next(one for one in records if one.chains).chains[0][0]
        assert (told.text, told.is_cut) == ("OfflineIsOn: no network", True), cut
        assert told.frames[-1].file == LOADER
    (record,) = read(whole)
    assert not record.chains[0][0].is_cut


def test_the_chain_is_told_innermost_first() -> None:
    cause, cover = traceback("KeyError: 'x'", (LOADER, "f")), traceback("RuntimeError: wrapped", (CORE, "g"))
    between = "\n\nThe above exception was the direct cause of the following exception:\n\n"
    (record,) = read(cause + between + cover)
    assert [one.text for one in record.chains[0]] == ["KeyError: 'x'", "RuntimeError: wrapped"]
    assert record.layer == "model_runner"


def test_an_exception_told_inside_a_message_is_its_cause() -> None:
    inner = traceback("OSError: no space", (LOADER, "f"))
    (record,) = read(traceback("RuntimeError: Error raised in subprocess:\n" + inner, (CORE, "g")))
    assert [one.text.split("\n")[0] for one in record.chains[0]] == [
        "OSError: no space",
        "RuntimeError: Error raised in subprocess:",
    ]


def test_what_ray_repeats_of_another_process() -> None:
    text = traceback(
        "ray.exceptions.RayTaskError(ValueError): ray::RayWorkerWrapper.execute_method() (pid=9)", (CORE, "g")
    )
    text += f'\n  File "{LOADER}", line 3, in load\n    x()\nValueError: bad weights'
    (record,) = read(text)
    assert [one.type for one in record.chains[0]] == ["ValueError", "ray.exceptions.RayTaskError(ValueError)"]


def test_pydantic_says_it_on_the_next_lines() -> None:
    text = traceback(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, User-specified max_model_len (9) is greater than 8 [type=value_error, input_type=ArgsKwargs]\n"
        "    For further information visit https://errors.pydantic.dev/2.14/v/value_error",
        (CORE.replace("v1/engine/core", "config/model"), "f"),
    )
    (record,) = read(text)
    assert "User-specified max_model_len (9)" in record.chains[0][0].message
    assert (record.layer, record.stage) == ("frontend", "config")


def test_an_exception_group() -> None:
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        f'  |   File "{CORE}", line 3, in f\n'
        "  |     x()\n"
        "  | ExceptionGroup: several (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        f'    |   File "{LOADER}", line 3, in g\n'
        "    | ValueError: inner\n"
        "    +------------------------------------"
    )
    records = read(text)
    assert "ValueError: inner" in [one.text for record in records for chain in record.chains for one in chain]


def test_rank_tagged_tracebacks() -> None:
    text = "\n".join(
        "[rank1]: " + line
        for line in traceback("torch.distributed.DistBackendError: NCCL error", (CORE, "f")).split("\n")
    )
    (record,) = read(text)
    assert (record.rank, record.chains[0][0].message) == (1, "NCCL error")


def test_the_rank_is_learned_from_what_the_worker_says() -> None:
    lines = [
        "(Worker pid=7) INFO 03-02 10:11:12 [parallel_state.py:9] world_size=4 rank=3 local_rank=1 "
        "distributed_init_method=tcp://127.0.0.1:1 backend=nccl",
        "(Worker_PP1_TP1 pid=7) INFO 03-02 10:11:12 [gpu_model_runner.py:9] hello",
        "(Worker_TP2 pid=8) INFO 03-02 10:11:12 [gpu_model_runner.py:9] hello",
        "(Worker_PP1_TP0 pid=9) INFO 03-02 10:11:12 [gpu_model_runner.py:9] hello",
        "(VllmWorker-1 pid=10) INFO 03-02 10:11:12 [gpu_model_runner.py:9] hello",
    ]
    assert [one.rank for one in read("\n".join(lines))] == [3, 3, 2, None, 1]


def test_bare_lines_of_new_releases_get_an_owner_that_is_marked_as_inferred() -> None:
    start = "(APIServer pid=1) INFO 03-02 10:11:12 [a.py:1] vLLM server version 0.32.0, serving model m\n"
    start += "(EngineCore pid=2) INFO 03-02 10:11:13 [core.py:1] hello\n"
    engine, client = (
        traceback("ValueError: a", (CORE, "run_engine_core")),
        traceback("RuntimeError: b", (CORE.replace("v1/engine/core", "entrypoints/cli/main"), "main")),
    )
    records = read(start + engine + "\n\n" + client + "\nINFO:     Shutting down\n")
    told = [(one.process, one.is_process_inferred) for one in records]
    assert told[2:] == [("EngineCore", True), ("APIServer", True), ("APIServer", True)]
    older = read((start + engine).replace("0.32.0", "0.20.2"))
    assert (older[-1].process, older[-1].is_process_inferred) == (None, False)


def test_a_warning_keeps_its_code_line_and_nothing_else() -> None:
    text = (
        "/opt/venv/lib/python3.12/site-packages/torch/cuda/__init__.py:129: UserWarning: no driver\n"
        "  return torch._C._cuda_getDeviceCount() > 0\n" + traceback("RuntimeError: x", (CORE, "f"))
    )
    warning, failure = read(text)
    assert (warning.layer, warning.level, warning.last_line) == ("outside", "WARNING", 2)
    assert failure.chains[0][0].text == "RuntimeError: x"


def test_progress_bars_interrupt_nothing() -> None:
    bar = "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:02<00:07,  2.41s/it]"
    error = traceback("ValueError: x", (CORE, "f")).split("\n")
    records = read("\n".join([*error[:2], bar, *error[2:]]))
    assert [(one.layer, one.stage) for one in records if one.format] == [("model_runner", "weight_load")]
    assert [one.chains[0][0].text for one in records if one.chains] == ["ValueError: x"]


def test_lines_that_are_not_understood_are_kept() -> None:
    assert [one.message for one in read("what is this\n  more of it\n\nand that\n")] == [
        "what is this\n  more of it",
        "and that",
    ]


def test_the_logo_is_one_record_that_tells_release_and_model() -> None:
    records = read_text([(DATA / "vllm-0.32.0-cpu-ready.log").read_bytes()])
    logo = next(one for one in records if "engine.vllm_version" in one.facts)
    assert (logo.facts["engine.vllm_version"], logo.enters, logo.layer) == ("0.32.0", "config", "frontend")


def content(record: Record) -> tuple[object, ...]:
    where = (record.first_line, record.last_line, record.process, record.pid, record.rank)
    return *where, record.level, record.layer, record.stage, record.message, record.chains, record.facts


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_stands_in_front_changes_no_record(wordings: Wordings, name: str) -> None:
    text = (DATA / "vllm-0.32.0-cpu-kv-too-small.log").read_text(encoding="utf-8")
    wrapper, source = WRAPPERS[name]
    wrapped = "\n".join(wrapper.format(line) for line in text.split("\n"))
    records = read_text([wrapped], wordings=wordings)
    assert {one.source for one in records} == {source}
    assert [content(one) for one in records] == [content(one) for one in read_text([text], wordings=wordings)]


def test_docker_json_files_change_no_record(wordings: Wordings) -> None:
    text = (DATA / "vllm-0.32.0-cpu-kv-too-small.log").read_text(encoding="utf-8")
    lines = [
        json.dumps({"log": line + "\n", "stream": "stdout", "time": "2026-03-02T10:11:12Z"})
        for line in text.split("\n")
    ]
    records = read_text(["\n".join(lines)], wordings=wordings)
    assert [content(one) for one in records] == [content(one) for one in read_text([text], wordings=wordings)]


def test_a_record_comes_out_when_it_is_complete(wordings: Wordings) -> None:
    reader = Reader(wordings=wordings)
    assert reader.feed(1, "(EngineCore pid=2) INFO 03-02 10:11:13 [core.py:1] one") == []
    assert [one.message for one in reader.feed(2, "(EngineCore pid=2) INFO 03-02 10:11:13 [core.py:2] two")] == ["one"]
    assert [one.message for one in reader.finish()] == ["two"]
    assert reader.finish() == []
