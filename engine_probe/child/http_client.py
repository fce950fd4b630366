"""Asks a loading or loaded vLLM over HTTP, from the engine's side. Each call runs in a thread of its own."""

import http.client
import json
import ssl
import threading
import time

from engine_probe import events


class Endpoint:
    """Where the server listens and what it wants. `host` None is loopback."""

    def __init__(self, port, host=None, api_key=None, tls=False):
        self.host = "127.0.0.1" if host in (None, "", "0.0.0.0", "::") else host
        self.port = port
        self.api_key = api_key
        self.tls = tls

    def ask(self, path, body=None, timeout_s=2.0):
        """(status, text). Raises OSError or http.client.HTTPException where no answer came."""
        if self.tls:
            # The certificate is the user's own, for another name than 127.0.0.1: identity is not in question here.
            context = ssl._create_unverified_context()
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=context)
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)
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


def watch_until_ready(endpoint, stopped, on_ready):
    """Start a thread that calls `on_ready(models)` once /health and /v1/models have answered 200."""

    def watch():
        while not stopped.is_set():
            try:
                healthy, _ = endpoint.ask("/health")
                status, text = endpoint.ask("/v1/models", timeout_s=10.0) if healthy == 200 else (None, "")
                if status == 200:
                    on_ready(json.loads(text)["data"])
                    return
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                pass  # not there yet: the reason for asking again
            stopped.wait(0.05)

    threading.Thread(target=watch, daemon=True).start()


def send(endpoint, order, on_answer):
    """Start a thread that sends one request and gives `on_answer` a RequestAnswered."""

    def work():
        began = time.time()
        found = {"id": order["id"], "path": order["path"], "model": order["model"]}
        try:
            status, text = endpoint.ask(order["path"], order.get("body"), order.get("timeout_s", 60.0))
            found.update(_describe(status, text))
        except (OSError, http.client.HTTPException) as error:
            found["error"] = "%s: %s" % (type(error).__name__, error)
        on_answer(events.RequestAnswered(seconds=round(time.time() - began, 3), **found))

    threading.Thread(target=work, daemon=True).start()


def _describe(status, text):
    found = {"status": status, "text": text[:2000]}
    try:
        content = json.loads(text)
    except ValueError:
        return found
    if not isinstance(content, dict):
        return found
    if status != 200:
        problem = content.get("error", content)
        found["error"] = str(problem.get("message", problem) if isinstance(problem, dict) else problem)[:2000]
        return found
    usage = content.get("usage") or {}
    found["prompt_tokens"] = usage.get("prompt_tokens")
    found["completion_tokens"] = usage.get("completion_tokens")
    choices = content.get("choices") or [{}]
    found["finish_reason"] = choices[0].get("finish_reason")
    spoken = choices[0].get("text") or (choices[0].get("message") or {}).get("content")
    if spoken is not None:
        found["text"] = spoken[:2000]
    return found
