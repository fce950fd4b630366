"""The requests that a verification may send, what each must come back with, and how an answer is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.requests import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.events import RequestAnswered

_FULL_LENGTH_ANSWER_TOKENS = 8
# Ids 0 to 2 are mostly special. The 256 after them exist in every vocabulary, so that no tokenizer is needed.
_FIRST_TOKEN, _TOKENS = 3, 256


@dataclass(frozen=True)
class Judged:
    """`expected` and `measured` in words; `passed` None: the answer does not decide."""

    expected: str
    measured: str
    passed: bool | None


@dataclass(frozen=True)
class NamedRequest:
    """`body` gets the served model's name and its length in tokens."""

    name: str
    title: str
    path: str
    body: Callable[[str, int], dict[str, Any]]
    needs_length: bool
    judge: Callable[[RequestAnswered, int], Judged]
    expected: Callable[[int], str]


def names() -> tuple[str, ...]:
    """All that `request` may name."""
    return tuple(one.name for one in _all())


def named(name: str) -> NamedRequest:
    """The request of that name, which the loader has checked to exist."""
    return next(one for one in _all() if one.name == name)


def build(request: NamedRequest, check_id: str, model: str, length: int, timeout_s: float) -> Request:
    """What the probe sends."""
    return Request(id=check_id, path=request.path, body=request.body(model, length), timeout_s=timeout_s)


def _all() -> tuple[NamedRequest, ...]:
    return (
        NamedRequest(
            "one-short-completion",
            "a short completion",
            "/v1/completions",
            _short,
            needs_length=False,
            judge=_judge_short,
            expected=lambda _length: "status 200 and at least 1 token",
        ),
        NamedRequest(
            "one-completion-near-max-model-len",
            "a completion at full length",
            "/v1/completions",
            _full_length,
            needs_length=True,
            judge=_judge_full_length,
            expected=lambda length: f"status 200 and {length:,} tokens in all" if length else "status 200, full length",
        ),
    )


def _short(model: str, _length: int) -> dict[str, Any]:
    return {"model": model, "prompt": "Hello", "max_tokens": 4, "temperature": 0}


def _full_length(model: str, length: int) -> dict[str, Any]:
    answer = min(_FULL_LENGTH_ANSWER_TOKENS, max(1, length - 1))
    prompt = [_FIRST_TOKEN + number % _TOKENS for number in range(max(1, length - answer))]
    return {"model": model, "prompt": prompt, "max_tokens": answer, "temperature": 0, "ignore_eos": True}


def _status(answer: RequestAnswered) -> str:
    if answer.status is None:
        return f"no answer: {answer.error or 'no reason was given'}"
    if answer.status != 200:
        return f"status {answer.status}: {(answer.error or answer.text)[:200]}"
    return "status 200"


def _judge_short(answer: RequestAnswered, _length: int) -> Judged:
    count = answer.completion_tokens
    expected = "status 200 and at least 1 token"
    if answer.status != 200:
        return Judged(expected, _status(answer), passed=False)
    if count is None:
        return Judged(expected, "status 200, tokens not counted", passed=None)
    return Judged(expected, f"status 200, {count:,} tokens in {answer.seconds:.2f} s", passed=count >= 1)


def _judge_full_length(answer: RequestAnswered, length: int) -> Judged:
    expected = f"status 200 and {length:,} tokens in all"
    if answer.status != 200:
        return Judged(expected, _status(answer), passed=False)
    if answer.prompt_tokens is None or answer.completion_tokens is None:
        return Judged(expected, "status 200, tokens not counted", passed=None)
    total = answer.prompt_tokens + answer.completion_tokens
    parts = f"{answer.prompt_tokens:,} + {answer.completion_tokens:,} = {total:,} tokens"
    return Judged(expected, f"status 200, {parts} in {answer.seconds:.2f} s", passed=total == length)
