"""`vllm-console lab`: breaks a tiny real model on purpose, then diagnoses, fixes and verifies it on the real engine."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine_probe.deployment import read_deployment
from engine_probe.engines import engine_for
from engine_probe.preflight import look_at
from engine_probe.strict_yaml import InputError
from playbooks.context import Context, read_context
from playbooks.lab.building import build_fault
from playbooks.lab.faults import HEALTHY, Fault, fault_named, faults
from playbooks.unattended import Unattended
from tui.clear_click import ENGINE_HELP
from tui.commands.consent import confirm_load
from tui.commands.replay_run import run_session
from tui.commands.replay_text import SessionPrinter, exit_code
from tui.output import Output

if TYPE_CHECKING:
    from playbooks.session import Session


@dataclass(frozen=True)
class Wish:
    """The options of one call."""

    grade: str
    engine: str | None
    yes: bool
    keep: bool
    output: Output


@click.command()
@click.argument("names", nargs=-1, metavar="[list | NAME…]")
@click.option("--all", "run_all", is_flag=True, help="Every fault that this host can make.")
@click.option("--cold", is_flag=True, help="Start every load from nothing, as `vllm serve` would.")
@click.option("--json", "as_json", is_flag=True, help="One object a fault.")
@click.option("--yes", is_flag=True, help="Load even where another process holds a target GPU.")
@click.option("--engine", "engine_name", metavar="ENGINE", help=ENGINE_HELP)
@click.option("--keep", is_flag=True, help="Keep the folder with the model and the mended deployment.")
def lab(
    names: tuple[str, ...], run_all: bool, cold: bool, as_json: bool, yes: bool, engine_name: str | None, keep: bool
) -> int:
    """Break a tiny model on purpose, then find the cause, fix it and prove the fix, all on the real engine.

    \b
    vllm-console lab list
    vllm-console lab kv-cache-too-small-for-max-model-len
    """
    context = read_context()
    output = Output(as_json)
    if names == ("list",) or (not names and not run_all):
        _list(output)
        return 0
    chosen = _chosen(names, run_all)
    wish = Wish("cold" if cold else "warm", engine_name, yes, keep, output)
    return max(_run(fault, context, wish) for fault in chosen)


def _chosen(names: tuple[str, ...], run_all: bool) -> tuple[Fault, ...]:
    if run_all and names:
        raise InputError(f"--all and {names[0]}: give one of the two")
    if run_all:
        return faults()
    return tuple(fault_named(name) for name in names)


def _list(output: Output) -> None:
    known = faults()
    for fault in known:
        output.result(
            {"fault": fault.id, "family": fault.family, "cause": fault.cause, "title": fault.title}
            | {"needs": list(fault.needs)}
        )
    output.table(("FAULT", "FAMILY", "TITLE"), [(fault.id, fault.family, fault.title) for fault in known])


def _run(fault: Fault, context: Context, wish: Wish) -> int:
    """One fault from its making to its proof; 0 when the fix was verified and the cause was the one made."""
    began = time.monotonic()
    with ExitStack() as stack:
        if wish.keep:
            folder = Path(tempfile.mkdtemp(prefix="vllm-console-lab-"))
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vllm-console-lab-")))
        path = build_fault(fault, folder)
        output = wish.output
        output.text(f"Fault {fault.id}", "bold")
        output.folded(fault.title)
        if wish.keep:
            output.text(f"in {folder}")
        deployment = read_deployment(path)
        engine = engine_for(wish.engine, deployment)
        confirm_load(look_at(deployment, engine), yes=wish.yes)
        output.text(f"engine {engine.label}, {wish.grade}")
        printer = SessionPrinter(output, file_stays=wish.keep)
        run = run_session(
            deployment, engine, wish.grade, Unattended(), printer.on_change, context, owns=None if wish.keep else folder
        )
        session = asyncio.run(run)
    seconds = time.monotonic() - began
    found = _found(fault, session)
    output.result(found | {"seconds": round(seconds, 1), "engine": wish.grade})
    output.text(f"{seconds:.1f} s")
    verified = bool(found["verified"])
    printer.end(session, "verified" if verified else "not verified")
    return 0 if verified else max(1, exit_code(session))


def _found(fault: Fault, session: Session) -> dict[str, Any]:
    """The contract's object of one fault, without what the clock says."""
    ids = [cause.id for cause in session.causes]
    rank = ids.index(fault.cause) + 1 if fault.cause in ids else None
    return {
        "fault": fault.id,
        "cause": fault.cause,
        "diagnosed": ids[0] if ids else session.verdict,
        "rank": rank,
        "fix": session.applied_fix,
        "verified": _is_proved(fault, session, rank),
    }


def _is_proved(fault: Fault, session: Session, rank: int | None) -> bool:
    if fault.cause == HEALTHY:
        return session.verdict == HEALTHY
    return session.verdict == "verified" and rank == 1
