"""What a fault needs of the host beyond a CPU, and why it is not to be had here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engine_probe.hardware.gpus import read_gpus
from playbooks.lab.cgroups import memory_cgroups
from playbooks.lab.mounts import why_no_mounts
from playbooks.lab.unmade import CannotMake

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine_probe.engine import Engine
    from playbooks.lab.faults import Fault


def why_not(fault: Fault, engine: Engine) -> str | None:
    """Why this host cannot make the fault; None: it can, as far as its file says."""
    for need in fault.needs:
        reason = _REASONS[need](engine)
        if reason is not None:
            return reason
    return None


def _gpu(_engine: Engine) -> str | None:
    state = read_gpus()
    return state.unavailable or (None if state.gpus else "there is no GPU")


def _memory_cgroup(_engine: Engine) -> str | None:
    try:
        memory_cgroups()
    except CannotMake as error:
        return str(error)
    return None


def _root(_engine: Engine) -> str | None:
    return None if os.geteuid() == 0 else "only root can make it"


def _mounts(_engine: Engine) -> str | None:
    return why_no_mounts()


def _network(_engine: Engine) -> str | None:
    return "it wants the network, which no run of the lab may count on"


_REASONS: Mapping[str, Callable[[Engine], str | None]] = {
    "gpu": _gpu,
    "memory-cgroup": _memory_cgroup,
    "network": _network,
    "root": _root,
    "tmpfs": _mounts,
}
NEEDS = tuple(_REASONS)
