"""Asks a loading or loaded vLLM over HTTP, from the engine's side. Each call runs in a thread of its own."""

from __future__ import annotations

import http.client
import json
import math
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any, Callable

from engine_probe import events
from engine_probe.child import surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.child.orders import RequestOrder

_MAX_TEXT = 2000
_MOST_NUMBERS = 64
_ANY_ADDRESS = (None, "", "0.0.0.0", "::")  # noqa: S104 - where vLLM listens, not where we do


class Endpoint:
    """Where the server listens and what it wants. `host` None is loopback."""

    def __init__(self, port: int, host: str | None = None, api_key: str | None = None, tls: bool = False) -> None:
        self.host = "127.0.0.1" if host in _ANY_ADDRESS or host is None else host
        self.port = port
        self.api_key = api_key
        self.tls = tls

    def ask(self, path: str, body: object = None, timeout_s: float = 2.0) -> tuple[int, str]:
        """(status, text). Raises OSError, http.client.HTTPException or ValueError where no answer came."""
        connection = self._connection(timeout_s)
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = "Bearer " + self.api_key
        try:
            content = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, content, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if not self.tls:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)
        # The certificate is the user's own, for another name than 127.0.0.1: identity is not in question here.
        context = ssl._create_unverified_context()  # noqa: S323
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=context)


def endpoint_of(port: int, argv: Sequence[str], env: Mapping[str, str]) -> Endpoint:
    """As a launch's arguments and environment have it."""
    key = surroundings.argument(argv, "--api-key") or env.get("VLLM_API_KEY")
    has_tls = surroundings.argument(argv, "--ssl-keyfile") is not None
    return Endpoint(port, surroundings.argument(argv, "--host"), key, has_tls)


def watch_until_ready(
    endpoint: Endpoint,
    stopped: threading.Event,
    is_ours: Callable[[], bool],
    on_ready: Callable[[list[str], int | None], None],
) -> None:
    """Start a thread that calls `on_ready` with names and longest context once /health and /v1/models answer 200.

    An answer counts only while `is_ours` says that the load itself listens there.
    """

    def watch() -> None:
        while not stopped.is_set():
            try:
                healthy, _ = endpoint.ask("/health")
                status, text = endpoint.ask("/v1/models", timeout_s=10.0) if healthy == 200 else (0, "")
                if status == 200 and is_ours():
                    on_ready(*_served(json.loads(text)))
                    return
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
                pass  # not there yet, or something else answers: the reason for asking again
            stopped.wait(0.05)

    threading.Thread(target=watch, daemon=True).start()


def _served(content: dict[str, Any]) -> tuple[list[str], int | None]:
    models = content["data"]
    return [str(model["id"]) for model in models], models[0].get("max_model_len") if models else None


def send(endpoint: Endpoint, order: RequestOrder, on_answer: Callable[[events.RequestAnswered], None]) -> None:
    """Start a thread that sends one request and gives `on_answer` its result. Raises RuntimeError without a thread."""

    def work() -> None:
        began = time.time()
        try:
            status, text = endpoint.ask(order.path, order.body, order.timeout_s)
            found = describe(status, text)
        except Exception as error:  # whatever it is: a request must be answered
            found = {"error": f"{type(error).__name__}: {error}"}
        seconds = round(time.time() - began, 3)
        on_answer(events.RequestAnswered(order.model, id=order.id, path=order.path, seconds=seconds, **found))

    threading.Thread(target=work, daemon=True).start()


def describe(status: int, text: str) -> dict[str, Any]:
    """Fields of a RequestAnswered; whatever has not the expected shape stays text."""
    found: dict[str, Any] = {"status": status, "text": text[:_MAX_TEXT]}
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        return found
    if status != 200:
        problem = content.get("error", content)
        found["error"] = str(problem.get("message", problem) if isinstance(problem, dict) else problem)[:_MAX_TEXT]
        return found
    found.update(numbers_in(content))
    usage = _object(content.get("usage"))
    choices = content.get("choices")
    choice = _object(choices[0]) if isinstance(choices, list) and choices else {}
    found["prompt_tokens"] = usage.get("prompt_tokens")
    found["completion_tokens"] = usage.get("completion_tokens")
    found["finish_reason"] = choice.get("finish_reason")
    spoken = choice.get("text") or _object(choice.get("message")).get("content")
    if isinstance(spoken, str):
        found["text"] = spoken[:_MAX_TEXT]
    return found


def numbers_in(content: dict[str, Any]) -> dict[str, Any]:
    """`numbers` and `not_finite` of an answer: log probabilities of tokens, else an embedding, scores or classes."""
    found = _log_probabilities(content)
    if found is None:
        data = content.get("data")
        found = _flat(data) if isinstance(data, list) else None
    if found is None:
        return {}
    plain = [value if isinstance(value, (int, float)) and math.isfinite(value) else None for value in found]
    return {"numbers": plain[:_MOST_NUMBERS], "not_finite": plain.count(None)}


def _log_probabilities(content: dict[str, Any]) -> list[Any] | None:
    """Of a completion, `choices[0].logprobs.token_logprobs`; of a chat, `choices[0].logprobs.content[].logprob`."""
    choices = content.get("choices")
    told = _object(_object(choices[0]).get("logprobs")) if isinstance(choices, list) and choices else {}
    if isinstance(told.get("token_logprobs"), list):
        return list(told["token_logprobs"])
    if isinstance(told.get("content"), list):
        return [_object(one).get("logprob") for one in told["content"]]
    return None


def _flat(data: list[Any]) -> list[Any] | None:
    """The numbers of `data[0]`: `embedding`, `data` (maybe in rows), `probs` or `score`."""
    first = _object(data[0]) if data else {}
    found = next((first[name] for name in ("embedding", "data", "probs", "score") if name in first), None)
    if found is None or isinstance(found, str):
        return None
    rows = found if isinstance(found, list) else [found]
    return [value for row in rows for value in (row if isinstance(row, list) else [row])]


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
