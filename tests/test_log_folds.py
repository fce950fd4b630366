"""Folds: which lines of a log are one traceback, which line tells its cause, and what is shown when it is closed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from engine_probe.logs.folds import Fold, Folds
from engine_probe.logs.index import LogIndex, open_log

if TYPE_CHECKING:
    from pathlib import Path

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
