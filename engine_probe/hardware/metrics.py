"""What /metrics of a vLLM server says of its KV cache and requests, whatever the release calls it.

Names: vllm/engine/metrics.py and vllm/v1/metrics/loggers.py, 0.5.5 to 0.33.0. `gpu_cache_usage_perc` became
`kv_cache_usage_perc` in 0.9 or 0.10 and both stood side by side for some releases; `lora_requests_info` is of 0.6.4.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import types
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from engine_probe.escapes import safe_lines
from engine_probe.facts import Fact, Known, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_KV_USE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
_RUNNING = ("vllm:num_requests_running",)
_WAITING = ("vllm:num_requests_waiting",)
_PREEMPTIONS = ("vllm:num_preemptions_total", "vllm:num_preemptions")
_ADAPTERS = "vllm:lora_requests_info"
_WANTED = tuple(name.encode() for name in (*_KV_USE, *_RUNNING, *_WAITING, *_PREEMPTIONS, _ADAPTERS))
_MOST_LINES = 5_000
_LONGEST_LINE = 16_000
_MOST_ADAPTERS = 200
_LONGEST_NAME = 200
_MOST_COUNTED = 10**12
"""A thousand requests a second come to that in thirty years."""

Sample = tuple[str, dict[str, str], float]


@dataclass(frozen=True)
class ServerMetrics:
    """Of all engines of one server; `models` are the names that its requests were counted for."""

    kv_use_percent: Fact
    running: Fact
    waiting: Fact
    preemptions: Fact
    adapters: tuple[str, ...] = ()
    models: frozenset[str] = frozenset()


def read_metrics(content: bytes, origin: str) -> ServerMetrics:
    """Of the text format that Prometheus reads. Raises ValueError where there is none."""
    samples = list(_samples(content))
    if not samples:
        raise ValueError("it has no metrics of vLLM's")
    return ServerMetrics(
        kv_use_percent=_fact(samples, _KV_USE, origin, _is_share, _mean_percent),
        running=_fact(samples, _RUNNING, origin, _is_count, _total),
        waiting=_fact(samples, _WAITING, origin, _is_count, _total),
        preemptions=_fact(samples, _PREEMPTIONS, origin, _is_count, _total),
        adapters=_adapters(samples),
        models=frozenset(labels["model_name"] for _, labels, _ in samples if "model_name" in labels),
    )


def _samples(content: bytes) -> Iterator[Sample]:
    """Only the few lines that are wanted are parsed: the rest, mostly histograms, is some hundred kilobytes."""
    wanted: list[bytes] = []
    for line in content.splitlines():
        if line.startswith(_WANTED) and len(line) <= _LONGEST_LINE:
            wanted.append(line)
            if len(wanted) > _MOST_LINES:
                raise ValueError(f"it has more than {_MOST_LINES} lines for what is one number each")
    names = {name.decode() for name in _WANTED}
    text = b"\n".join([*wanted, b""]).decode("utf-8", "replace")
    try:
        for family in _parser()(text):
            yield from ((one.name, one.labels, float(one.value)) for one in family.samples if one.name in names)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"a line of it cannot be read: {error}") from error


@lru_cache(maxsize=1)
def _parser() -> Callable[[str], Iterable[Any]]:
    """prometheus-client's parser alone, below a name of our own: its package would start collectors and HTTP servers
    of 4 to 14 MB, of which parsing needs nothing."""
    found = importlib.util.find_spec("prometheus_client")
    assert found is not None, "prometheus-client is installed with the console"
    package = types.ModuleType("_prometheus_client_parser_only")
    package.__path__ = list(found.submodule_search_locations or ())
    sys.modules[package.__name__] = package
    parser: Callable[[str], Iterable[Any]] = importlib.import_module(
        f"{package.__name__}.parser"
    ).text_string_to_metric_families
    return parser


def _fact(
    samples: list[Sample],
    names: tuple[str, ...],
    origin: str,
    can_be: Callable[[float], bool],
    joined: Callable[[list[float]], float],
) -> Fact:
    """Of the first of `names` that is there; several engines of a server have one sample each."""
    for name in names:
        values = [value for found, _, value in samples if found == name]
        if not values:
            continue
        odd = next((value for value in values if not can_be(value)), None)
        if odd is not None:
            return Unknown(f"{origin} says {name} = {odd:g}, which cannot be")
        return Known(joined(values), "measured", f"{origin} {name}")
    return Unknown(f"{origin} has no {names[0]} (with several API servers it comes with the first request)")


def _is_share(value: float) -> bool:
    return 0 <= value <= 1


def _is_count(value: float) -> bool:
    return 0 <= value <= _MOST_COUNTED and value.is_integer()


def _mean_percent(values: list[float]) -> float:
    return 100.0 * sum(values) / len(values)


def _total(values: list[float]) -> int:
    return int(sum(values))


def _adapters(samples: list[Sample]) -> tuple[str, ...]:
    """Each combination stays as a series of its own, with the time when it was last so as its value."""
    combinations = [(value, labels) for name, labels, value in samples if name == _ADAPTERS and math.isfinite(value)]
    if not combinations:
        return ()
    newest = max(combinations, key=lambda one: one[0])[1]
    names = ",".join((newest.get("running_lora_adapters", ""), newest.get("waiting_lora_adapters", ""))).split(",")
    kept = [safe_lines(name.strip()[:_LONGEST_NAME]) for name in names if name.strip()]
    return tuple(dict.fromkeys(kept))[:_MOST_ADAPTERS]
