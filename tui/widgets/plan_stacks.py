"""What each GPU would hold, model by model and by purpose; what does not fit lies on top and says by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine_probe.facts import Unknown
from engine_probe.memory.cards import CPU
from playbooks.placement import held_gib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.cards import Card
    from engine_probe.memory.estimates import Amount
    from playbooks.placement import PlacedModel, Plan
    from tui.themes.glyphs import Glyphs
    from tui.widgets.row_pane import Piece, Row

Purpose = Literal["weights", "rest", "pool", "unsplit", "others"]
LETTERS = "123456789abcdefghijklmnopqrstuvwxyz"
COLOURS = ("$layer-frontend", "$layer-engine", "$layer-model-runner", "$layer-worker", "$layer-outside")
_SEEN_GIB = 0.005


@dataclass(frozen=True)
class Part:
    """A run of the bar. `number`: the model's place in the start order, None for other processes."""

    purpose: Purpose
    gib: float
    number: int | None = None
    fits: bool = True


@dataclass(frozen=True)
class Holder:
    """One model on the GPU. `gib` None: not known; `lacks_gib`: what it is short of there, where that is a size."""

    number: int
    name: str
    gib: float | None
    fits: bool
    lacks_gib: float | None = None


@dataclass(frozen=True)
class Stack:
    """`last`: of a run of GPUs that hold the same."""

    first: int
    last: int
    total_gib: float
    parts: tuple[Part, ...]
    holders: tuple[Holder, ...]
    others: str | None
    """Why nobody knows what other processes hold."""

    @property
    def used_gib(self) -> float:
        return sum(part.gib for part in self.parts if part.fits)

    @property
    def is_too_full(self) -> bool:
        return any(not holder.fits for holder in self.holders)


def colour_of(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def stacks_of(plan: Plan, *, joins_alike: bool = False) -> tuple[Stack, ...]:
    """One a GPU; `joins_alike`: neighbours that hold the same are one."""
    stacks: list[Stack] = []
    for card in plan.cards:
        stack = _stack(plan, card)
        before = stacks[-1] if stacks else None
        if joins_alike and before is not None and before.last + 1 == stack.first and _alike(before, stack):
            stacks[-1] = Stack(before.first, stack.last, *_content(before))
        else:
            stacks.append(stack)
    return tuple(stacks)


def _content(stack: Stack) -> tuple[float, tuple[Part, ...], tuple[Holder, ...], str | None]:
    return stack.total_gib, stack.parts, stack.holders, stack.others


def _alike(one: Stack, other: Stack) -> bool:
    return _content(one) == _content(other)


def _stack(plan: Plan, card: Card) -> Stack:
    parts: list[Part] = []
    holders: list[Holder] = []
    others = card.others_gib
    if not isinstance(others, Unknown) and others.value > _SEEN_GIB:
        parts.append(Part("others", others.value))
    held = dict(held_gib(plan, card))
    for number, model in enumerate(plan.models):
        if card.index in model.ranks and model.fits:
            parts += _parts(model, card, number, held[model.launch.name])
            holders.append(Holder(number, model.launch.name, value_of(held[model.launch.name]), fits=True))
    taken = sum(part.gib for part in parts)
    for number, model in enumerate(plan.models):
        if card.index in model.ranks and not model.fits:
            wanted = _times(model, card, model.ranks[card.index].occupied)
            parts += _parts(model, card, number, wanted)
            lacks = lacking_gib(model.ranks[card.index], card, taken, value_of(wanted))
            holders.append(Holder(number, model.launch.name, value_of(wanted), False, lacks))
    unknown = others.reason if isinstance(others, Unknown) else None
    return Stack(card.index, card.index, card.total_gib.value, tuple(parts), tuple(holders), unknown)


def _times(model: PlacedModel, card: Card, amount: Amount) -> Amount:
    """On CPUs all workers share the host's memory."""
    if card.family != CPU or isinstance(amount, Unknown):
        return amount
    return amount.scaled(model.asked.values.parallel.world)


def _parts(model: PlacedModel, card: Card, number: int, held: Amount) -> list[Part]:
    memory = model.ranks[card.index]
    whole = value_of(held)
    if whole is None:
        return []
    weights, pool = (value_of(_times(model, card, one)) for one in (memory.parts.weights, memory.kv_pool))
    if weights is None or pool is None:
        return [Part("unsplit", whole, number, model.fits)]
    pool = max(pool, 0.0)
    sizes: tuple[tuple[Purpose, float], ...] = (
        ("weights", weights),
        ("rest", max(0.0, whole - weights - pool)),
        ("pool", pool),
    )
    return [Part(purpose, gib, number, model.fits) for purpose, gib in sizes if gib > _SEEN_GIB]


def lacking_gib(memory: RankMemory, card: Card, taken_gib: float, wanted_gib: float | None) -> float | None:
    """What is missing there: of the card, else of the budget, else of the pool. None: it is not a matter of size."""
    if wanted_gib is not None and taken_gib + wanted_gib > card.total_gib.value:
        return taken_gib + wanted_gib - card.total_gib.value
    pool, room, left = value_of(memory.kv_pool), memory.room, value_of(memory.after_warm_up)
    if pool is not None and pool < 0:
        return -pool
    if pool is not None and not isinstance(room, Unknown) and room.needed_gib > pool:
        return room.needed_gib - pool
    return -left if left is not None and left < 0 else None


def value_of(amount: Amount) -> float | None:
    return None if isinstance(amount, Unknown) else amount.value


# Drawing


def glyph_of(purpose: Purpose, glyphs: Glyphs) -> str:
    return {
        "weights": glyphs.used,
        "rest": glyphs.other,
        "pool": glyphs.pool,
        "unsplit": glyphs.unsplit,
        "others": glyphs.others,
    }[purpose]


def draw_stack(stack: Stack, width: int, glyphs: Glyphs) -> Row:
    """Exactly `width` cells. A model's run begins with its letter; one that does not fit ends in a `!`."""
    counts = cells_of([part.gib for part in stack.parts], stack.total_gib, width)
    pieces: list[Piece] = []
    begun: set[int] = set()
    for part, count in zip(stack.parts, counts, strict=True):
        if not count:
            continue
        text = glyph_of(part.purpose, glyphs) * count
        style = "$quiet" if part.number is None else colour_of(part.number) if part.fits else "$error"
        if part.number is not None and part.number not in begun:
            begun.add(part.number)
            pieces.append((LETTERS[part.number % len(LETTERS)], f"{style} bold"))
            text = text[1:]
        pieces.append((text, style))
    free = width - sum(counts)
    if free:
        pieces.append((glyphs.free * free, "$rule"))
    return _with_warning(pieces) if stack.is_too_full else tuple(pieces)


def _with_warning(pieces: list[Piece]) -> Row:
    """`!` in the last cell that is not free, or in the first free one."""
    last = len(pieces) - 1
    is_free = pieces[last][1] == "$rule"
    text, style = pieces[last]
    if is_free:
        pieces[last:] = [("!", "$error bold"), (text[1:], style)]
    else:
        pieces[last:] = [(text[:-1], style), ("!", "$error bold")]
    return tuple(piece for piece in pieces if piece[0])


def cells_of(sizes: Sequence[float], total: float, width: int) -> list[int]:
    """So many cells each, together at most `width`. A run ends where its sum ends: rounding never adds up."""
    cells: list[int] = []
    reached = 0.0
    for size in sizes:
        reached += max(size, 0.0)
        end = min(round(reached / total * width), width) if total > 0 else 0
        cells.append(end - sum(cells))
    return cells


def legend(stacks: Sequence[Stack], glyphs: Glyphs, words: Mapping[Purpose, str]) -> str:
    seen = {part.purpose for stack in stacks for part in stack.parts}
    told = [f"{glyph_of(purpose, glyphs)} {word}" for purpose, word in words.items() if purpose in seen]
    return "  ".join([*told, f"{glyphs.free} free"])
