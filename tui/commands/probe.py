"""`vllm-console probe`: really load a deployment, stage by stage, and say what happens."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine_probe import events as ev
from engine_probe.command_line import parse_command
from engine_probe.deployment import read_deployment
from engine_probe.engine import EngineError
from engine_probe.engine_check import check_engine
from engine_probe.engine_names import engine_of_spec
from engine_probe.engines import choose_engine
from engine_probe.errors import InputError
from engine_probe.flag_gate import refuse_wrong_flags
from engine_probe.launch import Deployment
from engine_probe.locations import find_locations, writable
from engine_probe.preflight import look_at
from engine_probe.probe_run import ProbeRun
from engine_probe.supervisor import Limits, Probe
from tui.commands.consent import confirm_load
from tui.commands.interrupts import Interrupts
from tui.commands.probe_text import ProbePrinter
from tui.output import Output, note

if TYPE_CHECKING:
    from engine_probe.engine import Engine

_KEPT_RUNS = 20


@dataclass(frozen=True)
class Wish:
    """The options of one call."""

    grade: str
    yes: bool
    hold: bool
    keep_port: bool
    verbose: bool
    limits: Limits


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--grade", type=click.Choice(["dry", "warm", "cold"]), default="cold", show_default=True)
@click.option("--engine", "engine_name", metavar="ENGINE", help="A Python, a venv, container:NAME, pod:NAME, ssh:HOST.")
@click.option("--yes", is_flag=True, help="Load even where another process holds a target GPU.")
@click.option("--hold", is_flag=True, help="Keep the models up until Ctrl-C.")
@click.option("--keep-port", is_flag=True, help="Fail where a port is taken instead of choosing another.")
@click.option(
    "--hang", "hang_s", default=300.0, show_default=True, metavar="S", help="No progress for S seconds: hung."
)
@click.option(
    "--limit", "limits", multiple=True, metavar="STAGE=S", help="Longest time for a stage, or load=S for all."
)
@click.option("-v", "--verbose", is_flag=True, help="Print the log as well.")
@click.option("--json", "as_json", is_flag=True, help="One event a line; the kinds are in ARCHITECTURE.md.")
@click.argument("words", nargs=-1, required=True, metavar="DEPLOYMENT | -- vllm serve …")
def probe(  # noqa: PLR0913, PLR0917 -- one parameter an option is click's way
    grade: str,
    engine_name: str | None,
    yes: bool,
    hold: bool,
    keep_port: bool,
    hang_s: float,
    limits: tuple[str, ...],
    verbose: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Really load a deployment, or one `vllm serve` command, and report every stage.

    \b
    vllm-console probe deployment.yaml
    vllm-console probe --grade warm -- vllm serve ./model --max-model-len 4096

    dry: vLLM's own check of the configuration, no weights. warm: forked from a process that has imported vLLM,
    seconds. cold: `vllm serve` exactly as a user runs it. Nothing is left behind, however it ends.
    """
    deployment = _deployment(words)
    engine = _engine(engine_name, deployment)
    wish = Wish(grade, yes, hold, keep_port, verbose, parse_limits(hang_s, limits))
    return asyncio.run(run_probe(engine, deployment, wish, Output(as_json)))


def _deployment(words: tuple[str, ...]) -> Deployment:
    if len(words) == 1 and not words[0].startswith("-"):
        return read_deployment(Path(words[0]))
    return Deployment((parse_command(list(words)),))


def _engine(name: str | None, deployment: Deployment) -> Engine:
    specs = {spec for spec in (deployment.engine, *(launch.engine for launch in deployment.models)) if spec is not None}
    if name is None and len(specs) > 1:
        raise InputError("one probe runs on one engine: the deployment names several; choose one with --engine")
    if name is None and specs:
        return engine_of_spec(specs.pop(), "the deployment")
    return choose_engine(name)


def parse_limits(hang_s: float, words: tuple[str, ...]) -> Limits:
    """Limits from `STAGE=SECONDS` words; `load=SECONDS` bounds the whole load. Raises InputError."""
    seconds: dict[str, float] = {}
    for word in words:
        stage, _, value = word.partition("=")
        if stage not in (*ev.STAGES, "load"):
            raise InputError(f"--limit {word}: no such stage {stage!r}; stages are {', '.join(ev.STAGES)}, or load")
        try:
            seconds[stage] = float(value)
        except ValueError:
            raise InputError(f"--limit {word}: {value!r} is no number of seconds") from None
    whole = seconds.pop("load", None)
    return Limits(hang_s=hang_s, load_s=whole, stage_s=seconds)


async def run_probe(engine: Engine, deployment: Deployment, wish: Wish, output: Output) -> int:
    """One probe from the preflight to its clean end; the contract's exit code."""
    if wish.hold and wish.grade == "dry":
        raise InputError("--hold: a dry load has nothing to keep up")
    for text in refuse_wrong_flags(deployment, engine):
        note(text)
    before = look_at(deployment, engine)
    if wish.grade != "dry":
        confirm_load(before, yes=wish.yes)
    keeper = RunFiles.create()
    printer = ProbePrinter(output, wish.verbose)
    for found in before:
        keeper.write(found)
        printer.show(found)
    fatal: str | None = None
    async with AsyncExitStack() as stack:
        try:
            probe_ = await stack.enter_async_context(Probe(engine, limits=wish.limits, keep_port=wish.keep_port))
        except OSError as error:
            raise EngineError(f"{engine.label} cannot be started: {error.strerror or error}") from error
        run = ProbeRun(probe_, deployment, wish.grade, wish.hold)
        interrupts = stack.enter_context(Interrupts(run.stop))
        async for event in run.events():
            keeper.write(event)
            printer.show(event)
            if isinstance(event, ev.Trouble) and event.fatal:
                fatal = event.text.splitlines()[0]
            if wish.hold and isinstance(event, ev.RequestAnswered) and run.all_answered:
                note("all models are up; Ctrl-C ends them")
    return _exit_code(engine, run, fatal, printer, keeper, interrupts)


def _exit_code(
    engine: Engine, run: ProbeRun, fatal: str | None, printer: ProbePrinter, keeper: RunFiles, interrupts: Interrupts
) -> int:
    if run.failed:
        _explain_broken_engine(engine, fatal, printer)
        printer.failed(keeper.folder)
        return 1
    asked_for = run.hold and run.all_answered and interrupts.number == signal.SIGINT
    if interrupts.exit_code is not None and not asked_for:
        note("stopped")
        return interrupts.exit_code
    printer.fine(run.ready, run.grade)
    return 0


def _explain_broken_engine(engine: Engine, fatal: str | None, printer: ProbePrinter) -> None:
    """A load that logged nothing may have failed because vLLM itself cannot be imported: that is another error."""
    if printer.saw_records:
        return
    report = check_engine(engine)
    if report.troubles:
        trouble = report.troubles[0]
        raise EngineError(f"{engine.label} cannot run vLLM: {trouble.text}\n  {trouble.fix}")
    if fatal is not None:
        raise EngineError(f"{engine.label} cannot run vLLM: {fatal}")


@dataclass(frozen=True)
class RunFiles:
    """What one run leaves for later: events.jsonl, and each model's text from byte 0."""

    folder: Path

    @classmethod
    def create(cls) -> RunFiles:
        """A new folder; of earlier runs the newest few are kept."""
        runs = writable(find_locations().state / "probes")
        for old in sorted(path for path in runs.iterdir() if path.is_dir())[: -_KEPT_RUNS + 1]:
            shutil.rmtree(old, ignore_errors=True)
        folder = runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06d}"
        folder.mkdir()
        return cls(folder)

    def write(self, event: ev.Event) -> None:
        with (self.folder / "events.jsonl").open("a", encoding="utf-8") as file:
            file.write(ev.encode(event) + "\n")
        if isinstance(event, ev.Text):
            with (self.folder / f"{event.model}.log").open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(event.line + "\n")
