"""What a log that is not vLLM's looks like, by lines that only such logs have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine_probe.logs.attempts import Attempt

_LOOKED_AT = 500
_LEAST_SHARE = 0.3
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a binary file", re.compile(r"\x00|^\x7fELF|\ufffd{3}")),
    ("an access log of a web server", re.compile(r'"(?:GET|POST|HEAD|PUT|DELETE|OPTIONS) \S+ HTTP/[\d.]+" \d{3} ')),
    ("the kernel's log (dmesg)", re.compile(r"^(?:<\d+>)?\[ *\d+\.\d{6}\] |\bkernel: \[?")),
    ("a log of llama.cpp or Ollama", re.compile(r"^(?:llama_|ggml_|llm_load|print_info:)|source=\S+\.go:\d+ msg=")),
    ("a log of SGLang", re.compile(r"\bsglang\b|^\[\d{4}-\d\d-\d\d [^\]]+\] (?:server_args=|Load weight|Prefill)")),
    ("a log of Text Generation Inference", re.compile(r"\btext_generation_(?:launcher|router)\b")),
    ("a log of a component of Kubernetes", re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6}\s+\d+ \S+\.go:\d+\]")),
    ("a log of Triton Inference Server", re.compile(r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ \S+:\d+\]")),
    ("a YAML file", re.compile(r"^(?:apiVersion|kind|models|services|version): ?\S*$")),
    ("a web page", re.compile(r"^\s*<(?:!DOCTYPE|html|head|body|div)\b", re.IGNORECASE)),
    ("lines of JSON", re.compile(r"^\s*\{\"")),
)


def looks_like(attempts: Sequence[Attempt]) -> str | None:
    """None: nothing that is known here. The first that holds for a good part of the first lines."""
    lines = _first_lines(attempts)
    if not lines:
        return "an empty file"
    for name, pattern in _KINDS:
        if sum(pattern.search(line) is not None for line in lines) >= max(1.0, len(lines) * _LEAST_SHARE):
            return name
    return None


def _first_lines(attempts: Sequence[Attempt]) -> list[str]:
    records: Iterable[str] = (record.message for one in attempts for record in one.records[:_LOOKED_AT])
    return [line[:2_000] for text in records for line in text.split("\n") if line.strip()][:_LOOKED_AT]
