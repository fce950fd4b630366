"""What is wrong with the picture that a look at the host gives: alerts with numbers, worst first.

Only what is known can be wrong: nothing is said of an unknown value. The rules are in alerts_*.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.alert import Alert
from playbooks.alerts_gpus import gpu_alerts
from playbooks.alerts_host import host_alerts
from playbooks.alerts_loads import load_alerts
from playbooks.alerts_memory import held_memory_alerts
from playbooks.alerts_serving import serving_alerts

if TYPE_CHECKING:
    from engine_probe.hardware.reading import Reading

__all__ = ["Alert", "find_alerts"]

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
    return tuple(sorted(found, key=lambda one: _ORDER[one.severity]))
