"""What a server prints over and over is left out of a middling log; all else is read, under its own line number."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine_probe.logs import telling
from engine_probe.logs.quiet_runs import other_lines
from engine_probe.logs.records import read_text
from engine_probe.logs.telling import telling_records

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TAG = "(APIServer pid=7) "
STAMP = "INFO 03-02 10:11:12"
COUNTS = f"{TAG}{STAMP} [loggers.py:127] Engine 000: Avg prompt throughput: 12.4 tokens/s, Running: 1 reqs"
REQUEST = f"{TAG}{STAMP} [logger.py:40] Received request chatcmpl-1: params: SamplingParams(n=1), lora_request: None."
ACCESS = 'INFO:     10.0.0.9:41234 - "POST /v1/completions HTTP/1.1" 200 OK'
REFUSED = 'INFO:     10.0.0.9:41234 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error'
OTHER_PROCESS = COUNTS.replace("pid=7", "pid=8")
BANNER = f"{TAG}{STAMP} [api_server.py:1772] vLLM API server version 0.13.0"
ERROR = f"{TAG}ERROR 03-02 10:11:12 [core.py:9] ValueError: no"


def left(*lines: str) -> list[tuple[int, str]]:
    content = ("\n".join(lines) + "\n").encode()
    return [(first + at, line.decode()) for first, found in other_lines(content) for at, line in enumerate(found)]


def test_of_a_run_the_two_ends_stay() -> None:
    lines = [BANNER, COUNTS, ACCESS, REQUEST, TAG + ACCESS, COUNTS, ERROR]
    assert left(*lines) == [(1, BANNER), (2, COUNTS), (6, COUNTS), (7, ERROR)]


def test_what_ends_a_run_stays() -> None:
    for other in (ERROR, REFUSED, OTHER_PROCESS, "", '  File "x.py", line 1, in x', COUNTS + "\r"):
        lines = [COUNTS, REQUEST, other, REQUEST, COUNTS]
        assert left(*lines) == list(enumerate(lines, 1))


def test_two_lines_are_no_run() -> None:
    assert left(COUNTS, COUNTS) == [(1, COUNTS), (2, COUNTS)]
    assert [line for _, line in left(COUNTS, "", "")] == [COUNTS, "", ""]


def test_a_middling_log_is_read_without_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("\n".join([BANNER, *[COUNTS] * 50, ERROR, REFUSED]), encoding="utf-8")
    every = read_text([log.read_bytes()])
    monkeypatch.setattr(telling, "WHOLE_BYTES", 100)
    found = telling_records(os.open(log, os.O_RDONLY))
    assert found == [every[0], every[1], every[50], every[51], every[52]]


def test_a_middling_log_with_much_to_read_goes_through_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("\n".join([BANNER, *[COUNTS] * 50, ERROR, REFUSED]) + "\n", encoding="utf-8")
    monkeypatch.setattr(telling, "WHOLE_BYTES", 100)
    monkeypatch.setattr(telling, "_MOST_LINES", 4)
    assert telling_records(os.open(log, os.O_RDONLY)) == read_text([log.read_bytes()])
