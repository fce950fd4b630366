"""Many requests at once: all are counted, one event tells of them, and a burst ends with its load."""

from __future__ import annotations

import math
import os
import stat
from typing import TYPE_CHECKING

import pytest

from engine_probe import events as ev
from engine_probe.child import gpu_memory
from engine_probe.child.burst import first_and_last
from engine_probe.child.http_client import describe
from engine_probe.requests import Burst, Request
from tests.stand_in.probing import collect, of_kind, only

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.supervisor import Probe

pytestmark = pytest.mark.timeout(60)
MUCH = Burst(at_once=4, seconds=0.3)


def asks(request: Request) -> object:
    """Sends `request` when the load is ready, and stops it when the answer is there."""

    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.Ready):
            return probe.request("m", request)
        return probe.stop("m") if isinstance(event, ev.BurstAnswered) else None

    return react


async def test_all_answers_of_a_burst_are_counted() -> None:
    request = Request("load", "/v1/completions", {"prompt": "x"}, burst=MUCH)
    answer = only(await collect("serve", asks(request)), ev.BurstAnswered)  # type: ignore[arg-type]
    assert (answer.id, answer.path, answer.at_once, answer.failed, answer.error) == ("load", request.path, 4, 0, None)
    assert answer.answered >= 4
    assert answer.completion_tokens == 2 * answer.answered
    assert answer.seconds >= MUCH.seconds
    assert answer.p50_seconds is not None and answer.max_seconds is not None
    assert 0 < answer.p50_seconds <= answer.max_seconds
    assert answer.tokens_per_second is not None and answer.tokens_per_second > 0


async def test_refusals_are_counted_with_their_words() -> None:
    request = Request("load", "/v1/completions", {"prompt": "refuse"}, burst=MUCH)
    answer = only(await collect("serve", asks(request)), ev.BurstAnswered)  # type: ignore[arg-type]
    assert answer.answered == 0
    assert answer.failed >= 4
    assert answer.errors == [{"text": "status 400: too long", "count": answer.failed}]
    assert answer.p50_seconds is answer.completion_tokens is None


async def test_a_burst_ends_at_once_with_its_load() -> None:
    request = Request("load", "/v1/completions", {"prompt": "never"}, burst=Burst(4, 3600))

    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.Ready):
            return probe.request("m", request)
        return probe.stop("m") if isinstance(event, ev.Text) and "asked" in event.line else None

    events = await collect("serve", react)
    answer = only(events, ev.BurstAnswered)
    assert (answer.error, answer.answered, answer.failed) == ("the load was stopped", 0, 0)
    assert events.index(answer) < events.index(only(events, ev.Ended))
    assert only(events, ev.Ended).left_behind == []


async def test_a_burst_before_the_model_is_ready_is_refused() -> None:
    request = Request("load", "/health", burst=MUCH)

    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.Text):
            return probe.request("m", request)
        return probe.stop("m") if isinstance(event, ev.BurstAnswered) else None

    assert only(await collect("hang", react), ev.BurstAnswered).error == "the model is not ready"


@pytest.mark.parametrize("at_once", [0, 1001])
async def test_an_impossible_number_at_once_is_said(at_once: int) -> None:
    request = Request("load", "/health", burst=Burst(at_once, 1.0))

    def react(probe: Probe, event: ev.Event) -> object:
        if isinstance(event, ev.Ready):
            return probe.request("m", request)
        return probe.stop("m") if isinstance(event, ev.Trouble) else None

    events = await collect("serve", react)
    assert f"at_once must be 1 to 1000, not {at_once}" in only(events, ev.Trouble).text
    assert of_kind(events, ev.BurstAnswered) == []


def test_memory_is_told_of_the_first_and_of_the_last_third() -> None:
    assert first_and_last([]) == first_and_last([5]) == (None, None)
    assert first_and_last([5, 7]) == (5, 7)
    assert first_and_last([1, 2, 3, 4, 5, 6, 7, 8, 90]) == (2, 8)


def test_numbers_of_an_answer_are_told_and_those_that_are_none() -> None:
    told = '{"choices": [{"text": "a", "logprobs": {"token_logprobs": [-1.5, NaN, null, -Infinity, 0]}}]}'
    found = describe(200, told)
    assert found["numbers"] == [-1.5, None, None, None, 0]
    assert found["not_finite"] == 3
    chat = '{"choices": [{"message": {"content": "a"}, "logprobs": {"content": [{"logprob": -2.0}]}}]}'
    assert describe(200, chat)["numbers"] == [-2.0]


@pytest.mark.parametrize(
    "data", ['{"embedding": [1.0, 2.0]}', '{"data": [[1.0], [2.0]]}', '{"probs": [1.0, 2.0]}', '{"data": [1.0, 2.0]}']
)
def test_numbers_of_an_embedding_are_told(data: str) -> None:
    found = describe(200, f'{{"data": [{data}], "usage": {{"prompt_tokens": 3}}}}')
    assert (found["numbers"], found["not_finite"]) == ([1.0, 2.0], 0)


def test_an_answer_without_numbers_tells_none() -> None:
    assert "numbers" not in describe(200, '{"data": [{"id": "tiny"}]}')
    assert "numbers" not in describe(200, '{"choices": [{"text": "a", "logprobs": null}]}')


def test_gpu_memory_is_that_of_the_given_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '11, 1024\\n12, 512\\n13, [N/A]\\n99, 7\\n'\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert gpu_memory.can_be_read()
    assert gpu_memory.used_bytes({11, 12, 13}) == 1536 * 2**20
    assert gpu_memory.used_bytes({13}) is gpu_memory.used_bytes({4}) is None


def test_infinity_is_no_number_to_send_on() -> None:
    found = describe(200, '{"choices": [{"logprobs": {"token_logprobs": [1e999]}}]}')
    assert found["numbers"] == [None]
    assert not any(isinstance(one, float) and math.isinf(one) for one in found["numbers"])
