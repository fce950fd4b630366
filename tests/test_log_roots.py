"""Root causes of a log's failed loads: the line that tells why, whatever the log's size and however it comes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_probe.logs import roots as roots_module
from engine_probe.logs import roots_windows
from engine_probe.logs.attempts import attempts
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.index import LogIndex, open_log
from engine_probe.logs.records import Reader, read_text
from engine_probe.logs.roots import Cause, Roots
from engine_probe.logs.roots_windows import END_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.logs.records import Record

_WHERE = "(EngineCore_0 pid=12) ERROR 11-29 10:00:02 [core.py:708]"
_FAILED = f"""\
(APIServer pid=9) INFO 11-29 10:00:01 [api_server.py:1977] vLLM API server version 0.11.2
(APIServer pid=9) INFO 11-29 10:00:01 [utils.py:1] non-default args: {{'model_tag': 'acme/m-7b', 'model': 'acme/m-7b'}}
(EngineCore_0 pid=12) INFO 11-29 10:00:01 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='a'
{_WHERE} EngineCore failed to start.
{_WHERE} Traceback (most recent call last):
(APIServer pid=9) INFO 11-29 10:00:02 [utils.py:1] Waiting for 1 local, 0 remote core engine proc(s) to start.
{_WHERE}   File "/x/vllm/v1/engine/core.py", line 699, in run_engine_core
{_WHERE}     engine_core = EngineCoreProc(*args, **kwargs)
{_WHERE} ValueError: To serve at least one request, 8.0 GiB KV cache is needed.
(APIServer pid=9) Traceback (most recent call last):
(APIServer pid=9)   File "/x/vllm/v1/engine/utils.py", line 815, in wait_for_engine_startup
(APIServer pid=9)     raise RuntimeError(
(APIServer pid=9) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
""".splitlines()


def opened(path: Path, lines: list[str]) -> LogIndex:
    path.write_text("".join(line + "\n" for line in lines))
    log = open_log(path)
    while not log.advance():
        pass
    return log


def found(log: LogIndex) -> Roots:
    roots = Roots(log)
    while not roots.advance():
        pass
    return roots


def test_the_cause_of_each_load_is_the_line_of_the_exception_at_its_root(tmp_path: Path) -> None:
    roots = found(opened(tmp_path / "a.log", [*_FAILED, *_FAILED]))
    text = "ValueError: To serve at least one request, 8.0 GiB KV cache is needed."
    assert [(cause.line, cause.text) for cause in roots.causes] == [(8, text), (8 + len(_FAILED), text)]
    assert roots.causes[0] == Cause(8, text, "a", "engine_build")
    assert (roots.next_from(0), roots.next_from(9), roots.next_from(100)) == (8, 8 + len(_FAILED), None)
    assert (roots.last_before(8), roots.last_before(9)) == (None, 8)


_SERVED = """\
(APIServer pid=9) INFO 11-29 10:00:01 [api_server.py:1977] vLLM API server version 0.11.2
(EngineCore_0 pid=12) INFO 11-29 10:00:01 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='b'
(EngineCore_0 pid=12) INFO 11-29 10:00:02 [gpu_model_runner.py:1329] Starting to load model b...
(EngineCore_0 pid=12) INFO 11-29 10:00:03 [core.py:171] init engine (profile, create kv cache, warmup model) took 2 s
(APIServer pid=9) INFO:     Application startup complete.
""".splitlines()
_ANSWERS = [
    "(APIServer pid=9) INFO 11-29 10:01:00 [loggers.py:123] Engine 000: Avg prompt throughput: 1.0 tokens/s",
    'INFO:     10.0.0.9:41234 - "GET /health HTTP/1.1" 200 OK',
]
_BAD_REQUEST = [
    f"(APIServer pid=9) ERROR 11-29 10:01:01 [serving_chat.py:290] {text}"
    for text in ("Error in preprocessing", "Traceback (most recent call last):", '  File "/x/a.py", line 3, in f')
] + ["(APIServer pid=9) ERROR 11-29 10:01:01 [serving_chat.py:290] ValueError: too long"]
_DIES = [
    f"(EngineCore_0 pid=12) ERROR 11-29 10:05:00 [core.py:700] {text}"
    for text in (
        *(
            "EngineCore encountered a fatal error.",
            "Traceback (most recent call last):",
            '  File "/x/a.py", line 3, in f',
        ),
        "torch.OutOfMemoryError: CUDA out of memory.",
    )
]
_BARE = [
    "Traceback (most recent call last):",
    '  File "/opt/x/vllm", line 5, in <module>',
    "ImportError: libx.so.1: no",
]
_KILLED = ["/bin/bash: line 1:    77 Killed                  vllm serve acme/m"]


def expected_lines(lines: list[str]) -> list[range]:
    """The lines of the records with the roots, as reading the whole log tells them."""
    found = attempts(read_text(["\n".join(lines)]))
    records = [one.root_record for one in found if one.outcome == "failed"]
    return [range(one.first_line - 1, one.last_line) for one in records if one is not None]


def agrees(lines: list[str], roots: Roots) -> None:
    expected = sorted(expected_lines(lines), key=lambda one: one.start)
    assert len(roots.causes) == len(expected)
    assert all(cause.line in one for cause, one in zip(roots.causes, expected, strict=True))


_LOGS = {
    "failed": _FAILED,
    "healthy": _SERVED + _ANSWERS * 20,
    "bad requests": _SERVED + (_ANSWERS * 5 + _BAD_REQUEST) * 20,
    "died": _SERVED + (_ANSWERS * 5 + _BAD_REQUEST) * 20 + _DIES,
    "bare": _BARE,
    "killed": _SERVED[:3] + _KILLED,
    "several": _FAILED + _SERVED + _ANSWERS * 30 + _DIES + _FAILED + _SERVED + _ANSWERS * 9,
}


@pytest.mark.parametrize("is_big", [False, True])
@pytest.mark.parametrize("name", list(_LOGS))
def test_the_answer_is_that_of_reading_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_big: bool
) -> None:
    if is_big:
        monkeypatch.setattr(roots_windows, "_READ_WHOLE_LINES", 0)
        monkeypatch.setattr(roots_windows, "_BEGINNING_LINES", 0)
        monkeypatch.setattr(roots_windows, "_AROUND_LINES", 3)
        monkeypatch.setattr(roots_windows, "_MOST_OF_A_SERVER", 10)
    agrees(_LOGS[name], found(opened(tmp_path / "a.log", _LOGS[name])))


def test_of_a_big_log_little_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _SERVED + (_ANSWERS * 50 + _BAD_REQUEST) * 1000 + _DIES + _FAILED
    read = 0

    class Counting(Reader):
        def feed(self, line_no: int, text: str) -> list[Record]:
            nonlocal read
            read += 1
            return super().feed(line_no, text)

    monkeypatch.setattr(roots_module, "Reader", Counting)
    roots = found(opened(tmp_path / "a.log", lines))
    assert [cause.text for cause in roots.causes] == [
        "OutOfMemoryError: CUDA out of memory.",
        "ValueError: To serve at least one request, 8.0 GiB KV cache is needed.",
    ]
    assert read < len(lines) / 10


def test_a_log_of_many_restarts_is_decided_load_by_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots_module, "_MOST_RECORDS", 20)
    lines = _FAILED * 30
    roots = found(opened(tmp_path / "a.log", lines))
    assert [cause.line for cause in roots.causes] == [8 + at * len(_FAILED) for at in range(30)]


@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_grows_is_decided_anew(tmp_path: Path, seed: int) -> None:
    lines = _LOGS["several"] + _BARE
    content = "\n".join(lines).encode()  # the last line has no end
    path = tmp_path / "a.log"
    path.write_bytes(b"")
    log, chance, at = open_log(path), random.Random(seed), 0
    roots = Roots(log)
    while at < len(content):
        size = chance.choice((9, 300, 2000))
        with path.open("ab") as file:
            file.write(content[at : at + size])
        at += size
        while not log.advance() or not roots.advance():
            pass
    agrees(lines, roots)
    path.write_text("\n".join(_FAILED))
    log.forget()
    while not log.advance() or not roots.advance():
        pass
    assert [cause.line for cause in roots.causes] == [8]


def _samples(table: str, is_wanted: Iterable[str]) -> list[str]:
    """The sample lines of those rows of a table that hold one of the words."""
    rows = (Path(roots_module.__file__).parent / "data" / table).read_text(encoding="utf-8").splitlines()
    samples, is_of_wanted = [], False
    for row in rows:
        if row.startswith("\t") and is_of_wanted:
            samples.append(row.split("\t")[1])
        elif not row.startswith("\t"):
            is_of_wanted = any(word in row for word in is_wanted) and not row.startswith("#")
    return samples


def test_whatever_ends_a_load_has_one_of_the_words() -> None:
    covers = [one for one in _samples("wrappers.tsv", ("",)) if "ExceptionGroup" not in one]  # these have a traceback
    ends = [
        *covers,
        *_samples("stages.tsv", ("\terror\t",)),
        *_samples("endings.tsv", ("death", "place", "hang")),
        *_samples("formats.tsv", ("line\tshell",)),
    ]
    assert len(ends) > 10
    assert [one for one in ends if not any(word in one.encode() for word in END_WORDS)] == []
    assert any(read_wrappers().covers(one) for one in ends)
