"""GPUs that a plan is made for: from a catalogue by a word such as `8xA100-80GB`, or as the driver reports them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError, nearest_word
from engine_probe.escapes import with_visible_controls
from engine_probe.facts import Known, Unknown
from engine_probe.memory.estimates import Estimate, exact
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.hardware.gpus import Gpu, GpuState
    from engine_probe.hardware.host import HostState
    from engine_probe.memory.estimates import Amount

_GROUP = re.compile(r"(?:(\d+)\s*[x×*]\s*)?([A-Za-z][\w .+-]*|\d{4}(?!\d)\w*(?:[ -][\w .+-]*)?)", re.ASCII)
_SIZE = re.compile(r"[ _-]?(\d{1,4})\s*G(?:i?B)?$", re.IGNORECASE)
_SIZES = re.compile(r"\d\s*G(?:i?B)?(?![a-z0-9])|\d\s*GB", re.IGNORECASE)
_LOOKALIKES = (str.maketrans("o", "0"), str.maketrans("oil", "011"))
_MOST_TIMES_ITS_SIBLING = 4
_CPU = re.compile(r"cpu-(\d{1,5})\s*G(?:i?B)?", re.IGNORECASE)
MOST_CARDS = 1024
_MOST_HOST_GIB = 65536
CPU = "cpu"
"""The family of a host's memory, where a plan is for an engine without GPUs."""
_LEAST_SHARE, _USUAL_SHARE, _MOST_SHARE = 0.92, 0.975, 0.995
"""Of the size in a name, in GiB: what torch sees on cards of this catalogue lies between, mostly near the middle."""
_VENDOR_WORDS = ("nvidia", "amd", "geforce", "tesla", "instinct", "graphics", "generation")


class Model(NamedTuple):
    """One row of the catalogue."""

    name: str
    nominal_gb: int
    total_gib: Estimate
    capability: float | None
    """CUDA's, such as 9.0; None: not known."""
    family: str


@dataclass(frozen=True)
class Card:
    """One GPU that a model may be placed on. `total_gib` is what torch sees, which is less than the driver's total."""

    index: int
    model: Model
    total_gib: Estimate
    others_gib: Amount
    """What processes that the plan does not place hold now."""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def family(self) -> str:
        return self.model.family

    @property
    def counts_as_a100(self) -> bool:
        """vLLM gives cards with this in their name smaller batches (engine/arg_utils.py, get_batch_defaults)."""
        return "a100" in self.model.name.lower()


@cache
def catalogue() -> Mapping[str, Model]:
    """Every name and alias, folded, to its row; read once."""
    lines = (Path(__file__).parent / "data" / "cards.tsv").read_text(encoding="utf-8").splitlines()
    models: dict[str, Model] = {}
    for line in lines:
        if not line or line.startswith("#"):
            continue
        name, aliases, nominal, total, low, high, capability, family, evidence = line.split("\t")
        size = Estimate(float(total), float(low), float(high), f"declared: catalogue of GPUs, {name} ({evidence})")
        model = Model(name, int(nominal), size, float(capability), family)
        for word in (name, *aliases.split("|")):
            if word:
                models.setdefault(_folded(word), model)
    return models


def parse_gpus(text: str) -> tuple[Card, ...]:
    """The cards that `8xA100-80GB` or `2xH100-80GB,1xL4-24GB` names, numbered from 0, nobody else on them.

    A name that is not in the catalogue counts by the size in it. Raises InputError.
    """
    text = with_visible_controls(text)
    described = _CPU.fullmatch(text.strip())
    if described is not None and 1 <= int(described[1]) <= _MOST_HOST_GIB:
        size = exact(float(described[1]), "declared: --gpus")
        return (_cpu_card(size, exact(0.0, "declared: hardware that --gpus describes")),)
    models: list[Model] = []
    for group in text.split(","):
        count, model = _group(group.strip(), text)
        if len(models) + count > MOST_CARDS:
            raise InputError(f"--gpus {quoted(text, 60)}: at most {MOST_CARDS} GPUs are planned for at once")
        models += [model] * count
    free = exact(0.0, "declared: hardware that --gpus describes, with nobody on it")
    return tuple(Card(index, model, model.total_gib, free) for index, model in enumerate(models))


def host_card(host: HostState) -> Card:
    """The host's memory as the one card of a plan for CPUs. Raises InputError where its size is not known."""
    if not isinstance(host.ram_total_gib, Known):
        raise InputError("the host's memory cannot be read; describe it: --gpus cpu-64GB")
    limit = host.cgroup_limit_gib
    size = float(host.ram_total_gib.value)
    if isinstance(limit, Known):
        size = min(size, float(limit.value))
    free = host.ram_available_gib
    used = size - min(size, float(free.value)) if isinstance(free, Known) else 0.0
    others: Amount = exact(used, "measured: memory in use now") if isinstance(free, Known) else Unknown("not readable")
    return _cpu_card(exact(size, "measured: the host's memory"), others)


def _cpu_card(size: Estimate, others: Amount) -> Card:
    return Card(0, Model("CPU", round(size.value), size, None, CPU), size, others)


def _group(group: str, text: str) -> tuple[int, Model]:
    match = _GROUP.fullmatch(group)
    if match is None:
        raise InputError(f"--gpus {quoted(text, 60)}: {quoted(group, 40)!r} is no GPU; write it like 8xA100-80GB")
    digits = (match[1] or "1").lstrip("0")
    count = MOST_CARDS + 1 if len(digits) > len(str(MOST_CARDS)) else int(digits or 0)
    if count < 1:
        raise InputError(
            f"--gpus {quoted(text, 60)}: {quoted(group, 40)!r} is no GPU at all; write it like 8xA100-80GB"
        )
    return count, _named(match[2].strip(), text)


def _named(word: str, text: str) -> Model:
    """By the catalogue, else by the size that the word ends with. Raises InputError."""
    model = find_model(word)
    if model is not None and (model in catalogue().values() or _may_be(word)):
        return model
    asked = f"--gpus {quoted(text, 60)}: "
    if _folded(word).startswith(CPU):
        sizes = f"from cpu-1GB to cpu-{_MOST_HOST_GIB}GB"
        raise InputError(f"{asked}a host's memory is described alone, with its size, {sizes}", nearest="cpu-64GB")
    near = _meant(word)
    if model is not None:
        raise InputError(f'{asked}"{quoted(word, 40)}" is no GPU; write it like {near or "8xA100-80GB"}', nearest=near)
    example = near if near is not None and _SIZE.search(near) else f"{quoted(word, 20)}-24GB"
    raise InputError(f'{asked}no GPU "{quoted(word, 40)}" is known; add its size, such as {example}', nearest=near)


def _meant(word: str) -> str | None:
    misread = _misread(_SIZE.sub("", word))
    if misread is not None:
        return misread.name
    known = {model.name for model in catalogue().values()}
    return nearest_word(word, [*known, *(name.rpartition("-")[0] for name in sorted(known))])


def _may_be(word: str) -> bool:
    """Whether a card that the catalogue lacks may be called so: a name, and its size once at the end."""
    size = _SIZE.search(word)
    stem = word[: size.start()] if size is not None else ""
    if size is None or _SIZES.search(stem) or _folded(stem).startswith(CPU):
        return False
    sibling = catalogue().get(_folded(stem))
    if sibling is not None:
        return int(size[1]) <= _MOST_TIMES_ITS_SIBLING * sibling.nominal_gb
    return _misread(stem) is None and not re.match(r"x\d", _folded(stem))


def _misread(stem: str) -> Model | None:
    """A card of the catalogue, where letters stand for the digits that look like them."""
    read = (catalogue().get(_folded(stem).translate(table)) for table in _LOOKALIKES)
    return next((model for model in read if model is not None), None)


def find_model(word: str) -> Model | None:
    """By a name as people, drivers or torch write it: `A100-80GB`, `RTX4090-24GB`, `NVIDIA H100 80GB HBM3`, `L4`."""
    known = catalogue().get(_folded(_SIZE.sub(r"-\1GB", word.strip())))
    if known is not None:
        return known
    plain = re.sub(r"hbm\d\w?|sxm\d?|pcie", "", _folded(word))
    known = catalogue().get(plain)
    if known is not None:
        return known
    size = _SIZE.search(word.strip()) or re.search(r"(\d{1,4})\s*GB", word, re.IGNORECASE)
    return None if size is None else _by_size(word, int(size[1]))


def _by_size(word: str, nominal_gb: int) -> Model | None:
    """Of a card that the catalogue lacks, or that it has with another size."""
    if not 1 <= nominal_gb <= 4096:
        return None
    stem = _folded(_SIZE.sub("", word.strip()))
    sibling = catalogue().get(stem)
    total = Estimate(
        nominal_gb * _USUAL_SHARE,
        nominal_gb * _LEAST_SHARE,
        nominal_gb * _MOST_SHARE,
        f"computed: {quoted(word, 40)} is not in the catalogue of GPUs; its size less what drivers usually keep",
    )
    capability, family = (None, "unknown") if sibling is None else (sibling.capability, sibling.family)
    return Model(word.strip()[:40], nominal_gb, total, capability, family)


def unlisted(cards: Iterable[Card]) -> tuple[str, ...]:
    """What is to be said of cards that count by the size in their name alone, once a name."""
    names = {card.name: card for card in cards if card.total_gib.source.startswith("computed: ")}
    return tuple(
        f"{card.total_gib.source.removeprefix('computed: ')}: {card.total_gib.low:.1f} to {card.total_gib.high:.1f} GiB"
        + (f" (known and near: {near})" if (near := _meant(name)) is not None else "")
        for name, card in names.items()
    )


def _folded(word: str) -> str:
    """Letters and digits in lower case, without the maker's words: they are written or left out at will."""
    lower = word.lower()
    for vendor in _VENDOR_WORDS:
        lower = lower.replace(vendor, "")
    return re.sub(r"[^a-z0-9]", "", lower).removeprefix("rtx")


def live_cards(state: GpuState) -> tuple[Card, ...]:
    """The GPUs of this host with what others hold. Raises InputError where none can be read."""
    if not state.gpus:
        reason = state.unavailable or "the driver lists none"
        raise InputError(f"no GPU of this host can be read ({reason}); describe the hardware: --gpus 8xA100-80GB")
    return tuple(_live(gpu) for gpu in state.gpus)


def _live(gpu: Gpu) -> Card:
    found = find_model(gpu.name)
    measured = _torch_total(gpu, found)
    model = found or Model(gpu.name, round(measured.value), measured, None, "unknown")
    return Card(gpu.index, Model(gpu.name, *model[1:]), measured, _others(gpu, measured))


def _torch_total(gpu: Gpu, model: Model | None) -> Estimate:
    """CUDA's own total is the driver's less its reserve; where the reserve is not told, as the catalogue has it."""
    told = gpu.cuda_total_gib
    if isinstance(told, Known):
        return exact(float(told.value), "measured: NVML, total less the driver's reserve")
    if isinstance(gpu.total_gib, Known):
        total = float(gpu.total_gib.value)
        if model is not None and abs(model.total_gib.value - total) < 0.05 * total:
            return model.total_gib
        return Estimate(total * 0.99, total * 0.97, total, "measured: NVML, total; the driver's reserve is not known")
    if model is not None:
        return model.total_gib
    raise InputError(f"the size of GPU {gpu.index} ({gpu.name}) cannot be read; describe it: --gpus 1x{gpu.name}-80GB")


def _others(gpu: Gpu, cuda_total: Estimate) -> Amount:
    """Drivers that tell their reserve keep it out of what is in use (nvml.h, nvmlMemory_v2_t); others count it in."""
    if not isinstance(gpu.used_gib, Known):
        return Unknown(f"the memory in use of GPU {gpu.index} cannot be read")
    used = float(gpu.used_gib.value)
    if isinstance(gpu.reserved_gib, Known) or not isinstance(gpu.total_gib, Known):
        return exact(used, "measured: NVML, used now")
    reserves = [
        max(0.0, float(gpu.total_gib.value) - total) for total in (cuda_total.high, cuda_total.value, cuda_total.low)
    ]
    most, value, least = (max(0.0, used - reserve) for reserve in reserves)
    return Estimate(value, least, most, "measured: NVML, used now, less the driver's reserve")
