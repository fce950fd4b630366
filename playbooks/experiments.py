"""The experiments that a hypothesis may `run`: what each does and which facts it gives."""

from __future__ import annotations

from typing import NamedTuple


class NamedExperiment(NamedTuple):
    """`grade` is the load that it needs; None: it cannot be done by this console yet, `missing` says why."""

    name: str
    meaning: str
    grade: str | None
    missing: str = ""


_ALL = (
    NamedExperiment(
        "build-engine-config",
        "let the engine build its configuration with the change, without loading weights",
        "dry",
    ),
    NamedExperiment(
        "load-with-change",
        "load the model for real with the change",
        "warm",
    ),
    NamedExperiment(
        "watch-gpu-while-profiling",
        "load again and watch what other processes do to the GPU meanwhile",
        None,
        "the memory of other processes on the GPU is not sampled during a load",
    ),
)


def names() -> tuple[str, ...]:
    """All that `run` may name."""
    return tuple(one.name for one in _ALL)


def named(name: str) -> NamedExperiment:
    """The experiment of that name, which the loader has checked to exist."""
    return next(one for one in _ALL if one.name == name)
