"""`vllm-console plan`: whether a deployment's models fit on the GPUs together, before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import click

from engine_probe.errors import InputError
from tui.output import Output

FITS, DOES_NOT_FIT = 0, 1


@click.command()
@click.option(
    "--gpus", metavar="GPUS", help="Hardware that is not here: 8xA100-80GB, 2xH100-80GB,1xL4-24GB or cpu-64GB."
)
@click.option("--vllm", "version", metavar="VERSION", help="The release whose accounting counts, such as 0.19.0.")
@click.option("--json", "as_json", is_flag=True, help="One object.")
@click.option("--screen", is_flag=True, help="Open it in the console: keys try other values, and save them.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII only.")
@click.argument("deployment_file", metavar="DEPLOYMENT")
def plan(
    gpus: str | None, version: str | None, as_json: bool, screen: bool, ascii_only: bool, deployment_file: str
) -> int:
    """Say whether a deployment's models fit on the GPUs together, and what fails first.

    \b
    vllm-console plan deployment.yaml
    vllm-console plan deployment.yaml --gpus 8xA100-80GB --vllm 0.19.0
    vllm-console plan deployment.yaml --screen

    Nothing is loaded: models are read from their folders, GPUs from the driver or from --gpus. Exit code: 0 all fit,
    1 one does not, 2 bad input.
    """
    from tui.plan_inputs import read_inputs

    if screen:
        return _open_screen(Path(deployment_file), gpus, version, as_json=as_json, ascii_only=ascii_only)
    made = read_inputs(Path(deployment_file), gpus, version).plan()
    output = Output(as_json, masks=True)
    if as_json:
        from playbooks.plan_json import as_object

        output.result(as_object(made))
    else:
        from tui.commands.plan_text import print_plan

        print_plan(output, made, ascii_only=ascii_only)
    return FITS if made.fits else DOES_NOT_FIT


def _open_screen(path: Path, gpus: str | None, version: str | None, *, as_json: bool, ascii_only: bool) -> int:
    if as_json:
        raise InputError("--screen draws and --json prints: one of them is wanted")
    from tui.app import run_console

    return run_console(path, start="plan", ascii_only=ascii_only or None, planned_for=(gpus, version))
