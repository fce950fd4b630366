"""What of an error a person looks up: exit code, signal, errno, HTTP status, the exception's class; flags, terms."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING

from engine_probe.flags import flag_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CLASS = re.compile(r"(?:^|[\s.])((?:[A-Z]\w*)(?:Error|Exception|Interrupt|Exit))(?=:|$)")
_CODES = (
    (re.compile(r"\[Errno (\d+)\]"), "errno"),
    (
        re.compile(r"\b([45]\d\d) (?:Client|Server) Error|\b(?:HTTP/\d\.\d|HTTP|status(?: code)?):? \"?([45]\d\d)\b"),
        "HTTP",
    ),
    (re.compile(r"\b(cudaError\w+|nccl\w*Error|CU(?:BLAS|DNN|SPARSE)_STATUS_\w+)\b"), ""),
    (re.compile(r"\b(?:exit code|exitcode)[:=]? ?(-?\d+)"), "exit code"),
    (re.compile(r"<Signals\.(SIG\w+)|\((SIG\w+)\)"), "signal"),
    (re.compile(r"\bXid\b[^:]*: (\d+)"), "Xid"),
)
_WORD = re.compile(r"--[a-z][a-z-]+|\b[a-z]+(?:_[a-z0-9]+)+\b")
_TERMS = (
    "out of memory", "KV cache", "CUDA graph", "tensor parallel", "pipeline parallel", "NCCL", "safetensors", "LoRA",
    "quantization", "tokenizer", "chat template", "shared memory", "No space left", "Permission denied", "rope",
    "Address already in use", "Connection refused", "trust_remote_code", "compute capability", "state_dict",
)  # fmt: skip
_MOST = 6


def codes_of(texts: Iterable[str], exit_code: int | None = None, killed_by: str | None = None) -> tuple[str, ...]:
    """Of the lines of an error, and of how its process ended; in the order class, codes, end."""
    found: dict[str, None] = {}
    for text in texts:
        found.update(dict.fromkeys(_classes(text)))
        found.update(dict.fromkeys(_codes(text)))
    if killed_by:
        found[f"signal {killed_by}"] = None
    elif exit_code is not None:
        found[f"exit code {exit_code}"] = None
    return tuple(found)[:_MOST]


def key_words_of(texts: Iterable[str]) -> tuple[str, ...]:
    """vLLM's flags by their names, then terms, each once and in the order in which they are said."""
    found: dict[str, None] = {}
    for text in texts:
        found.update(dict.fromkeys(_flags(text)))
        lower = text.lower()
        found.update(dict.fromkeys(term for term in _TERMS if term.lower() in lower))
    return tuple(found)[:_MOST]


def _classes(text: str) -> Iterator[str]:
    yield from _CLASS.findall(text)


def _codes(text: str) -> Iterator[str]:
    for pattern, kind in _CODES:
        for match in pattern.finditer(text):
            value = next(filter(None, match.groups()))
            if kind == "errno":
                name = errno.errorcode.get(int(value), "")
                yield f"errno {value} ({name})" if name else f"errno {value}"
            else:
                yield f"{kind} {value}".strip()


def _flags(text: str) -> Iterator[str]:
    known = flag_table().flags
    for word in _WORD.findall(text):
        name = word.lstrip("-").replace("_", "-")
        if name in known:
            yield name
