"""Runs a session over several models on a stand-in probe."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from engine_probe.deployment import read_deployment
from playbooks.context import Context, new_session
from playbooks.replay import Policy, drive
from playbooks.unattended import Unattended

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine_probe.events import Event
    from playbooks.decisions import Decision
    from playbooks.session import Session
    from tests.stand_in.ruled_probe import RuledProbe


async def run(
    file: Path,
    context: Context,
    probe: RuledProbe,
    policy: Policy | asyncio.Queue[Decision] | None = None,
    on_change: Callable[[Session, Event | None], None] = lambda _session, _event: None,
) -> Session:
    session = new_session("case", read_deployment(file), "warm", "warm")
    driving = drive(session, probe, policy or Unattended(), on_change, context=context)
    return await asyncio.wait_for(driving, 30)


def loads(probe: RuledProbe) -> list[str]:
    return [one for one in probe.asked if " load of " in one or one.startswith("stop ")]
