"""Exceptions and evidence: their words, their root, the layer that raised. A cover message is never a cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.logs.layers import layer_of_frames
from engine_probe.redact import mask
from playbooks.claims import Evidence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.logs.covers import Wrappers

_LONGEST_EVIDENCE = 2_000
_LONGEST_WORD = 40


def make_evidence(file: str, line: int | None, text: str) -> Evidence:
    """Evidence with a text of bounded length, secrets masked."""
    masked = mask(text)  # before it is cut: half a secret is not known as one
    return Evidence(file, line, cut_between_words(masked, _LONGEST_EVIDENCE))


def cut_between_words(text: str, most: int) -> str:
    """At most so many signs: cut behind a word, where one ends near, with a sign that there was more."""
    if len(text) <= most:
        return text
    kept = text[: most - 2]
    words, space, last = kept.rpartition(" ")
    return (words if space and len(last) < _LONGEST_WORD else kept) + " …"


def exception_line(exception: Mapping[str, Any]) -> str:
    """`ValueError: the message`, as a traceback ends."""
    kind, message = str(exception.get("type", "")), str(exception.get("message", ""))
    short = kind.rsplit(".", 1)[-1]
    return f"{short}: {message}" if message else short


def root_exception(chain: Sequence[Mapping[str, Any]], wrappers: Wrappers) -> Mapping[str, Any] | None:
    """The innermost exception of a chain that is no cover message."""
    return next((one for one in chain if not wrappers.covers(exception_line(one))), None)


def layer_of_exception(exception: Mapping[str, Any]) -> str | None:
    """The layer that raised it; None when its frames do not tell."""
    frames = exception.get("frames") or []
    layer = layer_of_frames(frames) if frames else "unknown"
    return None if layer == "unknown" else layer
