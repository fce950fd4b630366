"""`vllm-console lab`: breaks tiny models on purpose, then diagnoses, fixes and verifies them on the real engine."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine_probe.engines import choose_engine
from engine_probe.strict_yaml import InputError
from playbooks.context import read_context
from playbooks.lab.choosing import new_seed, turns
from playbooks.lab.faults import Fault, families, fault_named, faults
from tui.clear_click import ENGINE_HELP
from tui.commands.interrupts import run_to_end
from tui.commands.lab_lanes import lanes_of, run_lanes
from tui.commands.lab_result import Result, summary
from tui.commands.lab_run import Bench
from tui.commands.replay_text import SessionPrinter, exit_code
from tui.output import Output

if TYPE_CHECKING:
    from engine_probe.events import Event
    from playbooks.context import Context
    from playbooks.lab.choosing import Turn
    from playbooks.replay import OnChange
    from playbooks.session import Session


@click.command()
@click.argument("names", nargs=-1, metavar="[list | NAME…]")
@click.option("--all", "run_all", is_flag=True, help="Every fault that this host can make.")
@click.option("--family", metavar="FAMILY", help="Of `list` and --all: those of one family alone.")
@click.option("--seed", type=int, metavar="N", help="Chooses the tenth that --all runs cold; printed when not given.")
@click.option("--cold", is_flag=True, help="Start every load from nothing; not those with a memory limit.")
@click.option("--json", "as_json", is_flag=True, help="One object a fault.")
@click.option("--record", is_flag=True, help="Write what was proved into the playbooks, under `tested`.")
@click.option("--yes", is_flag=True, help="Load even where another process holds a target GPU.")
@click.option("--engine", "engine_name", metavar="ENGINE", help=ENGINE_HELP)
@click.option("--keep", is_flag=True, help="Keep the folders with the models and the mended deployments.")
def lab(  # noqa: PLR0913, PLR0917 -- the options
    names: tuple[str, ...],
    run_all: bool,
    family: str | None,
    seed: int | None,
    cold: bool,
    as_json: bool,
    record: bool,
    yes: bool,
    engine_name: str | None,
    keep: bool,
) -> int:
    """Break tiny models on purpose, then find each cause, fix it and prove the fix, all on the real engine.

    \b
    vllm-console lab list
    vllm-console lab kv-cache-too-small-for-max-model-len
    vllm-console lab --all --family format
    """
    output = Output(as_json)
    if names == ("list",) or (not names and not run_all):
        _list(faults(family), output)
        return 0
    chosen = _chosen(names, run_all, family)
    if run_all and not cold:
        seed = new_seed() if seed is None else seed
        output.note(f"a tenth runs cold, chosen by --seed {seed}")
    planned = turns(chosen, all_cold=cold, seed=seed if run_all else None)
    folder = Path(tempfile.mkdtemp(prefix="vllm-console-lab-") if keep else tempfile.gettempdir())
    if keep:
        output.note(f"each fault is kept in a folder of its own under {folder}")
    bench = Bench(choose_engine(engine_name), read_context(), folder, yes, keep)
    for words in bench.context.left_out:
        output.note(words)
    teller = Teller(output, is_brief=len(planned) > 1, keeps=keep)
    began = time.monotonic()
    lanes = lanes_of(planned) if run_all else (planned,)
    results = run_to_end(run_lanes(lanes, bench, teller.begin, teller.end))
    if len(results) > 1:
        output.note(summary(results, time.monotonic() - began))
    if record:
        _record(results, bench.context, output)
    return max(_exit_code(one) for one in results)


def _chosen(names: tuple[str, ...], run_all: bool, family: str | None) -> tuple[Fault, ...]:
    if run_all and names:
        raise InputError(f"--all and {names[0]}: give one of the two")
    if names and family is not None:
        raise InputError(f"--family chooses among all; {names[0]} is named already", allowed=families())
    return faults(family) if run_all else tuple(fault_named(name) for name in names)


def _list(known: tuple[Fault, ...], output: Output) -> None:
    for fault in known:
        output.result(
            {
                "fault": fault.id,
                "family": fault.family,
                "cause": fault.cause,
                "title": fault.title,
                "models": len(fault.spec.models),
                "cold": fault.spec.cold,
                "needs": list(fault.needs),
            }
        )
    output.table(("FAULT", "FAMILY", "TITLE"), [(fault.id, fault.family, fault.title) for fault in known])


@dataclass
class Teller:
    """Prints one fault in full, or of several a line each."""

    output: Output
    is_brief: bool
    keeps: bool
    _printer: SessionPrinter | None = field(default=None)

    def begin(self, turn: Turn) -> OnChange:
        if self.is_brief:
            return _say_nothing
        self.output.text(f"Fault {turn.fault.id}", "bold")
        self.output.folded(turn.fault.title)
        self._printer = SessionPrinter(self.output, file_stays=self.keeps)
        return self._printer.on_change

    def end(self, result: Result) -> None:
        self.output.result(result.object())
        if self.is_brief:
            self.output.text("  ".join((f"{result.words()[0]:<8}", *result.words()[1:])))
        else:
            self.output.folded(result.told, indent="")
        reason = result.skipped or result.why_not
        if reason is not None:
            self.output.folded(reason)
        if result.kept is not None and result.skipped is None:
            self.output.folded(result.kept, indent="" if not self.is_brief else "  ")
        if self._printer is not None and result.session is not None:
            self._printer.end(result.session, "verified" if result.verified else "not verified")


def _say_nothing(_session: Session, _event: Event | None) -> None:
    """Of several faults only the end is told."""


def _exit_code(result: Result) -> int:
    if result.skipped is not None or result.verified:
        return 0
    return 1 if result.session is None else max(1, exit_code(result.session))


def _record(results: list[Result], context: Context, output: Output) -> None:
    from playbooks.lab.recording import record

    proved = [one.session for one in results if one.verified and one.session is not None]
    for path in record(proved, context.library):
        output.note(f"recorded in {path}")
