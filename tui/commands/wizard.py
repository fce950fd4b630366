"""`vllm-console wizard`: the console in the four steps: on a deployment, from logs, or where a case was cut off."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from engine_probe.errors import InputError
from tui.app import run_console
from tui.clear_click import ENGINE_HELP
from tui.commands.proof_options import proof_of, proof_options
from tui.running import Opening


@click.command()
@click.argument("logs", nargs=-1, metavar="[LOG]…")
@click.option("--deployment", metavar="FILE", help="The models that do not load, or that the logs are of.")
@click.option("--host-state", metavar="FILE", help="With logs: the host then, a saved `monitor --once --json`.")
@click.option("--here", is_flag=True, help="With logs: they are of this host, look at its GPUs and memory.")
@click.option(
    "--resume", "resume", is_flag=False, flag_value="", metavar="[CASE]", help="Go on where a case was cut off."
)
@click.option("--lab", "fault", metavar="FAULT", help="A fault of the lab: vllm-console lab list.")
@click.option(
    "--files-from", "files_from", multiple=True, metavar="DIR", help="Where whole files of a model may be had from."
)
@click.option("--engine", metavar="ENGINE", help=ENGINE_HELP)
@click.option("--cold", is_flag=True, help="Start every load from nothing, as `vllm serve` would.")
@proof_options
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII only.")
def wizard(  # noqa: PLR0913, PLR0917 -- one parameter an option is click's way
    logs: tuple[str, ...],
    deployment: str | None,
    host_state: str | None,
    here: bool,
    resume: str | None,
    fault: str | None,
    files_from: tuple[str, ...],
    engine: str | None,
    cold: bool,
    verify: str,
    load_test: str,
    ascii_only: bool,
) -> int:
    """Symptom, hypotheses, fix, verification: guided, on the real engine.

    \b
    vllm-console wizard                              choose what to look at
    vllm-console wizard --deployment FILE            load it and see what breaks
    vllm-console wizard vllm.log                     loads nothing
    vllm-console wizard vllm.log --deployment FILE   the same; fixes are applied
    vllm-console wizard --resume                     go on where it was cut off
    """
    _demand_one(logs, deployment, resume, fault)
    if (host_state is not None or here) and not logs:
        raise InputError("--host-state and --here belong to logs: a deployment that is loaded here is looked at anyway")
    if host_state is not None and here:
        raise InputError("--host-state and --here both say how the host is: give one of them")
    if deployment is not None and not logs:
        _demand_models(Path(deployment), engine)
    opening = Opening(
        deployment=None if deployment is None else Path(deployment),
        logs=logs,
        fault=fault,
        resume=resume,
        host_state=None if host_state is None else Path(host_state),
        here=here,
        file_sources=files_from,
        proof=proof_of(load_test),
    )
    return run_console(
        opening.deployment,
        engine,
        "choose" if replace(opening, proof=None) == Opening() else "wizard",
        opening=opening,
        cold=cold,
        verify=verify,
        ascii_only=ascii_only or None,
    )


def _demand_models(deployment: Path, engine: str | None) -> None:
    """Raises InputError before anything is drawn where the file is wrong or a model's folder is not there.

    That no engine is found is no reason not to open the console: it says so itself.
    """
    from engine_probe.deployment import read_deployment
    from engine_probe.engine import EngineError
    from engine_probe.engines import engine_for
    from engine_probe.preflight import check_model_folder

    content = read_deployment(deployment)
    with suppress(EngineError):
        chosen = engine_for(engine, content)
        for launch in content.models:
            check_model_folder(launch, chosen)


def _demand_one(logs: tuple[str, ...], deployment: str | None, resume: str | None, fault: str | None) -> None:
    """Raises InputError where two cases are named."""
    given = [("a log", bool(logs)), ("--resume", resume is not None), ("--lab", fault is not None)]
    named = [words for words, is_given in given if is_given]
    named += ["--deployment"] if deployment is not None and not logs else []
    if len(named) > 1:
        raise InputError(f"{named[0]} and {named[1]} are two cases: give one of them")
