"""Folds: which lines of a log are one traceback, which line tells its cause, and what is shown when it is closed."""

from __future__ import annotations

import gc
import random
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from vllm_log_samples import SHAPES

from engine_probe.logs.folds import Fold, Folds
from engine_probe.logs.index import LogIndex, open_log
from engine_probe.logs.open_traceback import QuickReader
from engine_probe.logs.records import read_text
from engine_probe.logs.tracebacks import JOINED
from engine_probe.logs.tracebacks import START as _START

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.logs.lines import Line

_WHERE = "(EngineCore_0 pid=12) ERROR 11-29 10:00:02 [core.py:708]"
_LINES = f"""\
(APIServer pid=9) INFO 11-29 10:00:01 [api_server.py:1977] vLLM API server version 0.11.2
{_WHERE} EngineCore failed to start.
{_WHERE} Traceback (most recent call last):
{_WHERE}   File "/x/vllm/v1/engine/core.py", line 699, in run_engine_core
(APIServer pid=9) INFO 11-29 10:00:02 [utils.py:1] Waiting for 1 local, 0 remote core engine proc(s) to start.
{_WHERE}     engine_core = EngineCoreProc(*args, **kwargs)
{_WHERE} ValueError: To serve at least one request, 8.0 GiB KV cache is needed.
(EngineCore_0 pid=12) Process EngineCore_0:
(EngineCore_0 pid=12) Traceback (most recent call last):
(EngineCore_0 pid=12)   File "/x/vllm/v1/engine/core.py", line 712, in run_engine_core
(EngineCore_0 pid=12)     raise e
(EngineCore_0 pid=12) ValueError: To serve at least one request, 8.0 GiB KV cache is needed.
(APIServer pid=9) Traceback (most recent call last):
(APIServer pid=9)   File "/x/vllm/v1/engine/utils.py", line 815, in wait_for_engine_startup
(APIServer pid=9)     raise RuntimeError(
(APIServer pid=9) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
(APIServer pid=9) INFO 11-29 10:00:03 [api_server.py:1] done
""".splitlines()


def opened(path: Path, lines: list[str]) -> LogIndex:
    path.write_text("".join(line + "\n" for line in lines))
    return index_of(path)


def index_of(path: Path) -> LogIndex:
    log = open_log(path)
    while not log.advance():
        pass
    return log


def found(log: LogIndex) -> Folds:
    folds = Folds(log)
    while not folds.advance():
        pass
    return folds


def test_each_traceback_is_folded_to_its_cause(tmp_path: Path) -> None:
    folds = found(opened(tmp_path / "a.log", _LINES))
    cause = "ValueError: To serve at least one request, 8.0 GiB KV cache is needed."
    assert list(folds) == [
        Fold(2, 6, 6, 3, False, cause),
        Fold(8, 11, 11, 3, False, cause),
        Fold(12, 15, 15, 3, True, _LINES[15].removeprefix("(APIServer pid=9) ")),
    ]


def test_what_is_shown(tmp_path: Path) -> None:
    folds = found(opened(tmp_path / "a.log", _LINES))
    assert [at for at, is_shown in enumerate(folds.shown_mask()) if not is_shown] == [3, 5, 6, 9, 10, 11, 13, 14, 15]
    assert [at for at, is_shown in enumerate(folds.shown_mask({2, 12})) if not is_shown] == [9, 10, 11]
    assert [fold and fold.first_line for fold in map(folds.fold_at, range(1, 8))] == [None, 2, 2, None, 2, 2, None]


def test_folds_are_those_of_the_records(tmp_path: Path) -> None:
    for name, content in SHAPES.items():
        (tmp_path / "a.log").write_bytes(content)
        log = index_of(tmp_path / "a.log")
        records = [one for one in read_text([content]) if one.chains and one.last_line > one.first_line]
        assert [fold.last_line for fold in found(log)] == [one.last_line - 1 for one in records], name
        assert [fold.text for fold in found(log)] == [one.chains[0][0].text for one in records], name


_RAY = "(RayWorkerWrapper pid=7, ip=10.0.0.2) "
_FRAME = '  File "/x/a.py", line 3, in f'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [
                f"{one}{_START}",
                f"{one}{_FRAME}",
                f"{one}KeyError: 'a'",
                one,
                f"{one}{JOINED[0]}",
                one,
                f"{one}{_START}",
                f"{one}{_FRAME}",
                f"{one}RuntimeError: Engine core initialization failed. See root cause above.",
            ],
            [(0, 8, 2, 8, False, "KeyError: 'a'")],
            id=name,
        )
        for name, one in {
            "bare": "",
            "logged": f"{_WHERE} ",
            "compose": "vllm-1  | ",
            "kubectl": "[pod/vllm-7c9f/vllm] ",
            "ray": _RAY,
            "journal": "Mar 02 10:11:12 host vllm[4711]: ",
            "docker": "2026-03-02T10:11:12.123456789Z ",
            "torchrun": "[rank1]: ",
        }.items()
    ]
    + [
        pytest.param(
            [
                f"  + Exception Group {_START}",
                f"  | {_FRAME}",
                "  | ExceptionGroup: two (1 sub-exception)",
                "  +-+---------------- 1 ----------------",
                f"    | {_START}",
                f"    | {_FRAME}",
                "    | ValueError: no",
                "    +------------------------------------",
                "INFO 11-29 10:00:03 [a.py:1] on",
            ],
            [(0, 7, 6, 7, False, "ValueError: no")],
            id="group",
        ),
        pytest.param(
            [
                f"ERROR 11-29 10:00:02 [a.py:1] in a subprocess: {_START}",
                f"ERROR 11-29 10:00:02 [a.py:1] {_FRAME}",
                "ERROR 11-29 10:00:02 [a.py:1] OSError: gone",
            ],
            [(0, 2, 2, 2, False, "OSError: gone")],
            id="in a message",
        ),
        pytest.param(
            [
                _START,
                _FRAME,
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
                "  Value error, no such model [type=value_error]",
                "INFO 11-29 10:00:03 [a.py:1] on",
            ],
            [
                (
                    0,
                    3,
                    2,
                    3,
                    False,
                    "ValidationError: 1 validation error for ModelConfig Value error, no such model [type=value_error]",
                )
            ],
            id="pydantic",
        ),
        pytest.param([_START, _FRAME], [(0, 1, 1, 1, False, _FRAME.strip())], id="cut off"),
        pytest.param([_START, "INFO 11-29 10:00:03 [a.py:1] on"], [], id="nothing to fold"),
        pytest.param(['{"levelname": "ERROR", "message": "a\\n' + _START + '\\nValueError: a"}'], [], id="json"),
        pytest.param(
            [
                f"{_RAY}{_START}",
                f"(RayWorkerWrapper pid=8) {_START}",
                f"{_RAY}{_FRAME}",
                f"(RayWorkerWrapper pid=8) {_FRAME}",
                "(RayWorkerWrapper pid=8) OSError: b",
                f"{_RAY}OSError: a hf_" + "x" * 30,
            ],
            [(0, 5, 5, 2, False, "OSError: a ***"), (1, 4, 4, 2, False, "OSError: b")],
            id="two at once",
        ),
    ],
)
def test_whatever_stands_in_front(tmp_path: Path, lines: list[str], expected: list[tuple[object, ...]]) -> None:
    folds = found(opened(tmp_path / "a.log", lines))
    assert list(folds) == [Fold(*one) for one in expected]  # type: ignore[arg-type]


def test_of_two_at_once_each_opens_alone(tmp_path: Path) -> None:
    lines = [f"{one}{text}" for text in (_START, _FRAME, "OSError: a") for one in ("(A pid=1) ", "(B pid=2) ")]
    folds = found(opened(tmp_path / "a.log", lines))
    assert folds.shown_mask() == bytes((1, 1, 0, 0, 0, 0))
    assert folds.shown_mask({0}) == bytes((1, 1, 1, 0, 1, 0))
    assert folds.shown_mask({1}) == bytes((1, 1, 0, 1, 0, 1))
    assert folds.shown_mask({0, 1}) == b"\1" * 6
    assert folds.shown_mask({2, 9}) == folds.shown_mask()


def test_a_log_that_was_cut_is_folded_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = opened(path, [*_LINES, *_LINES])
    folds = found(log)
    assert len(folds) == 6
    path.write_text("\n".join([_START, _FRAME, "OSError: b"]))
    log.forget()
    while not log.advance() or not folds.advance():
        pass
    assert list(folds) == [Fold(0, 2, 2, 2, False, "OSError: b")]
    assert folds.shown_mask() == b"\1\0\0"


def test_a_log_without_tracebacks_is_not_read_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = opened(tmp_path / "a.log", ["INFO 11-29 10:00:03 [a.py:1] on"] * 50_000 + [_START, _FRAME, "OSError: b"])
    read: list[bytes] = []

    class Counting(QuickReader):
        def read(self, raw: bytes) -> Line:
            read.append(raw)
            return super().read(raw)

    monkeypatch.setattr("engine_probe.logs.folds.QuickReader", Counting)
    assert [fold.first_line for fold in found(log)] == [50_000]
    assert len(read) == 3


def test_many_folds_take_little_memory(tmp_path: Path) -> None:
    log = opened(tmp_path / "a.log", [_START, _FRAME, "OSError: b", "INFO 11-29 10:00:03 [a.py:1] on"] * 3_000)
    tracemalloc.start()
    try:
        folds = found(log)
        gc.collect()  # Python keeps some thousand freed tuples for the next ones
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(folds) == 3_000
    assert used < 10 * log.line_count


@pytest.mark.parametrize("seed", range(4))
def test_lines_that_come_bit_by_bit_are_folded_alike(tmp_path: Path, seed: int) -> None:
    expected = found(opened(tmp_path / "whole.log", _LINES))
    content = (tmp_path / "whole.log").read_bytes()
    path = tmp_path / "a.log"
    path.write_bytes(b"")
    log = open_log(path)
    folds = Folds(log)
    chance, at = random.Random(seed), 0
    while at < len(content):
        size = chance.choice((1, 9, 80, 300))
        with path.open("ab") as file:
            file.write(content[at : at + size])
        at += size
        while not log.advance() or not folds.advance():
            pass
        assert len(folds.shown_mask()) == log.line_count
    assert list(folds) == list(expected)
    assert folds.shown_mask() == expected.shown_mask()
