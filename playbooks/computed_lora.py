"""Facts about LoRA limits: the values that this release allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from playbooks.computing import Computed, MissingInputError, first_number, known, number

if TYPE_CHECKING:
    from playbooks.conditions import Answer, Lookup

# config.py 0.5.5 to 0.10.2 and config/lora.py from 0.11.2
_RANKS_BEFORE_011 = (8, 16, 32, 64, 128, 256, 320, 512)
_RANKS = (1, *_RANKS_BEFORE_011)


def _rank_allowed(lookup: Lookup) -> tuple[float, str]:
    """The smallest `--max-lora-rank` of this release that takes the adapter."""
    wanted = first_number(lookup, "adapter_rank", "asked_rank", "adapter.rank")
    version = lookup("engine.vllm_version")
    is_old = isinstance(version, Known) and str(version.value).startswith(tuple(f"0.{minor}." for minor in range(11)))
    ranks = _RANKS_BEFORE_011 if is_old or not isinstance(version, Known) else _RANKS
    allowed = next((rank for rank in ranks if rank >= wanted), None)
    if allowed is None:
        raise MissingInputError(f"rank {wanted:g} is above {ranks[-1]}, the largest that vLLM takes")
    return allowed, f"the next allowed value for rank {wanted:g}"


def _cpu_loras_needed(lookup: Lookup) -> tuple[float, str]:
    return int(first_number(lookup, "max_loras", "launch.max_loras")), "max-loras: the host must hold at least as many"


def _slots_needed(lookup: Lookup) -> tuple[float, str]:
    return int(number(lookup, "adapters_asked")), "adapters of one batch"


def _base_differs(lookup: Lookup) -> Answer:
    """By the last part of the names: folders are renamed less often than moved."""
    told, served = lookup("adapter.base_model"), lookup("launch.model")
    if not isinstance(told, Known) or not isinstance(served, Known):
        return Unknown("the adapter's base or the served model is not known")
    names = [_last_part(str(one.value)) for one in (told, served)]
    return Known(names[0] != names[1], "computed", f"{told.value} and {served.value}")


def _launch_of_its_base(lookup: Lookup) -> Answer:
    """Another launch of the deployment that serves the base which the adapter names."""
    told, models, own = lookup("adapter.base_model"), lookup("deployment.models"), lookup("launch.name")
    if not isinstance(told, Known) or not isinstance(models, Known) or not isinstance(own, Known):
        return Unknown("the adapter's base or the deployment is not known")
    base = _last_part(str(told.value))
    for pair in str(models.value).split():
        name, _, model = pair.partition("=")
        if name != own.value and _last_part(model) == base:
            return Known(name, "computed", f"the adapter names {told.value}, and {name} serves it")
    return Unknown(f"no other model of the deployment is {told.value}")


def _last_part(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2].lower()


COMPUTED: tuple[Computed, ...] = (
    Computed(
        "lora.max_rank_needed",
        "max-lora-rank that takes it",
        "",
        "smallest allowed max-lora-rank",
        known(_rank_allowed),
    ),
    Computed(
        "lora.cpu_loras_needed", "max-cpu-loras needed", "", "smallest max-cpu-loras allowed", known(_cpu_loras_needed)
    ),
    Computed(
        "lora.base_differs",
        "adapter of another base",
        "",
        "the adapter's config names another base than the one served",
        _base_differs,
    ),
    Computed(
        "lora.launch_of_its_base",
        "model that the adapter was made for",
        "",
        "another launch of the deployment that serves the base which the adapter names",
        _launch_of_its_base,
    ),
    Computed("lora.slots_needed", "LoRA slots needed", "", "max-loras for that batch", known(_slots_needed)),
)
