"""The yes that a load needs where another process holds a target GPU: what is asked, and what is said without one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from engine_probe.errors import InputError
from tui.output import note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.events import Preflight


class ConsentError(InputError):
    """Nobody is there to say yes, and `--yes` was not given."""


def holders_in_words(found: Iterable[Preflight]) -> tuple[str, ...]:
    """Every process that holds a target GPU, once: `GPU 0 is held by pid 4711 (python): 10.0 GiB`."""
    return tuple(dict.fromkeys(_in_words(holder) for event in found for holder in event.holders))


def confirm_load(found: Iterable[Preflight], *, yes: bool) -> None:
    """Go on, or raise: ConsentError where nobody can be asked, click's Abort after a no."""
    held = holders_in_words(found)
    if not held:
        return
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        raise ConsentError("; ".join(held) + "; say --yes to load beside it")
    for words in held:
        note(words)
    if not yes:
        click.confirm("Load beside it?", abort=True, err=True)


def _in_words(holder: dict[str, object]) -> str:
    used = holder["used_gib"]
    size = f"{used:.1f} GiB" if isinstance(used, float) else "memory of unknown size"
    return f"GPU {holder['gpu_index']} is held by pid {holder['pid']} ({holder['name']}): {size}"
