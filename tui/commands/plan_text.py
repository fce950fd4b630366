"""A memory plan as text: a bar a GPU, and for each model what it takes, with ranges and what stops it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from engine_probe.memory.cards import CPU
from playbooks.placement import free_gib, held_gib
from tui.commands.monitor_bar import ASCII, UNICODE, Share, drawn, legend
from tui.output import terminal_width
from tui.plain_text import asks_for_ascii

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.memory.accounting_result import RankMemory
    from engine_probe.memory.cards import Card
    from engine_probe.memory.estimates import Amount
    from playbooks.placement import PlacedModel, Plan
    from tui.commands.monitor_bar import Signs
    from tui.output import Output

_LEAST_BAR, _MOST_BAR = 20, 60
_ASIDE, _CLAUSE = re.compile(r"\s*\([^()]*\)"), re.compile(r"[;:,] | and ")
_LEAST_SOURCE, _MOST_SOURCE = 14, 36
_SHORT_GIB = 0.005
_WHAT_IS_FREE = "free: torch's total, less other processes and models, CUDA contexts counted"


def print_plan(output: Output, plan: Plan, *, ascii_only: bool) -> None:
    """Verdict first, then GPUs, models and what was not known."""
    signs = ASCII if ascii_only or asks_for_ascii() else UNICODE
    output.text(_verdict(plan), "bold")
    output.text()
    bars = list(_bars(plan, signs))
    for line in bars:
        output.text(line)
    output.text(legend(bars, signs))
    if any(card.family != CPU for card in plan.cards):
        output.text(_WHAT_IS_FREE)
    for model in plan.models:
        output.text()
        _print_model(output, model)
    notes = [*plan.notes]
    if notes:
        output.text()
    for note in notes:
        output.folded(f"note: {note}", "")


def _verdict(plan: Plan) -> str:
    release = f"vLLM {plan.version}" if plan.version else "an unknown release of vLLM"
    many = len(plan.models) > 1
    if plan.fits:
        return f"{'all models fit' if many else 'it fits'}, by the accounting of {release}"
    failing = [model.launch.name for model in plan.models if not model.fits]
    return f"does not fit: {', '.join(failing)}, by the accounting of {release}"


def _bars(plan: Plan, signs: Signs) -> Iterator[str]:
    """Cards that look the same are one line."""
    names = [f"{card.name}  {card.total_gib.value:.1f} GiB" for card in plan.cards]
    shares = [_shares(plan, card) for card in plan.cards]
    heads = [_heading(plan, first, last) for first, last in _runs(names, shares)]
    wide = max(map(len, heads), default=0)
    width = max(_LEAST_BAR, min(_MOST_BAR, terminal_width() - wide - 12))
    for (first, _), head in zip(_runs(names, shares), heads, strict=True):
        card = plan.cards[first]
        bar = drawn(shares[first], card.total_gib.value, width, signs)
        free = free_gib(plan, card)
        yield f"{head.ljust(wide)}  {bar}  {'unknown' if isinstance(free, Unknown) else f'{free.value:.1f}'} free"


def _runs(names: list[str], shares: list[list[Share]]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for place, alike in enumerate(zip(names, shares, strict=True)):
        if runs and alike == (names[runs[-1][0]], shares[runs[-1][0]]):
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs


def _heading(plan: Plan, first: int, last: int) -> str:
    card = plan.cards[first]
    index = f"{card.index}" if first == last else f"{card.index}-{plan.cards[last].index}"
    return f"GPU {index}  {card.name}  {card.total_gib.value:.1f} GiB"


def _shares(plan: Plan, card: Card) -> list[Share]:
    """Each model that starts: weights, the KV pool, and the rest of what it holds."""
    shares = []
    if not isinstance(card.others_gib, Unknown) and card.others_gib.value > 0:
        shares.append(Share("others", card.others_gib.value))
    for model in plan.models:
        memory = model.ranks.get(card.index)
        if memory is None or not model.fits:
            continue
        held = _value(dict(held_gib(plan, card))[model.launch.name])
        ranks = model.asked.values.parallel.world if card.family == CPU else 1
        weights, pool = (_value(one) for one in (memory.parts.weights, memory.kv_pool))
        if held is None or weights is None or pool is None:
            continue
        weights, pool = weights * ranks, pool * ranks
        shares += [Share("weights", weights), Share("rest", max(0.0, held - weights - pool)), Share("kv_pool", pool)]
    return shares


def _print_model(output: Output, model: PlacedModel) -> None:
    launch = model.launch
    where = f"GPU {_spans(model.gpus)}" if model.gpus else "the CPU"
    output.text(f"{launch.name}  on {where}: {'fits' if model.fits else 'does not fit'}", "bold")
    if model.why_not is not None:
        output.folded(f"{model.why_not.text} ({model.why_not.id})")
    if model.worst is not None:
        _print_memory(output, model, model.worst)
    for note in model.notes:
        output.folded(f"note: {note}")
    for doubt in model.asked.shape.doubts:
        output.folded(f"not known for sure: {doubt}")


def _print_memory(output: Output, model: PlacedModel, memory: RankMemory) -> None:
    batch, parts = memory.batch, memory.parts
    output.folded(
        f"utilisation {memory.utilization:g}, length {memory.max_len}, {batch.seqs} requests and {batch.tokens} tokens "
        f"a step ({memory.rules})"
    )
    amounts: dict[str, Amount] = {
        "weights": parts.weights,
        "activation": parts.activation,
        "non-torch": parts.non_torch,
        "CUDA graphs": parts.graphs,
        "CUDA context": parts.context,
        "budget": memory.budget,
        "KV pool": memory.kv_pool,
    }
    for name, amount in amounts.items():
        output.text(f"  {name:13}{_range(amount):28} {short_source(_source(amount))}")
    if not isinstance(memory.room, Unknown):
        per_token = f"{memory.room.bytes_per_token:,} bytes" if memory.room.bytes_per_token else "unknown"
        output.text(f"  {'per token':13}{per_token}")
    room = model.room
    if room is not None:
        output.text(
            f"  {'tokens':13}{room.tokens:,}, {room.concurrency:.2f} requests of {memory.max_len} tokens at once"
        )


def short_source(source: str) -> str:
    """Where a number comes from, on what is left of a line; `--json` has all of it."""
    while (shorter := _ASIDE.sub("", source)) != source:
        source = shorter
    if len(source) <= _MOST_SOURCE:
        return source
    ends = [match.start() for match in _CLAUSE.finditer(source, _LEAST_SOURCE) if match.start() <= _MOST_SOURCE]
    return source[: ends[-1]] if ends else source[:_MOST_SOURCE].rpartition(" ")[0] or source[:_MOST_SOURCE]


def _spans(gpus: tuple[int, ...]) -> str:
    """Such as `0-3, 6`."""
    spans: list[list[int]] = []
    for gpu in gpus:
        if spans and gpu == spans[-1][1] + 1:
            spans[-1][1] = gpu
        else:
            spans.append([gpu, gpu])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _range(amount: Amount) -> str:
    if isinstance(amount, Unknown):
        return "unknown"
    if amount.value <= -_SHORT_GIB:
        return f"none: {-amount.value:.2f} GiB short"
    if round(amount.low, 2) == round(amount.high, 2):
        return f"{amount.value:.2f} GiB"
    return f"{amount.value:.2f} GiB ({amount.low:.2f} to {amount.high:.2f})"


def _source(amount: Amount) -> str:
    return amount.reason if isinstance(amount, Unknown) else amount.source


def _value(amount: Amount) -> float | None:
    return None if isinstance(amount, Unknown) else amount.value
