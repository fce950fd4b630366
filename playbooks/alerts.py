"""What is wrong with the picture that a look at the host gives: alerts with numbers, worst first.

Only what is known can be wrong: nothing is said of an unknown value. The rules are in alerts_*.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from playbooks.alert import Alert, gpu_names
from playbooks.alerts_gpus import gpu_alerts
from playbooks.alerts_host import host_alerts
from playbooks.alerts_loads import load_alerts
from playbooks.alerts_memory import held_memory_alerts
from playbooks.alerts_serving import serving_alerts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine_probe.hardware.reading import Reading

__all__ = ["Alert", "find_alerts"]

_GPU = re.compile(r"GPU \d+")
_SIZE = re.compile(r"^(\d+\.\d) GiB")
_ORDER = {"error": 0, "warning": 1}


def find_alerts(reading: Reading, before: Reading | None = None) -> tuple[Alert, ...]:
    """`before` is an earlier look at the same host: with it, what grows is seen too."""
    found = [
        *gpu_alerts(reading),
        *held_memory_alerts(reading),
        *load_alerts(reading),
        *host_alerts(reading),
        *serving_alerts(reading, before),
    ]
    return tuple(sorted(_grouped(found), key=lambda one: _ORDER[one.severity]))


def _grouped(alerts: Iterable[Alert]) -> list[Alert]:
    """What is the same of several GPUs is said once."""
    groups: dict[object, list[Alert]] = {}
    for place, one in enumerate(alerts):
        same = (one.severity, _about_all(one), one.playbook, one.pid, one.what_to_do)
        groups.setdefault(same if _GPU.fullmatch(one.about) else place, []).append(one)
    return [_together(group) for group in groups.values()]


def _about_all(alert: Alert) -> str:
    """Its text without its GPU, and without its size: of several that is from the least to the most."""
    return _SIZE.sub("…", alert.text.removeprefix(f"{alert.about}: "), count=1)


def _together(group: Sequence[Alert]) -> Alert:
    first = group[0]
    if len(group) == 1:
        return first
    about = gpu_names(int(one.about.rpartition(" ")[2]) for one in group)
    texts = [one.text.removeprefix(f"{one.about}: ") for one in group]
    sizes = [float(found[1]) for text in texts if (found := _SIZE.search(text))]
    text = texts[0]
    if sizes:
        least, most = min(sizes), max(sizes)
        each = f"{least:.1f} GiB each" if most - least < 0.1 else f"{least:.1f} to {most:.1f} GiB each"
        text = _SIZE.sub(each, text, count=1)
    return replace(first, about=about, text=f"{about}: {text}")
