"""Prints a logging call as vLLM of a release prints it: brackets, process prefix and colour of that release."""

from __future__ import annotations

from pathlib import Path

RELEASES = (
    *("0.5.5", "0.6.6.post1", "0.7.3", "0.8.5", "0.9.2", "0.10.2", "0.11.2"),
    *("0.13.0", "0.16.0", "0.20.2", "0.25.1", "0.29.0", "0.32.0", "0.33.0"),
)
LOGS = Path(__file__).parent / "data" / "logs"

# Tag of a process by the release in which it begins to be printed, newest first.
_TAGS = {
    "frontend": (("0.10.2", "APIServer"),),
    "engine": (("0.20.2", "EngineCore"), ("0.10.2", "EngineCore_DP0"), ("0.8.5", "EngineCore_0")),
    "worker": (("0.10.2", "Worker_TP1"), ("0.6.6.post1", "VllmWorker rank=1"), ("0.5.5", "VllmWorkerProcess")),
}


def tag_of(release: str, kind: str) -> str | None:
    """The process tag that `kind` prints in `release`; None where it prints none."""
    at = RELEASES.index(release)
    return next((tag for first, tag in _TAGS[kind] if RELEASES.index(first) <= at), None)


def printed(release: str, file: str, line: int, level: str, message: str, kind: str | None = None) -> str:
    """A record as it reaches a file: prefixes coloured to 0.11.2, \\r at the end of each line but the last."""
    at = RELEASES.index(release)
    place = f"[{file}:{line}]" if at >= RELEASES.index("0.8.5") else f"{file}:{line}]"
    tag = tag_of(release, kind) if kind is not None else None
    prefix = "" if tag is None else f"({tag} pid=4711)"
    if prefix:
        prefix = f"\x1b[1;36m{prefix}\x1b[0;0m " if at <= RELEASES.index("0.11.2") else f"{prefix} "
    head = f"{prefix}{level} 03-02 10:11:12 {place} "
    return "\r\n".join(head + part for part in message.split("\n"))


def rows(name: str) -> list[list[str]]:
    """The rows of a table in tests/data/logs."""
    lines = (LOGS / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]
