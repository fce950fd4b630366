"""The orders to the child, as child/orders.py reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.launch import Launch
    from engine_probe.load_conditions import LoadConditions
    from engine_probe.requests import Request


def warm_order(launches: Sequence[Launch]) -> dict[str, Any]:
    """Import what `launches` need, under their environments together."""
    env = {name: value for launch in launches for name, value in launch.child_env().items()}
    return {"do": "warm", "model_dirs": [launch.model for launch in launches], "env": env}


def load_order(
    launch: Launch, grade: str, *, hang_s: float, keep_port: bool, is_local: bool, conditions: LoadConditions
) -> dict[str, Any]:
    """`is_local`: relative paths of the launch are meant from here."""
    return {
        "do": "load",
        "model": launch.name,
        "model_dirs": [launch.model],
        "argv": launch.argv(),
        "env": dict(launch.child_env()),
        "cwd": str(Path.cwd()) if is_local else None,
        "grade": grade,
        "keep_port": keep_port,
        "hang_s": hang_s,
        "conditions": conditions.order(),
    }


def request_order(model: str, request: Request) -> dict[str, Any]:
    """`burst` where it is to be sent over and over, else `request`."""
    burst = request.burst
    return {
        "do": "request" if burst is None else "burst",
        **({} if burst is None else {"at_once": burst.at_once, "seconds": burst.seconds}),
        "model": model,
        "id": request.id,
        "path": request.path,
        "body": None if request.body is None else dict(request.body),
        "timeout_s": request.timeout_s,
    }


def own_order(folder: Path) -> dict[str, Any]:
    return {"do": "own", "folder": str(folder)}


def stop_order(model: str, reason: str | None) -> dict[str, Any]:
    return {"do": "stop", "model": model, "reason": reason}
