"""What is said of a load that ended without being asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe import events

if TYPE_CHECKING:
    from engine_probe.child.members import Members
    from engine_probe.child.tracebacks import Chain


def failure(
    model: str,
    members: Members,
    chains: list[Chain],
    seconds: float,
    was_ready: bool,
    reason: str | None,
    oom_kills: int | None = None,
) -> events.Failed:
    """`reason` is that of a stop; without one it says how the root process ended."""
    code, name = members.root_ending()
    return events.Failed(
        model,
        reason=reason or _how(code, name, was_ready),
        exit_code=code,
        signal=name,
        processes=members.ended_processes(),
        exceptions=chains[0] if chains else [],
        seconds=seconds,
        oom_kills=oom_kills,
    )


def _how(code: int | None, signal_name: str | None, was_ready: bool) -> str:
    when = "after it was ready" if was_ready else "before it was ready"
    if signal_name is not None:
        return f"vllm was ended by {signal_name} {when}"
    return f"vllm exited with code {'unknown' if code is None else code} {when}"
