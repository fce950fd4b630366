"""What pip is told, and how that is shown; apart from what runs it, since a diagnosis only shows it."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from engine_probe.outside.keys import REMOVE, is_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.engine import Engine

QUIET = ("--disable-pip-version-check", "--no-input")


def plain_name(name: str) -> str:
    """As the indexes compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pip_words(name: str, value: str, *, is_there: bool) -> tuple[str, ...]:
    """What pip is told. One that is there is changed alone; a new one comes with what it needs."""
    if value == REMOVE:
        return ("uninstall", "--yes", *QUIET, name)
    alone = ("--no-deps",) if is_there else ()
    return ("install", *QUIET, "--progress-bar", "off", *alone, wanted(name, value))


def wanted(name: str, value: str) -> str:
    """`numpy==2.1.3`, `numpy>=2,<3`."""
    return f"{name}{value}" if is_range(value) else f"{name}=={value}"


def shown(engine: Engine | None, words: Sequence[str]) -> str:
    """The command as a person types it; `engine` None: not known which Python."""
    prefix = ("python",) if engine is None else engine.prefix
    return shlex.join((*prefix, "-m", "pip", *words))
