"""What a model is asked when it has come up: whether it answers at all. A start alone proves no more than a start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks import requests

if TYPE_CHECKING:
    from engine_probe.events import Ready, RequestAnswered
    from engine_probe.requests import Request

_ASKED = "one-short-completion"
_TIMEOUT_S = 60.0
_FIRST_OF_THE_SERVER = 500


def id_of(model: str) -> str:
    """Of the request that `model` is asked."""
    return f"trial-{model}"


def request_for(model: str, ready: Ready | None) -> Request:
    """`ready`: what its load said when it came up."""
    served = ready.served_models[0] if ready is not None and ready.served_models else model
    return requests.build(requests.named(_ASKED), id_of(model), served, 0, _TIMEOUT_S)


def is_dead(answer: RequestAnswered) -> str | None:
    """Why the engine behind the server does not work; None: it does, and be it that it refuses such a request."""
    if answer.status is None:
        return f"it was ready and gave no answer to a short completion: {answer.error or 'no reason was given'}"
    if answer.status >= _FIRST_OF_THE_SERVER:
        return f"it was ready and answered a short completion with status {answer.status}"
    return None
