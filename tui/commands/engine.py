"""`vllm-console engine`: find, check and install the Python that has vLLM."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tui.clear_click import ENGINE_HELP, ClearGroup, Seconds
from tui.output import Output

if TYPE_CHECKING:
    from engine_probe.engine import Engine
    from engine_probe.engine_check import EngineReport
    from engine_probe.managed_engine import Progress

FINE, CANNOT_RUN = 0, 4
engine_option = click.option(
    "--engine",
    "named",
    metavar="ENGINE",
    help=ENGINE_HELP,
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


@click.group(cls=ClearGroup)
def engine() -> None:
    """Find, check and install the engine: the Python that has vLLM."""


@engine.command("list")
@engine_option
@json_option
def list_engines(named: str | None, as_json: bool) -> int:
    """List the engines found on this host, in the order in which they would be chosen."""
    from engine_probe.engines import INSTALL_HINT, find_engines

    output = Output(as_json)
    found = find_engines(named)
    output.result({"schema": 1, "engines": [_described(one, chosen=one is found[0]) for one in found]})
    if found:
        rows = [["*" if one is found[0] else "", one.label, one.found_by] for one in found]
        output.table(["", "engine", "found by"], rows)
    else:
        output.text(f"No vLLM was found. {INSTALL_HINT}.")
    return FINE


@engine.command()
@engine_option
@click.option(
    "--timeout", "timeout_s", default=300, show_default=True, type=Seconds(1), help="How long the import may take."
)
@json_option
def check(named: str | None, timeout_s: float, as_json: bool) -> int:
    """Import vLLM in the engine and say what is installed there and what is wrong."""
    from engine_probe.engine_check import check_engine
    from engine_probe.engines import choose_engine

    output = Output(as_json)
    chosen = choose_engine(named)
    output.note(f"checking {chosen.label} ({chosen.found_by})")
    report = check_engine(chosen, timeout_s)
    output.result({"schema": 1, **asdict(report)})
    _print_report(report, output)
    return FINE if report.import_ok else CANNOT_RUN


@engine.command()
@click.option("--if-needed", is_flag=True, help="Do nothing when an engine with vLLM is found.")
@json_option
def install(if_needed: bool, as_json: bool) -> int:
    """Install an engine of the console's own into its cache folder; a run that was stopped goes on."""
    output = Output(as_json)
    ready = _found() if if_needed else None
    if ready is None:
        ready = _install(output)
    output.result({"schema": 1, "event": "installed", "engine": _described(ready, chosen=True)})
    output.text(f"engine ready: {ready.label} ({ready.found_by})")
    return FINE


def _found() -> Engine | None:
    from engine_probe.engine import EngineError
    from engine_probe.engines import choose_engine

    try:
        return choose_engine()
    except EngineError:
        return None


def _described(one: Engine, *, chosen: bool) -> dict[str, object]:
    return {"engine": one.label, "found_by": one.found_by, "argv": one.argv(), "chosen": chosen}


def _install(output: Output) -> Engine:
    from engine_probe import managed_engine
    from tui.commands.engine_proof import prove_engine
    from tui.commands.progress import ProgressPrinter

    printer = ProgressPrinter()

    def show(progress: Progress) -> None:
        output.result({"schema": 1, "event": "progress", **asdict(progress)})
        if not output.as_json:
            printer(progress)

    try:
        return managed_engine.install(show, proof=prove_engine)
    finally:
        printer.close()


def _print_report(report: EngineReport, output: Output) -> None:
    unknown = "unknown"
    output.table(
        ["what", "value"],
        [
            ["engine", report.engine],
            ["found by", report.found_by],
            ["Python", f"{report.python_version or unknown} ({report.executable or unknown})"],
            ["vLLM", report.vllm_version or unknown],
            ["torch", report.torch_version or unknown],
            ["CUDA of torch", report.cuda_version or ("none" if report.import_ok else unknown)],
            ["transformers", report.transformers_version or unknown],
            ["device", report.device or unknown],
            ["import vllm", f"works, {report.import_seconds:.1f} s" if report.import_ok else "does not work"],
        ],
    )
    for trouble in report.troubles:
        output.text()
        output.text(f"{trouble.id}: {trouble.text}", "bold red")
        output.text(f"  {trouble.fix}")
