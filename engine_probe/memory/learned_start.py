"""Learns from the log of a real start: after a load, or from a log that somebody names."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from engine_probe.errors import InputError, nearest_word
from engine_probe.logs.telling import telling_records
from engine_probe.memory.cards import find_model
from engine_probe.memory.learned_log import Where, learn_from_log
from engine_probe.memory.learned_model import fingerprint_of
from engine_probe.memory.learned_store import keep_learned
from engine_probe.memory.model_folder import model_folder
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from engine_probe.launch import Deployment, Launch
    from engine_probe.logs.records import Record

_MOST_OFF = 0.03
"""How far a card's memory as printed may be from what its name says: it is another card beyond."""


def learn(
    deployment: Deployment,
    launch_name: str,
    log: Path,
    *,
    card: str | None = None,
    version: str | None = None,
    predicted: Mapping[str, float] | None = None,
    store: Path | None = None,
) -> int:
    """How many starts of this launch were new in the log.

    `card`: any name of the GPU it ran on, "cpu" for a CPU build; None: the GPU of this host that the launch names.
    `predicted`: as `predictions_of` gives it, to keep beside what was printed. Raises InputError.
    """
    launch = deployment.launch(launch_name)
    if launch is None:
        names = [one.name for one in deployment.models]
        raise InputError(
            f"the deployment has no model {quoted(launch_name, 80)}",
            allowed=tuple(names),
            nearest=nearest_word(launch_name, names),
        )
    return learn_of_launch(
        launch, _records(log), log.name, card=card, version=version, predicted=predicted, store=store
    )


def learn_of_launch(
    launch: Launch,
    records: Sequence[Record],
    log_name: str,
    *,
    card: str | None = None,
    version: str | None = None,
    predicted: Mapping[str, float] | None = None,
    store: Path | None = None,
) -> int:
    """As `learn`, of records that were read already, such as a probe's. Raises InputError."""
    name = card if card is not None else _card_here(launch, records)
    _check_card(name, records, log_name)
    where = Where(fingerprint_of(model_folder(launch)), name, log_name, time.time(), version)
    return keep_learned(learn_from_log(records, launch, where, predicted), store)


def learn_after_load(launch: Launch, log: Path, store: Path | None = None) -> str | None:
    """After a load of this host that answered; why nothing was learnt, None where something was or is known already.

    What goes wrong here is never the load's own trouble.
    """
    try:
        records = _records(log)
        starts = learn_of_launch(launch, records, log.name, store=store)
    except InputError as error:
        return error.message
    return None if starts or _prints_memory(records) else "its log says nothing of memory"


def _prints_memory(records: Sequence[Record]) -> bool:
    return any(name.startswith(("kv.", "weights.")) for record in records for name in record.facts)


def _records(log: Path) -> list[Record]:
    try:
        if not log.is_file():
            raise InputError("is no file; a log is wanted", file=str(log))
        return telling_records(os.open(log, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=str(log)) from None


def _card_here(launch: Launch, records: Sequence[Record]) -> str:
    """A CPU build says how much memory its node has; else it is a GPU of this host."""
    if any("host.node_total_gib" in record.facts for record in records):
        return "cpu"
    from engine_probe.hardware.gpus import read_gpus  # noqa: PLC0415 - asks the driver

    state = read_gpus()
    wanted = launch.gpus[:1] if launch.gpus else tuple(gpu.index for gpu in state.gpus[:1])
    names = [gpu.name for gpu in state.gpus if gpu.index in wanted]
    if not names:
        why = state.unavailable or "there is no such GPU here"
        raise InputError(f"which GPU the log is of is not known ({why}): name it, such as A100-80GB, or cpu")
    return names[0]


def _check_card(card: str, records: Sequence[Record], log_name: str) -> None:
    told = next((one for record in records if (one := record.facts.get("memory.device_gib")) is not None), None)
    known = find_model(card)
    if known is None or not isinstance(told, (int, float)):
        return
    size = known.total_gib
    if not size.low * (1 - _MOST_OFF) <= told <= size.high * (1 + _MOST_OFF):
        raise InputError(
            f"the log is of a card with {told:g} GiB; {quoted(card, 60)} has {size.value:.1f}", file=log_name
        )
