"""`vllm-console replay`: diagnose, fix and verify a deployment by one playbook, unattended."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from engine_probe.deployment import read_deployment
from engine_probe.engines import engine_for
from engine_probe.events import Event, encode
from engine_probe.locations import find_locations
from engine_probe.preflight import look_at
from playbooks.context import read_context
from playbooks.proposal import RISKS, Proposal
from playbooks.report import one_fix_lines
from playbooks.told import resumed, told
from playbooks.unattended import Unattended
from playbooks.unverified import take_back
from playbooks.way_back import when_cut_off, will_change
from playbooks.writing_lock import take
from tui.clear_click import ENGINE_HELP
from tui.commands.consent import confirm_load
from tui.commands.experiments_told import ExperimentsTold
from tui.commands.files_from import checked_sources, files_from_option
from tui.commands.interrupts import run_to_end
from tui.commands.proof_options import proof_of, proof_options
from tui.commands.replay_chosen import choose, going_on
from tui.commands.replay_run import run_session
from tui.commands.replay_text import SessionPrinter, exit_code, result_object
from tui.output import Output
from tui.streams import StreamError, drop_what_is_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine_probe.launch import Deployment
    from playbooks.decisions import Decision
    from playbooks.effects import Done
    from playbooks.session import FixOption, Session

DRY_RUN = "dry run: nothing changed"


@click.command()
@click.argument("playbook", metavar="PLAYBOOK|CASE")
@click.option("--deployment", "file", metavar="FILE", help="The deployment file to mend; of a CASE its own otherwise.")
@click.option("--fix", metavar="ID", help="Try this fix only; else those of the playbook, best first.")
@click.option("--dry-run", is_flag=True, help="Load once, diagnose, show the difference, change nothing.")
@click.option(
    "--yes", is_flag=True, help="Apply without asking, and load even where another process holds a target GPU."
)
@click.option(
    "--risk",
    type=click.Choice(RISKS),
    default="medium",
    show_default=True,
    help="The most that a fix may risk which --fix does not name.",
)
@files_from_option
@click.option("--thorough", is_flag=True, help="Test all that can be tested of the cause before a fix is chosen.")
@proof_options
@click.option("--fresh", is_flag=True, help="Begin anew, also where an earlier replay of FILE was cut off.")
@click.option("--cold", is_flag=True, help="Start every load from nothing, as `vllm serve` would.")
@click.option("--engine", "engine_name", metavar="ENGINE", help=ENGINE_HELP)
@click.option("--json", "as_json", is_flag=True, help="One event a line, and last a `result`.")
def replay(  # noqa: PLR0913, PLR0917 -- one parameter an option is click's way
    playbook: str,
    file: str | None,
    fix: str | None,
    dry_run: bool,
    yes: bool,
    risk: str,
    files_from: tuple[str, ...],
    thorough: bool,
    verify: str,
    load_test: str,
    fresh: bool,
    cold: bool,
    engine_name: str | None,
    as_json: bool,
) -> int:
    """Load FILE for real, find the cause, apply the fixes of PLAYBOOK one by one, and verify by load and requests.

    A fix is proved by its playbook's checks and the standard ones: it is loaded as `vllm serve` would (cold), answers,
    and stands many requests at once.

    A fix of high risk is only applied where it is asked for: --fix ID, or --risk high. The reason is said.

    What can decide between fixes in seconds is tested first; a full start only where nothing else decides.
    A fix that does not hold is taken back before the next is tried. The one that holds stays in FILE, and FILE as
    it was stays beside it as FILE.r1.

    Of a CASE: the fix that it came to, with its value, where its cause is found again; else nothing is applied.
    What was cut off before its end (kill -9, power, a lost connection) goes on from its last finished step.

    Exit codes: 0 verified or nothing wrong, 1 not verified (a dry run too), 2 wrong input, 3 a failure that no
    playbook explains, 4 the engine cannot be run.
    """
    sources, proof = checked_sources(files_from), proof_of(load_test)
    context = read_context()
    for words in context.left_out:
        Output(as_json).note(words)
    chosen = choose(context, playbook, file, fix)
    if not dry_run:
        take(find_locations().state, chosen.file).release()  # before anything else: it may be another session's
    for words in take_back(find_locations().state, chosen.file):
        Output(as_json).note(words)
    deployment = read_deployment(chosen.file)
    engine = engine_for(engine_name, deployment)
    before = look_at(deployment, engine)
    confirm_load(before, yes=yes)
    output = Output(as_json)
    resume = None if fresh or dry_run else going_on(deployment, engine, context, output)
    if dry_run:
        output.note(_what_a_dry_run_does(deployment, engine.label))
    for found in before if as_json else ():
        _stream(found)
    if resume is not None and resume.session is not None:
        output.result(resumed(resume.session, resume.words))
    ask = _confirm(yes, deployment, output)
    policy = Unattended(
        fix=chosen.fix,
        value=chosen.value,
        most_risk=risk,
        playbook=chosen.playbook,
        dry_run=dry_run,
        confirm=ask,
        thorough=thorough,
    )
    printer, experiments = SessionPrinter(output), ExperimentsTold(output)

    last: list[Session] = []

    def on_change(session: Session, event: Event | None) -> None:
        last[:] = [session]
        if as_json:
            printer.tell_notes(session)
        else:
            printer.on_change(session, event)
        experiments.see(session)

    with _telling_interrupts(last, output, dry_run=dry_run):
        session = run_to_end(
            run_session(
                deployment,
                engine,
                "cold" if cold else "warm",
                policy,
                on_change,
                context,
                verify_grade="cold" if cold else verify,
                settings={"file_sources": sources, "proof": proof},
                resume=resume,
                on_step=_tell_step if as_json else None,
                may_write=not dry_run,
            )
        )
    _tell_end(session, policy, printer, output)
    return exit_code(session)


@contextmanager
def _telling_interrupts(last: Sequence[Session], output: Output, *, dry_run: bool) -> Iterator[None]:
    """`last`: the session as it was seen last, once there is one."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        try:
            for words in when_cut_off(last[0]) if last and not dry_run else ():
                output.note(words)
        except StreamError as gone:  # a terminal that has vanished
            drop_what_is_left(gone.descriptor)
        raise


def _what_a_dry_run_does(deployment: Deployment, engine: str) -> str:
    """Said before anything is loaded: it takes time and memory."""
    names = ", ".join(launch.name for launch in deployment.models)
    return (
        f"dry run: loads {names} once for real with {engine} to find the cause, then stops it; {deployment.path} "
        "is not changed. Without a load: vllm-console diagnose LOG --deployment FILE"
    )


def _tell_step(before: Session, happening: Event | Decision | Done, after: Session) -> None:
    """An event first, then what came of it."""
    if isinstance(happening, Event):
        _stream(happening)
    for found in told(before, happening, after):
        click.echo(json.dumps(found))


def _confirm(yes: bool, deployment: Deployment, output: Output) -> Callable[[FixOption], bool]:
    """What to ask before a fix: nothing with --yes, the person at a terminal, else the answer is no."""

    def ask(option: FixOption) -> bool:
        if yes:
            return True
        if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
            return False
        for line in (*one_fix_lines(option), *will_change(deployment, option)):
            output.folded(line)
        return click.confirm("Apply it?", err=True)

    return ask


def _stream(event: Event) -> None:
    click.echo(encode(event))


def _tell_end(session: Session, policy: Unattended, printer: SessionPrinter, output: Output) -> None:
    nothing_changed = session.verdict == "stopped" and session.symptom is not None
    is_undone = session.verdict == "not verified" and session.applied_fix is None
    is_open = nothing_changed or (is_undone and session.symptom is not None)
    proposal = policy.proposal(session) if is_open else Proposal(None)
    verdict = DRY_RUN if nothing_changed and policy.dry_run else session.verdict
    output.result({"time": time.time(), **result_object(session, proposal, verdict)})
    printer.proposal(proposal)
    if proposal.fix is not None and not policy.dry_run:
        output.note("nothing was changed: say --yes to apply it")
    printer.end(session, "stopped: nothing changed" if nothing_changed and not policy.dry_run else verdict)
