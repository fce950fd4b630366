"""Which stage a traceback was raised in, by the functions it went through: data/functions.tsv."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.logs.layers import path_below_vllm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine_probe.logs.tracebacks import Chain

_FOLDERS = (("config", "config"), ("compilation/", "warmup"))


@lru_cache(maxsize=1)
def stage_by_function() -> dict[str, str]:
    """Function of vLLM → stage."""
    text = (Path(__file__).parent / "data" / "functions.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {function: stage for function, stage in rows}  # noqa: C416 - rows are lists


def stage_of_chains(chains: Sequence[Chain]) -> str | None:
    """The stage of the first exception whose frames tell: its innermost function that is known decides."""
    known = stage_by_function()
    for raised in (one for chain in chains for one in chain):
        for frame in reversed(raised.frames):
            path = path_below_vllm(frame.file)
            if path is None:
                continue
            stage = known.get(frame.function) or next((at for start, at in _FOLDERS if path.startswith(start)), None)
            if stage is not None:
                return stage
    return None
