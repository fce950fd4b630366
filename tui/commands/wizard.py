"""`vllm-console wizard`: opens the console in the four steps, on a deployment or on the lab's case."""

from __future__ import annotations

from pathlib import Path

import click

from tui.app import run_console
from tui.clear_click import ENGINE_HELP


@click.command()
@click.option(
    "--deployment",
    metavar="FILE",
    help="The models that do not load; without it the lab's case is opened.",
)
@click.option("--engine", metavar="ENGINE", help=ENGINE_HELP)
@click.option("--cold", is_flag=True, help="Start every load from nothing, as `vllm serve` would.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII only.")
def wizard(deployment: str | None, engine: str | None, cold: bool, ascii_only: bool) -> int:
    """Symptom, hypotheses, fix, verification: guided, on the real engine.

    \b
    vllm-console wizard
    vllm-console wizard --deployment deployment.yaml
    """
    return run_console(
        Path(deployment) if deployment is not None else None, engine, "wizard", cold=cold, ascii_only=ascii_only or None
    )
