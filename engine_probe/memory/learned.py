"""What real starts of vLLM printed about their memory, and what of it a later plan may use.

A start is told apart by its model, vLLM's release, the card and the arguments. What was printed is kept, not a factor:
a better prediction later makes nothing that was learnt wrong.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from engine_probe.logs.versions import key_of
from engine_probe.memory.cards import find_model
from engine_probe.memory.estimates import Estimate
from engine_probe.memory.learned_args import Setting, weight_args, without_pool_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.memory.accounting_kv import Room
    from engine_probe.memory.accounting_result import Parts, RankMemory
    from engine_probe.memory.estimates import Amount
    from engine_probe.memory.learned_model import Fingerprint

Quantity = Literal[
    "weights_gib",
    "activation_gib",
    "non_torch_gib",
    "graphs_gib",
    "graphs_estimated_gib",
    "kv_pool_gib",
    "kv_tokens",
    "kv_blocks",
    "max_concurrency",
]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
_OF_THE_POOL = frozenset(("kv_pool_gib", "kv_tokens", "kv_blocks", "max_concurrency"))
_COUNTS = (("tokens", "kv_tokens"), ("blocks", "kv_blocks"))
_FIXED_POOL = frozenset(("kv-cache-memory-bytes", "env.VLLM_CPU_KVCACHE_SPACE", "num-gpu-blocks-override"))
"""Without one of them a CPU build takes a share of the host's memory, and hosts differ."""
_ROUNDED_BY = 0.005
"""Sizes and concurrency are printed with two digits behind the point."""
_COUNTED = frozenset(("kv_tokens", "kv_blocks"))


class Printed(NamedTuple):
    """A number as the log has it, of the rank that needs most or whose pool is smallest. `at`: such as "a.log:57"."""

    value: float
    at: str


@dataclass(frozen=True)
class Start:
    """One start. `id` tells it from every other, so that one log that is read twice counts once."""

    id: str
    time: float
    """When it was learnt, in seconds since the epoch."""
    model: Fingerprint
    version: str
    card: str
    args: Mapping[str, Setting]
    printed: Mapping[str, Printed]
    predicted: Mapping[str, float] = field(default_factory=dict)
    """What the plan of then had said, where somebody had planned it."""

    def differences(self) -> dict[str, float]:
        """Printed less predicted, for a person; no later plan uses it."""
        return {name: one.value - self.predicted[name] for name, one in self.printed.items() if name in self.predicted}


@dataclass(frozen=True)
class Correction:
    """What to take instead of a prediction. `kind`: the same arguments, or the same of those that decide this size."""

    quantity: str
    value: float
    low: float
    high: float
    starts: int
    kind: Literal["same arguments", "same arguments but for the pool's", "same weights"]
    places: tuple[str, ...]

    @property
    def source(self) -> str:
        """Such as "learnt from 3 starts (a.log:57, …)"."""
        more = ", …" if len(self.places) > 1 else ""
        return f"learnt from {self.starts} start{'s' if self.starts > 1 else ''} ({self.places[0]}{more})"

    def estimate(self) -> Estimate:
        return Estimate(self.value, self.low, self.high, self.source)


Corrections = dict[str, Correction]
"""By quantity; empty where nothing that fits was learnt."""


def corrections_for(
    starts: Iterable[Start], model: Fingerprint, version: str | None, card: str, args: Mapping[str, Setting]
) -> Corrections:
    """`args` as `launch_args` gives them. Of a release that is not known nothing was learnt.

    All of it from starts with the same arguments; activation, graphs and what is beside torch also from those that
    differ in what only divides the pool; weights also from those that differ in what does not decide them.
    """
    key = card_key(card)
    alike = [
        one
        for one in starts
        if version is not None and is_same_release(one.version, version) and one.model.fits(model) and one.card == key
    ]
    exact = [one for one in alike if dict(one.args) == dict(args)]
    pool = [one for one in alike if without_pool_args(one.args) == without_pool_args(args)]
    weights = [one for one in alike if weight_args(one.args) == weight_args(args)]
    if key == "cpu" and not _FIXED_POOL & args.keys():
        exact = [replace(one, printed={n: p for n, p in one.printed.items() if n not in _OF_THE_POOL}) for one in exact]
    found: Corrections = {}
    for name in QUANTITIES:
        made = _correction(name, exact, "same arguments")
        if made is None and name not in _OF_THE_POOL:
            made = _correction(name, pool, "same arguments but for the pool's")
        if made is None and name == "weights_gib":
            made = _correction(name, weights, "same weights")
        if made is not None:
            found[name] = made
    return found


def _correction(
    name: str,
    starts: Iterable[Start],
    kind: Literal["same arguments", "same arguments but for the pool's", "same weights"],
) -> Correction | None:
    """The middle of all starts; the range reaches over them and what rounding hides."""
    newest_first = sorted((one for one in starts if name in one.printed), key=lambda one: -one.time)
    if not newest_first:
        return None
    values = [one.printed[name].value for one in newest_first]
    places = tuple(dict.fromkeys(one.printed[name].at for one in newest_first))
    spread = 0.0 if name in _COUNTED else _ROUNDED_BY
    middle = statistics.median_low(values)
    return Correction(name, middle, min(values) - spread, max(values) + spread, len(values), kind, places)


def learned_parts(parts: Parts, learned: Mapping[str, Correction]) -> Parts:
    """With what was printed in the place of what was computed."""
    names = (
        ("weights", "weights_gib"),
        ("activation", "activation_gib"),
        ("non_torch", "non_torch_gib"),
        ("graphs", "graphs_gib"),
        ("graphs_in_budget", "graphs_estimated_gib"),
    )
    changed = {part: learned[name].estimate() for part, name in names if name in learned}
    if isinstance(parts.graphs_in_budget, Estimate) and not parts.graphs_in_budget.value:
        changed.pop("graphs_in_budget", None)  # a release that only tells the estimate, and takes nothing off
    return replace(parts, **changed) if changed else parts


def learned_room(room: Room, learned: Mapping[str, Correction]) -> Room:
    """Tokens, blocks and concurrency as they were printed."""
    if "kv_pool_gib" not in learned:
        return room
    counts = {part: int(learned[name].value) for part, name in _COUNTS if name in learned}
    concurrency = learned["max_concurrency"].value if "max_concurrency" in learned else room.concurrency
    return replace(room, concurrency=concurrency, **counts)  # type: ignore[arg-type]


def is_same_release(one: str, other: str) -> bool:
    """0.11.0rc1 and 0.11.0+cu129 count as 0.11.0; what is no release must be the same word."""
    keys = key_of(one), key_of(other)
    return keys[0] == keys[1] if None not in keys else one == other


def card_key(name: str) -> str:
    """One name for a card, however a driver, the catalogue or a person writes it; CPUs are all one."""
    if name.lower().startswith("cpu"):
        return "cpu"
    known = find_model(name)
    return known.name if known is not None else " ".join(name.split())[:80]


def predictions_of(memory: RankMemory) -> dict[str, float]:
    """What a plan says of one worker, under the names used here."""
    amounts: dict[str, Amount] = {
        "weights_gib": memory.parts.weights,
        "activation_gib": memory.parts.activation,
        "non_torch_gib": memory.parts.non_torch,
        "graphs_gib": memory.parts.graphs,
        "kv_pool_gib": memory.kv_pool,
    }
    found = {name: one.value for name, one in amounts.items() if isinstance(one, Estimate)}
    room = memory.room
    for name, attribute in (("kv_tokens", "tokens"), ("kv_blocks", "blocks"), ("max_concurrency", "concurrency")):
        value = getattr(room, attribute, None)
        if isinstance(value, (int, float)):
            found[name] = float(value)
    return found
