"""What a running server was started with, from the words of its command line; secrets never leave here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.escapes import safe_lines
from engine_probe.hardware.server_titles import entry_length, words_of
from engine_probe.redact import mask, mask_argv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DEFAULT_PORT = 8000
_SIZES = ("tensor-parallel-size", "pipeline-parallel-size")


@dataclass(frozen=True)
class Started:
    """`model` empty: the command does not say it (a --config file, or a default). `port` None: it is not a number."""

    name: str
    model: str
    argv: tuple[str, ...]
    port: int | None = _DEFAULT_PORT
    host: str | None = None
    root_path: str = ""
    has_tls: bool = False
    socket_path: str | None = None
    has_config_file: bool = False
    kv_cache_bytes: float | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    gpus_needed: int = 1


def started_with(words: Sequence[str], env: Mapping[str, str] | None) -> Started:
    """Of a server's process. What the command does not say is as vLLM has it by default."""
    from engine_probe.command_line import parse_command  # noqa: PLC0415 - only where there is a server

    plain = words_of(words)
    shown = tuple(safe_lines(word) for word in mask_argv(plain))
    try:
        values = parse_command(plain, source="the process").values()
    except InputError:
        values = dict(_by_hand(plain))
    model = str(values.get("model") or "")
    served = values.get("served-model-name")
    first = served[0] if isinstance(served, tuple) and served else served
    tp, pp = (_number(values.get(key)) or 1 for key in _SIZES)
    dp = _number(values.get("data-parallel-size-local")) or _number(values.get("data-parallel-size")) or 1
    uds, root_path = values.get("uds"), values.get("root-path")
    name = str(first) if first else model
    return Started(
        name=safe_lines(mask(name)),
        model=safe_lines(mask(model)),
        argv=shown,
        port=_number(values.get("port", _DEFAULT_PORT)),
        host=str(values["host"]) if isinstance(values.get("host"), str) else None,
        root_path=root_path if isinstance(root_path, str) else "",
        has_tls=any(key in values for key in ("ssl-keyfile", "ssl-certfile")),
        socket_path=uds if isinstance(uds, str) else None,
        has_config_file="config" in values,
        kv_cache_bytes=_bytes(values.get("kv-cache-memory-bytes"), env),
        tensor_parallel=tp,
        pipeline_parallel=pp,
        gpus_needed=tp * pp * dp,
    )


def _by_hand(words: Sequence[str]) -> dict[str, str]:
    """The few values that matter, of a command that our reader refuses, such as one of a newer vLLM."""
    found: dict[str, str] = {}
    rest = list(words[entry_length(words) :])
    if rest and not rest[0].startswith("-"):
        found["model"] = rest[0]
    for word, value in zip(rest, [*rest[1:], ""], strict=False):
        name, equals, attached = word.partition("=")
        if word.startswith("--"):
            key = name[2:].replace("_", "-")
            found[key] = attached if equals else value if not value.startswith("-") else ""
        elif name in ("-tp", "-pp"):
            found["tensor-parallel-size" if name == "-tp" else "pipeline-parallel-size"] = attached or value
    return found


def _number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else None


def _bytes(value: object, env: Mapping[str, str] | None) -> float | None:
    """Of --kv-cache-memory-bytes, or of the variable that the CPU build reads, in GiB there."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    size = (env or {}).get("VLLM_CPU_KVCACHE_SPACE", "")
    return int(size) * 1024.0**3 if size.isdecimal() and len(size) < 6 and int(size) > 0 else None
