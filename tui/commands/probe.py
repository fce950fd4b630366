"""`vllm-console probe`: really load a deployment, stage by stage, and say what happens."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engine_probe import events as ev
from engine_probe.command_line import parse_command
from engine_probe.deployment import read_deployment
from engine_probe.engine import EngineError
from engine_probe.engine_check import check_engine
from engine_probe.engines import engine_for
from engine_probe.errors import InputError
from engine_probe.flag_gate import refuse_wrong_flags
from engine_probe.launch import Deployment
from engine_probe.preflight import look_at
from engine_probe.probe_run import ProbeRun
from engine_probe.stage_names import STAGES
from engine_probe.supervisor import Limits, Probe
from tui.clear_click import ENGINE_HELP, Seconds
from tui.commands.consent import confirm_load
from tui.commands.interrupts import Interrupts
from tui.commands.probe_files import RunFiles
from tui.commands.probe_summary import Outcomes, print_end
from tui.commands.probe_text import ProbePrinter
from tui.output import Output, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.engine import Engine


@dataclass(frozen=True)
class Wish:
    """The options of one call."""

    grade: str
    yes: bool
    hold: bool
    keep_port: bool
    verbose: bool
    limits: Limits


class _LaunchAfterOptions(click.Command):
    """What follows a bare `vllm` or `python` is the launch, with and without `--` before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        start = next((at for at, pair in enumerate(pairwise([*args, ""])) if _starts_launch(*pair)), None)
        if start is not None and "--" not in args[:start]:
            args = [*args[:start], "--", *args[start:]]
        return super().parse_args(ctx, args)


def _starts_launch(word: str, following: str) -> bool:
    """The value of `--engine` may be a Python too, but no launch goes on like that."""
    name = Path(word).name
    return (name, following) in (("vllm", "serve"), ("docker", "run")) or (
        name.startswith("python") and following == "-m"
    )


@click.command(cls=_LaunchAfterOptions)
@click.option("--grade", type=click.Choice(["dry", "warm", "cold"]), default="cold", show_default=True)
@click.option("--engine", "engine_name", metavar="ENGINE", help=ENGINE_HELP)
@click.option("--yes", is_flag=True, help="Load even where another process holds a target GPU.")
@click.option("--hold", is_flag=True, help="Keep the models up until Ctrl-C.")
@click.option("--keep-port", is_flag=True, help="Fail where a port is taken instead of choosing another.")
@click.option(
    "--hang",
    "hang_s",
    type=Seconds(least=1.0),
    default=300.0,
    show_default=True,
    help="Hung is a load without progress for so long.",
)
@click.option(
    "--limit", "limits", multiple=True, metavar="STAGE=S", help="Longest time for a stage, or load=S for all."
)
@click.option("--experiment", metavar="NAME", help="Do one named experiment: `vllm-console playbooks experiments`.")
@click.option("--set", "setting", metavar="KEY=VALUE", help="The one variable that the experiment's load changes.")
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
    experiment: str | None,
    setting: str | None,
    verbose: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Really load a deployment, or one `vllm serve` command, and report every stage.

    \b
    vllm-console probe deployment.yaml
    vllm-console probe --grade warm -- vllm serve ./model --max-model-len 4096
    vllm-console probe --experiment all-reduce deployment.yaml

    dry: vLLM's own check of the configuration, no weights. warm: forked from a process that has imported vLLM,
    seconds. cold: `vllm serve` exactly as a user runs it. Nothing is left behind, however it ends.
    """
    deployment = _deployment(words)
    engine = engine_for(engine_name, deployment)
    wish = Wish(grade, yes, hold, keep_port, verbose, parse_limits(hang_s, limits))
    if experiment is not None:
        from tui.commands.probe_experiment import run_experiment

        return run_experiment(experiment, setting, engine, deployment, wish, Output(as_json))
    if setting is not None:
        raise InputError("--set changes what an experiment loads: name one with --experiment")
    return asyncio.run(run_probe(engine, deployment, wish, Output(as_json)))


def _deployment(words: tuple[str, ...]) -> Deployment:
    if len(words) == 1 and not words[0].startswith("-"):
        return read_deployment(Path(words[0]))
    return Deployment((parse_command(list(words)),))


def parse_limits(hang_s: float, words: tuple[str, ...]) -> Limits:
    """Limits from `STAGE=SECONDS` words; `load=SECONDS` bounds the whole load. Raises InputError."""
    seconds: dict[str, float] = {}
    for word in words:
        stage, _, value = word.partition("=")
        if stage not in (*STAGES, "load"):
            raise InputError(f"--limit {word}: no such stage {stage!r}; stages are {', '.join(STAGES)}, or load")
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
    with RunFiles() as files:
        printer = ProbePrinter(output, wish.verbose, tuple(launch.name for launch in deployment.models))
        outcomes = Outcomes(tuple(launch.name for launch in deployment.models))

        def see(event: ev.Event) -> None:
            files.write(event)
            outcomes.take(event)
            printer.show(event)

        for found in before:
            see(found)
        run, interrupts, fatal = await _load_all(engine, deployment, wish, see)
        if run.failed:
            _explain_broken_engine(engine, fatal, printer)
        if wish.grade != "dry" and engine.is_local:
            _learn(run, files)
        asked_for = run.hold and run.all_answered and interrupts.number == signal.SIGINT
        if interrupts.exit_code is not None and not asked_for and not run.failed:
            note("stopped")
            return interrupts.exit_code
        print_end(output, outcomes, deployment, files, wish.grade)
        return 1 if run.failed else 0


async def _load_all(
    engine: Engine, deployment: Deployment, wish: Wish, see: Callable[[ev.Event], None]
) -> tuple[ProbeRun, Interrupts, str | None]:
    """Until all has ended; beside the run, what the probe itself complained of."""
    fatal: str | None = None
    async with AsyncExitStack() as stack:
        probe_ = Probe(engine, limits=wish.limits, keep_port=wish.keep_port)
        run = ProbeRun(probe_, deployment, wish.grade, wish.hold)
        interrupts = stack.enter_context(Interrupts(run.stop))  # until the probe has ended too
        await stack.enter_async_context(probe_)
        async for event in run.events():
            see(event)
            if isinstance(event, ev.Trouble) and event.fatal:
                fatal = event.text.splitlines()[0]
            if wish.hold and isinstance(event, ev.RequestAnswered) and run.all_answered:
                note("all models are up; Ctrl-C ends them")
    return run, interrupts, fatal


def _learn(run: ProbeRun, files: RunFiles) -> None:
    """What loads that answered printed about their memory is for later plans."""
    from engine_probe.memory.learned_start import learn_after_load

    for launch in run.deployment.models:
        if launch.name in run.ready:
            learn_after_load(launch, files.log_of(launch.name))


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
