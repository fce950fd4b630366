"""`vllm-console wizard`: opens the console in the four steps, on a deployment or on the lab's case."""

from __future__ import annotations

from pathlib import Path

import click

from tui.app import run_console


@click.command()
@click.option(
    "--deployment",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The models that do not load; without it the lab's case is opened.",
)
@click.option("--engine", metavar="ENGINE", help="A Python, a venv, container:NAME, pod:NAME, ssh:HOST.")
@click.option("--cold", is_flag=True, help="Start every load from nothing, as `vllm serve` would.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII only.")
def wizard(deployment: Path | None, engine: str | None, cold: bool, ascii_only: bool) -> int:
    """Symptom, hypotheses, fix, verification: guided, on the real engine.

    \b
    vllm-console wizard
    vllm-console wizard --deployment deployment.yaml
    """
    return run_console(deployment, engine, "wizard", cold=cold, ascii_only=ascii_only or None)
