"""Evidence that nobody has and that would decide, by the place where it is to be had and the option that gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine_probe.facts import Unknown
from playbooks.computed import COMPUTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from playbooks.conditions import Answer, Lookup

_HOST_STATE = "--host-state FILE, or --here on that host"
_FOLDER = "--model-dir DIR with --launch or --deployment"
_PLACES = (
    ("launch.env.", "environment", '--launch "NAME=VALUE vllm serve …"'),
    ("launch.", "launch", '--launch "vllm serve …" or --deployment FILE'),
    ("model.", "config.json", _FOLDER),
    ("weights.on_disk", "model files", _FOLDER),
    ("files.", "model files", _FOLDER),
    ("adapter.", "adapter files", '--launch "vllm serve … --lora-modules NAME=DIR"'),
    ("neighbours.", "deployment", "--deployment FILE"),
    ("deployment.", "deployment", "--deployment FILE"),
    ("gpu.cuda_version", "the driver", "nvidia-smi on that host"),
    ("gpu.", "gpu processes", _HOST_STATE),
    ("host.port_owner", "who holds the port", "ss -ltnp on that host"),
    ("host.is_wsl", "kind of host", "uname -r on that host"),
    ("host.", "host state", _HOST_STATE),
    ("packages", "engine packages", "--engine ENGINE"),
    ("engine.", "the start of the log", "the log from its first line on"),
)
_LOG = ("more of the log", "the log to its last line")


class Missing(NamedTuple):
    """`decides`: the causes that this evidence would tell apart or judge. `supplied_by`: the option, or what to do."""

    evidence: str
    decides: tuple[str, ...]
    supplied_by: str = ""


def place_of(fact: str) -> tuple[str, str]:
    """Where a fact is to be had, and what gives it: `gpu processes` of `gpu.used_by_others_gib`."""
    return next(((place, by) for prefix, place, by in _PLACES if fact.startswith(prefix)), _LOG)


def is_in_log(fact: str) -> bool:
    """Only a log that goes on tells it: one that ends in a failure has said all."""
    return place_of(fact) == _LOG


def roots_of(fact: str, lookup: Lookup) -> tuple[str, ...]:
    """The facts that nobody has and that `fact` is computed from; `fact` itself where it is not computed.

    Where something beside the log would do, the log, which had its chance to tell, is not asked for.
    """
    functions = {one.name: one.answer for one in COMPUTED}

    def unknown(name: str) -> Iterator[str]:
        if name not in functions:
            yield name
            return
        asked: list[str] = []

        def tracing(other: str) -> Answer:
            answer = lookup(other)
            if isinstance(answer, Unknown) and other != name:
                asked.append(other)
            return answer

        functions[name](tracing)
        for one in dict.fromkeys(asked):
            yield from unknown(one)

    found = tuple(dict.fromkeys(unknown(fact)))
    beside = tuple(one for one in found if not is_in_log(one))
    return beside or found or (fact,)


def missing_of(wanted: Iterable[tuple[str, str]]) -> tuple[Missing, ...]:
    """From pairs of (unknown fact, cause that wants it), in the order of the causes."""
    decides: dict[tuple[str, str], list[str]] = {}
    for fact, cause in wanted:
        causes = decides.setdefault(place_of(fact), [])
        if cause not in causes:
            causes.append(cause)
    return tuple(Missing(evidence, tuple(causes), by) for (evidence, by), causes in decides.items())
