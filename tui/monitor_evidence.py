"""What the monitor knows of a server, as evidence for a diagnosis of its log."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from engine_probe.command_line import parse_command
from engine_probe.errors import InputError
from playbooks.evidence import Evidence
from playbooks.evidence_host import HostState
from playbooks.monitor_json import as_object

if TYPE_CHECKING:
    from engine_probe.hardware.reading import Reading, Server
    from engine_probe.launch import Launch


def evidence_of(server: Server, reading: Reading) -> Evidence:
    """Its launch, on the GPUs where it is, and the host as it was read."""
    when = time.strftime("%H:%M:%S", time.localtime(reading.time))
    return Evidence(launch=launch_of(server), host_state=HostState(as_object(reading, ()), f"this host at {when}"))


def launch_of(server: Server) -> Launch | None:
    """None where it was never seen with its command, or where that cannot be read."""
    if not server.argv:
        return None
    try:
        launch = parse_command(server.argv, name=server.name, source=f"pid {server.pid}")
    except InputError:
        return None
    return launch if launch.gpus is not None or not server.gpus else replace(launch, gpus=server.gpus)
