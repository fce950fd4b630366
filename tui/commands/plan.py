"""`vllm-console plan`: whether a deployment's models fit on the GPUs together, before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from engine_probe.errors import InputError
from engine_probe.quoting import quoted
from tui.output import Output

if TYPE_CHECKING:
    from playbooks.placement import Plan
    from playbooks.plan_proposal import Advice
    from tui.plan_inputs import PlanInputs

FITS, DOES_NOT_FIT = 0, 1


class _Wish(NamedTuple):
    """What is to become of a proposal."""

    apply: bool
    yes: bool
    write: Path | None


@click.command()
@click.option(
    "--gpus", metavar="GPUS", help="Hardware that is not here: 8xA100-80GB, 2xH100-80GB,1xL4-24GB or cpu-64GB."
)
@click.option("--vllm", "version", metavar="VERSION", help="The release whose accounting counts, such as 0.19.0.")
@click.option("--json", "as_json", is_flag=True, help="One object.")
@click.option("--screen", is_flag=True, help="Open it in the console: keys try other values, and save them.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII only.")
@click.option("--apply", "applies", is_flag=True, help="Write what is proposed to the file, which stays as FILE.rN.")
@click.option("--yes", is_flag=True, help="Apply without asking.")
@click.option("--write", "target", metavar="FILE", help="Write what is proposed as a new file.")
@click.option("--keep", "keeps", metavar="[NAME=]TOKENS", multiple=True, help="No max-model-len below it is proposed.")
@click.option("--from-running", "from_running", is_flag=True, help="Of the servers that run on this host, no file.")
@click.option("--learn", "log", metavar="LOG", help="Keep what a start printed about its memory, for later plans.")
@click.option("--model", metavar="NAME", help="With --learn: the launch whose log it is, where there are several.")
@click.argument("deployment_file", metavar="[DEPLOYMENT]", required=False)
def plan(  # noqa: PLR0913 -- its options
    *,
    gpus: str | None,
    version: str | None,
    as_json: bool,
    screen: bool,
    ascii_only: bool,
    applies: bool,
    yes: bool,
    target: str | None,
    keeps: tuple[str, ...],
    from_running: bool,
    log: str | None,
    model: str | None,
    deployment_file: str | None,
) -> int:
    """Say whether a deployment's models fit on the GPUs together, what fails first, and what would fit.

    \b
    vllm-console plan deployment.yaml
    vllm-console plan deployment.yaml --gpus 8xA100-80GB --vllm 0.19.0
    vllm-console plan deployment.yaml --screen
    vllm-console plan deployment.yaml --apply
    vllm-console plan docker-compose.yml --write deployment.yaml
    vllm-console plan --from-running
    vllm-console plan deployment.yaml --learn engine.log

    A docker compose file or a shell script with `vllm serve` lines is read too, and never changed.
    Nothing is loaded: models are read from their folders, GPUs from the driver or from --gpus. Exit code: 0 all fit,
    or what was proposed is written, 1 one does not, 2 bad input.
    """
    _check_source(deployment_file, from_running=from_running)
    path = None if deployment_file is None else Path(deployment_file)
    output = Output(as_json, masks=True)
    if log is not None:
        return _learn(path, Path(log), model, (gpus, version), output)
    if model is not None:
        raise InputError("--model belongs to --learn")
    if screen:
        return _open_screen(path, gpus, version, as_json=as_json, ascii_only=ascii_only)
    if applies and target is not None:
        raise InputError("--apply changes the file and --write makes a new one: one of them is wanted")
    wish = _Wish(applies, yes, Path(target) if target else None)
    return _advised(_inputs(path, gpus, version), keeps, wish, output, ascii_only)


def _check_source(deployment_file: str | None, *, from_running: bool) -> None:
    if deployment_file is None and not from_running:
        raise InputError("which models? name a deployment, compose or shell file, or say --from-running")
    if deployment_file is not None and from_running:
        raise InputError(f"--from-running plans what runs here, and {deployment_file} is a file: one of them is wanted")


def _inputs(path: Path | None, gpus: str | None, version: str | None) -> PlanInputs:
    from tui.plan_inputs import read_inputs, running_inputs

    if path is not None:
        return read_inputs(path, gpus, version)
    if gpus is not None:
        raise InputError("--from-running plans on this host's GPUs; --gpus describes others")
    return running_inputs(version)


def _learn(path: Path | None, log: Path, model: str | None, told: tuple[str | None, str | None], output: Output) -> int:
    """0 where the log's start is known now, 1 where it tells nothing."""
    from engine_probe.deployment_sources import read_source
    from engine_probe.errors import nearest_word
    from engine_probe.memory.learned_start import learn
    from tui.plan_inputs import demand_release

    if path is None:
        raise InputError("--learn belongs to a file: it says what was started")
    if told[1] is not None:
        demand_release(told[1])
    deployment = read_source(path)
    names = [one.name for one in deployment.models]
    if model is None and len(names) > 1:
        raise InputError("whose log is it? say --model NAME", allowed=tuple(names))
    if model is not None and model not in names:
        raise InputError(
            f"--model {quoted(model, 60)}: no model of the deployment",
            allowed=tuple(names),
            nearest=nearest_word(model, names),
        )
    starts = learn(deployment, model or names[0], log, card=told[0], version=told[1])
    output.result({"schema": 1, "learned_starts": starts})
    output.text(f"{starts} start{'' if starts == 1 else 's'} of {model or names[0]} learnt from {log}" if starts
                else f"{log} tells of no start of {model or names[0]} that is not known yet")  # fmt: skip
    return FITS if starts else DOES_NOT_FIT


def _advised(inputs: PlanInputs, keeps: tuple[str, ...], wish: _Wish, output: Output, ascii_only: bool) -> int:
    from playbooks.plan_proposal import advise
    from tui.commands.plan_apply import kept_lengths

    made = inputs.plan()
    advice = advise(made, kept_lengths(keeps, made.deployment), inputs.learned_of)
    if not output.as_json:
        from tui.commands.plan_advice_text import print_advice
        from tui.commands.plan_text import print_plan

        print_plan(output, made, ascii_only=ascii_only)
        print_advice(output, made.deployment, advice)
    done = _carried_out(made, advice, wish, output)
    if output.as_json:
        from playbooks.plan_json import as_object
        from playbooks.plan_proposal_json import advice_as_object

        output.result({**as_object(made), **advice_as_object(advice), **done})
    return FITS if made.fits or done.get("applied") or done.get("written") else DOES_NOT_FIT


def _carried_out(made: Plan, advice: Advice, wish: _Wish, output: Output) -> dict[str, Any]:
    """What was written, for --json; empty where nothing was to be."""
    from tui.commands.plan_apply import applied_object, apply, write

    if not wish.apply and wish.write is None:
        return {}
    if advice.proposal is None:
        output.note("nothing to write: " + ("all models fit as they are" if made.fits else "nothing is proposed"))
        return {"applied": None} if wish.apply else {"written": None}
    if wish.write is not None:
        write(made.deployment, advice.proposal, wish.write)
        output.note(f"{wish.write} is written")
        return {"written": str(wish.write)}
    revision = apply(made.deployment, advice.proposal, output, yes=wish.yes)
    if revision is not None:
        output.note(f"{revision.path} is changed; as it was: {revision.kept}")
    return {"applied": applied_object(revision)}


def _open_screen(path: Path | None, gpus: str | None, version: str | None, *, as_json: bool, ascii_only: bool) -> int:
    if as_json:
        raise InputError("--screen draws and --json prints: one of them is wanted")
    if path is None:
        raise InputError("--screen shows a file's plan; --from-running prints")
    from tui.app import run_console

    return run_console(path, start="plan", ascii_only=ascii_only or None, planned_for=(gpus, version))
