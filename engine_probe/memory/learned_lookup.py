"""Gives a plan what starts like those that it plans printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.errors import InputError
from engine_probe.memory.learned import corrections_for
from engine_probe.memory.learned_args import launch_args
from engine_probe.memory.learned_model import fingerprint_of
from engine_probe.memory.learned_store import Learned, read_learned
from engine_probe.memory.model_folder import model_folder

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.launch import Launch
    from engine_probe.memory.cards import Card
    from engine_probe.memory.learned import Corrections
    from engine_probe.memory.learned_model import Fingerprint


class Lookup:
    """Asked again and again while a plan is changed: a model's folder is looked at once."""

    def __init__(self, learned: Learned, version: str | None) -> None:
        self._starts = learned.starts
        self._version = version
        self._models: dict[str, Fingerprint | None] = {}

    def __call__(self, launch: Launch, card: Card) -> Corrections:
        """Empty where nothing was learnt of such a start, or the model is not here."""
        if self._version is None or not self._starts:
            return {}
        if launch.model not in self._models:
            self._models[launch.model] = _fingerprint(launch)
        model = self._models[launch.model]
        if model is None:
            return {}
        return corrections_for(self._starts, model, self._version, card.name, launch_args(launch))


def _fingerprint(launch: Launch) -> Fingerprint | None:
    try:
        return fingerprint_of(model_folder(launch))
    except InputError:
        return None


def learned_or_nothing(store: Path | None = None) -> tuple[Learned, str | None]:
    """What was learnt so far; and, where not all of it can be read, why: a plan goes on without it and says so."""
    try:
        found = read_learned(store)
    except InputError as error:
        return Learned(), f"what was learnt from earlier starts {error.message}"
    if not found.damaged:
        return found, None
    return found, f"of what was learnt from earlier starts, {found.damaged} lines are damaged and left out"
