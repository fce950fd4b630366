"""Which part of a vLLM engine a process is, by its command line or the title that it gave itself.

Titles: vllm/utils/system_utils.py set_process_title (0.10 to 0.33: VLLM_PROCESS_NAME_PREFIX, `::`, the name), called in
v1/utils.py, v1/engine/core.py, v1/executor/multiproc_executor.py; ray sets `ray::CLASS.method`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.hardware.reading import Role

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:-dbg|t)?")
_MODULES = frozenset(
    (
        "vllm.entrypoints.openai.api_server",
        "vllm.entrypoints.api_server",
        "vllm.entrypoints.cli.main",
        "vllm.entrypoints.grpc_server",
        "vllm",
    )
)
_FILES = ("vllm/entrypoints/openai/api_server.py", "vllm/entrypoints/api_server.py")
_NEEDS_SERVE = frozenset(("vllm", "vllm.entrypoints.cli.main"))
_WITH_VALUE = frozenset(("-X", "-W", "--check-hash-based-pycs"))
# The kernel keeps 15 signs of a name, which is all that a zombie has left.
_TITLE = re.compile(r"[\w.-]*::(?P<name>(?:EngineCor|Worker|APIServer|ApiServer|DPCoordinator|DPSupervisor)\w*)$")
_OWN_NAME = re.compile(r"VllmWorker(?:Process)?(?:-(?P<rank>\d{1,6}))?$")
_RAY = re.compile(r"ray::(?:\w*RayWorker\w*|WorkerWrap\w*|vllm\w*)", re.IGNORECASE)
_PARALLEL = re.compile(r"_(DP|PP|PCP|TP|DCP|EP)(\d{1,6})")
_NUMBERED = re.compile(r"_(\d{1,6})$")
_CHILD = "from multiprocessing.spawn import spawn_main"
_TRACKER = ("from multiprocessing.resource_tracker import", "from multiprocessing.forkserver import")


class Part(NamedTuple):
    """`entry`: words before the server's own arguments, where this is a command that starts a server; else 0."""

    role: Role
    rank: int | None = None
    entry: int = 0


def part_of(words: Sequence[str]) -> Part | None:
    """None: by its words alone it is no part of an engine."""
    if not words:
        return None
    first = words[0]
    if "::" in first:
        return _of_title(first)
    if length := entry_length(words):
        return Part("api_server", None, length)
    if found := _OWN_NAME.match(first):
        return Part("worker", int(found["rank"]) if found["rank"] else None)
    return None


def _of_title(title: str) -> Part | None:
    if _RAY.match(title):
        return Part("ray")
    found = _TITLE.match(title.rstrip())
    if found is None:
        return None
    name = found["name"]
    if name.startswith("EngineCor"):
        return Part("engine_core", _rank_in(name, "DP"))
    if name.startswith("Worker"):
        return Part("worker", _rank_in(name, "TP"))
    if name.startswith("DPCoordinator"):
        return Part("helper")
    number = _NUMBERED.search(name)
    return Part("api_server", int(number[1]) if number else _rank_in(name, "DP"))


def _rank_in(name: str, kind: str) -> int | None:
    """The rank that is numbered by one kind of parallelism; with several, that of `kind`, which tells ranks apart."""
    parts = _PARALLEL.findall(name)
    wanted = [number for found, number in parts if found == kind]
    others = [number for found, number in parts if found not in ("EP", "DCP")]
    chosen = wanted or (others if len(others) == 1 else [])
    return int(chosen[0]) if chosen else None


def entry_length(words: Sequence[str]) -> int:
    """How many words of a running process stand before vLLM's own arguments; 0: it starts no server.

    Only what runs vLLM itself counts: an editor, a pager or a shell with such words in its arguments does not.
    """
    if len(words) == 1 and " " in words[0]:  # a process that gave itself its command line as title
        return entry_length(words[0].split())
    at = 0
    if _PYTHON.fullmatch(_base(words[0])):
        at = 1
        while at < len(words) and words[at].startswith("-") and words[at] not in ("-m", "-c"):
            at += 2 if words[at] in _WITH_VALUE else 1
        if at + 1 < len(words) and words[at] == "-m" and words[at + 1] in _MODULES:
            return _behind(words, at + 1, needs_serve=words[at + 1] in _NEEDS_SERVE)
        if at < len(words) and words[at].endswith(_FILES):
            return at + 1
    return _behind(words, at, needs_serve=True) if at < len(words) and _base(words[at]) == "vllm" else 0


def _behind(words: Sequence[str], at: int, *, needs_serve: bool) -> int:
    if not needs_serve:
        return at + 1
    return at + 2 if at + 1 < len(words) and words[at + 1] == "serve" else 0


def words_of(words: Sequence[str]) -> list[str]:
    """The words of a command, also of one that is a title."""
    return words[0].split() if len(words) == 1 else list(words)


def is_python(words: Sequence[str], name: str) -> bool:
    """Whether a process is an interpreter or something that one runs, such as a script."""
    is_interpreter = bool(words) and _PYTHON.fullmatch(_base(words[0])) is not None
    return is_interpreter or name.startswith(("python", "vllm", "pt_"))


def is_spawned(words: Sequence[str]) -> bool:
    """A child of Python's multiprocessing that has not given itself a title (yet)."""
    return any(_CHILD in word for word in words[1:4])


def is_tracker(words: Sequence[str]) -> bool:
    return any(word.startswith(_TRACKER) for word in words[1:4])


def _base(word: str) -> str:
    return word.rpartition("/")[2]
