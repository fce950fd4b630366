"""The experiments that a hypothesis may `run`: what each does, what it tells apart, and which facts it leaves.

They are data (data/experiments.tsv): one more load with a change, or one more script, needs no Python here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

Cost = Literal["none", "seconds", "one full start"]


class NamedExperiment(NamedTuple):
    """One row of the table; its header says how each column is read. `how`, `grade`, `change` are empty for `-`."""

    name: str
    kind: Literal["load", "examine"]
    how: str
    grade: str
    cost: Cost
    change: str
    facts: tuple[str, ...]
    meaning: str
    """What it does, as a sentence without its subject."""
    tells_apart: str

    @property
    def watches_gpus(self) -> bool:
        """What others do to the GPUs is sampled while it loads."""
        return self.how == "gpu-growth"

    @property
    def is_alone(self) -> bool:
        """No other model of the deployment runs beside it."""
        return self.how == "alone"

    @property
    def default_change(self) -> dict[str, str]:
        """The one variable that it changes where the hypothesis names none."""
        key, _, value = self.change.partition("=")
        return {key: value} if key else {}


@cache
def every() -> tuple[NamedExperiment, ...]:
    """In the order of the table, which is read once."""
    lines = (Path(__file__).parent / "data" / "experiments.tsv").read_text(encoding="utf-8").splitlines()
    return tuple(_row(line) for line in lines if line and not line.startswith("#"))


def names() -> tuple[str, ...]:
    """All that `run` may name."""
    return tuple(one.name for one in every())


def named(name: str) -> NamedExperiment:
    """The experiment of that name, which the loader has checked to exist."""
    return next(one for one in every() if one.name == name)


def experiment_lines(one: NamedExperiment) -> tuple[str, ...]:
    """All that there is to know of it, a sentence a line."""
    what = "one load" if one.kind == "load" else "an examination: nothing is loaded"
    change = f"changes {one.change.replace('=', ': ', 1)}" if one.change else ""
    return tuple(
        line
        for line in (
            f"does: {one.meaning}",
            f"tells apart: {one.tells_apart}",
            f"costs: {one.cost} ({what})",
            change,
            f"leaves: {', '.join(one.facts)}",
        )
        if line
    )


def _row(line: str) -> NamedExperiment:
    name, kind, how, grade, cost, change, facts, meaning, tells_apart = (
        "" if cell == "-" else cell for cell in line.split("\t")
    )
    return NamedExperiment(name, kind, how, grade, cost, change, tuple(facts.split()), meaning, tells_apart)  # type: ignore[arg-type]
