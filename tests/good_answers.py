"""What a model that is well answers to everything that a session may ask of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.events import BurstAnswered, RequestAnswered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.requests import Request


def good_answer(model: str, request: Request) -> RequestAnswered | BurstAnswered:
    """Status 200, tokens as asked for, finite numbers that differ from name to name."""
    body: Mapping[str, Any] = request.body or {}
    if request.burst is not None:
        return BurstAnswered(
            model,
            id=request.id,
            path=request.path,
            at_once=request.burst.at_once,
            seconds=request.burst.seconds,
            answered=40,
            p50_seconds=0.1,
            max_seconds=0.2,
            completion_tokens=640,
            tokens_per_second=64.0,
            rss_first_bytes=2**30,
            rss_last_bytes=2**30,
        )
    wants_numbers = body.get("logprobs") is not None
    shift = len(str(body.get("model", ""))) / 100
    return RequestAnswered(
        model,
        id=request.id,
        path=request.path,
        status=200,
        seconds=0.04,
        prompt_tokens=len(body.get("prompt", ())),
        completion_tokens=body.get("max_tokens"),
        numbers=[-1.5 - shift, -2.5 - shift] if wants_numbers else [],
        not_finite=0 if wants_numbers else None,
    )
