"""The requests that a verification may send, what each must come back with, and how an answer is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine_probe.requests import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.events import RequestAnswered

COMPLETION, CHAT, LOGPROBS, LENGTH = (
    "one-short-completion", "one-short-chat", "one-completion-with-logprobs", "one-completion-near-max-model-len",
)  # fmt: skip
POOLING_PATHS = ("/v1/embeddings", "/classify", "/pooling")
"""Where models answer that pool; which of them does, decides the model: they are asked in this order."""
NOT_HERE = (400, 404, 405, 501)
"""What a path answers that is not for this model."""
SERVER_ERROR = 500
"""From here on the server, and not the request, is at fault."""
_OK = 200
_FULL_LENGTH_ANSWER_TOKENS = 8
# Ids 0 to 2 are mostly special. The 256 after them exist in every vocabulary, so that no tokenizer is needed.
_FIRST_TOKEN, _TOKENS = 3, 256
_SHORT_TOKENS = 8
_NO_LOGPROB = -9_000.0
"""vLLM writes -9999 for a probability of zero (entrypoints/openai); a token that was chosen has a larger one."""


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


def named(name: str, *, pools: bool = False, attempt: int = 0) -> NamedRequest:
    """The request of that name, which the loader has checked to exist.

    `pools`: to a model that gives embeddings, scores or classes; `attempt` is then the number of the path to try.
    """
    request = next(one for one in _all() if one.name == name)
    return _pooling(request, attempt) if pools else request


def build(request: NamedRequest, check_id: str, model: str, length: int, timeout_s: float) -> Request:
    """What the probe sends."""
    return Request(id=check_id, path=request.path, body=request.body(model, length), timeout_s=timeout_s)


def tokens(count: int) -> list[int]:
    """A prompt of so many tokens."""
    return [_FIRST_TOKEN + number % _TOKENS for number in range(count)]


def status_words(answer: RequestAnswered) -> str:
    if answer.status is None:
        return f"no answer: {answer.error or 'no reason was given'}"
    if answer.status != _OK:
        return f"status {answer.status}: {(answer.error or answer.text)[:200]}"
    return "status 200"


def _all() -> tuple[NamedRequest, ...]:
    return (
        NamedRequest(
            COMPLETION,
            "a short completion",
            "/v1/completions",
            lambda model, _length: {"model": model, "prompt": "Hello", "max_tokens": 4, "temperature": 0},
            needs_length=False,
            judge=_judge_short,
            expected=lambda _length: _SHORT,
        ),
        NamedRequest(
            CHAT,
            "a chat",
            "/v1/chat/completions",
            _chat,
            needs_length=False,
            judge=_judge_short,
            expected=lambda _length: _SHORT,
        ),
        NamedRequest(
            LOGPROBS,
            "finite logprobs",
            "/v1/completions",
            _with_logprobs,
            needs_length=False,
            judge=_judge_numbers,
            expected=lambda _length: _NUMBERS,
        ),
        NamedRequest(
            LENGTH,
            "a completion at full length",
            "/v1/completions",
            _full_length,
            needs_length=True,
            judge=_judge_full_length,
            expected=lambda length: f"status 200 and {length:,} tokens in all" if length else "status 200, full length",
        ),
    )


_SHORT = "status 200 and at least 1 token"
_NUMBERS = "status 200 and numbers that are finite"


def _pooling(request: NamedRequest, attempt: int) -> NamedRequest:
    """The same to a model that pools: numbers instead of text."""
    path = POOLING_PATHS[min(attempt, len(POOLING_PATHS) - 1)]
    if request.name == LENGTH:
        return replace(
            request,
            title="an input of full length",
            path=path,
            body=lambda model, length: {"model": model, "input": tokens(max(1, length))},
            judge=_judge_full_input,
            expected=lambda length: f"status 200 for {length:,} tokens" if length else "status 200, full length",
        )
    title = "finite numbers" if request.name == LOGPROBS else "an embedding, scores or classes"
    return replace(
        request,
        title=title,
        path=path,
        body=lambda model, _length: {"model": model, "input": "Hello"},
        judge=_judge_numbers,
        expected=lambda _length: _NUMBERS,
    )


def _chat(model: str, _length: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Hello"}]
    return {"model": model, "messages": messages, "max_tokens": 4, "temperature": 0}


def _with_logprobs(model: str, _length: int) -> dict[str, Any]:
    """The prompt as tokens, so that it is the same for every adapter."""
    prompt = tokens(_SHORT_TOKENS)
    return {"model": model, "prompt": prompt, "max_tokens": 4, "temperature": 0, "logprobs": 1, "ignore_eos": True}


def _full_length(model: str, length: int) -> dict[str, Any]:
    answer = min(_FULL_LENGTH_ANSWER_TOKENS, max(1, length - 1))
    prompt = tokens(max(1, length - answer))
    return {"model": model, "prompt": prompt, "max_tokens": answer, "temperature": 0, "ignore_eos": True}


def _judge_short(answer: RequestAnswered, _length: int) -> Judged:
    count = answer.completion_tokens
    if answer.status != _OK:
        return Judged(_SHORT, status_words(answer), passed=False)
    if count is None:
        return Judged(_SHORT, "status 200, tokens not counted", passed=None)
    return Judged(_SHORT, f"status 200, {count:,} tokens in {answer.seconds:.2f} s", passed=count >= 1)


def _judge_numbers(answer: RequestAnswered, _length: int) -> Judged:
    """vLLM answers NaN with status 500, since JSON has none, or with null, by the release."""
    if answer.status != _OK:
        return Judged(_NUMBERS, status_words(answer), passed=False)
    if answer.not_finite is None or not answer.numbers:
        return Judged(_NUMBERS, "status 200, and no numbers in the answer", passed=None)
    if answer.not_finite:
        return Judged(_NUMBERS, f"{answer.not_finite:,} numbers of the answer are NaN, infinite or null", passed=False)
    found = [number for number in answer.numbers if number is not None]
    is_text = answer.path not in POOLING_PATHS
    if is_text and (max(found) > 1e-3 or max(found) < _NO_LOGPROB):
        return Judged(_NUMBERS, f"the largest log probability is {max(found):g}", passed=False)
    what = "log probabilities" if is_text else "numbers"
    return Judged(_NUMBERS, f"{len(found)} finite {what}, {min(found):.3g} to {max(found):.3g}", passed=True)


def _judge_full_length(answer: RequestAnswered, length: int) -> Judged:
    expected = f"status 200 and {length:,} tokens in all"
    if answer.status != _OK:
        return Judged(expected, status_words(answer), passed=False)
    if answer.prompt_tokens is None or answer.completion_tokens is None:
        return Judged(expected, "status 200, tokens not counted", passed=None)
    total = answer.prompt_tokens + answer.completion_tokens
    parts = f"{answer.prompt_tokens:,} + {answer.completion_tokens:,} = {total:,} tokens"
    return Judged(expected, f"status 200, {parts} in {answer.seconds:.2f} s", passed=total == length)


def _judge_full_input(answer: RequestAnswered, length: int) -> Judged:
    expected = f"status 200 for {length:,} tokens"
    if answer.status != _OK:
        return Judged(expected, status_words(answer), passed=False)
    if answer.prompt_tokens is None:
        return Judged(expected, "status 200, tokens not counted", passed=None)
    counted = f"status 200, {answer.prompt_tokens:,} tokens in {answer.seconds:.2f} s"
    return Judged(expected, counted, passed=answer.prompt_tokens == length)
