"""The last step of an installation: the new engine really loads a tiny model and answers a request."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe import events as ev
from engine_probe.engine import EngineError
from engine_probe.launch import Deployment, Launch
from engine_probe.probe_run import ProbeRun
from engine_probe.quoting import quoted
from engine_probe.supervisor import Limits, Probe
from playbooks.lab.tiny_model import write_tiny_llama
from tui.commands.interrupts import run_to_end

if TYPE_CHECKING:
    from engine_probe.engine import Engine
    from engine_probe.launch import ArgValue

_LONGEST_LOAD_SECONDS = 600.0
_ARGS: dict[str, ArgValue] = {"max-model-len": 256, "kv-cache-memory-bytes": "64M", "enforce-eager": True}
_ENV = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def prove_engine(engine: Engine) -> None:
    """Load a tiny model from nothing, as a user would, and ask it once. Raises EngineError with the reason."""
    with tempfile.TemporaryDirectory(prefix="vllm-console-proof-") as folder:
        model = write_tiny_llama(Path(folder) / "tiny")
        deployment = Deployment((Launch(name="tiny", model=str(model), args=_ARGS, env=_ENV),))
        reason = run_to_end(_why_not(engine, deployment, Path(folder)))
    if reason is not None:
        raise EngineError(f"the engine was installed but does not load a tiny model: {reason}")


async def _why_not(engine: Engine, deployment: Deployment, folder: Path) -> str | None:
    """None when the model loaded and answered."""
    reason = "it ended without a word"
    async with Probe(engine, limits=Limits(load_s=_LONGEST_LOAD_SECONDS), owns=folder) as probe:
        run = ProbeRun(probe, deployment, "cold")
        async for event in run.events():
            if isinstance(event, ev.Failed):
                first = event.exceptions[0] if event.exceptions else None
                reason = f"{first['type']}: {first['message']}" if first else event.reason
            elif isinstance(event, ev.RequestAnswered) and event.status != 200:
                reason = event.error or f"its first request was answered with {event.status}: {quoted(event.text, 200)}"
            elif isinstance(event, ev.Trouble) and event.fatal:
                reason = event.text
    return None if run.answered and not run.failed else reason
