"""The command line: finds the command, runs it, and turns every end into a message and an exit code.

Commands are imported when called, so that `--help` is quick and no headless command loads Textual.
"""

from __future__ import annotations

import codecs
import gc
import importlib
import signal
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tui import failures
from tui.clear_click import ClearGroup
from tui.plain_text import ERRORS, asks_for_ascii, substitute
from tui.streams import watch_streams

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

PROGRAM = "vllm-console"
FIRST_CASE = "kv-cache-too-small-for-max-model-len"


class Entry(NamedTuple):
    """Where a command lives and what the overview says of it."""

    target: str
    help: str


COMMANDS = {
    "wizard": Entry("tui.commands.wizard:wizard", "Open the console in the guided wizard."),
    "probe": Entry("tui.commands.probe:probe", "Really load a deployment, stage by stage, and say what happens."),
    "replay": Entry("tui.commands.replay:replay", "Diagnose, fix and verify unattended, by one playbook."),
    "lab": Entry("tui.commands.lab:lab", "Break a tiny real model on purpose, then diagnose, fix and verify it."),
    "monitor": Entry(
        "tui.commands.monitor:monitor", "Watch GPU and host memory: whose it is, for what, and what is wrong."
    ),
    "logs": Entry("tui.commands.logs:logs", "Look at vLLM logs, merged by time, or print the wanted lines of them."),
    "plan": Entry("tui.commands.plan:plan", "Say whether models fit on the GPUs together, before anything is loaded."),
    "diagnose": Entry(
        "tui.commands.diagnose:diagnose", "Say why a load failed, from its log: root cause, proof, fixes."
    ),
    "playbooks": Entry("tui.commands.playbooks:playbooks", "List, show and check the playbooks."),
    "cases": Entry("tui.commands.cases:cases", "What was diagnosed or mended before: list, show, report."),
    "engine": Entry("tui.commands.engine:engine", "Find, check and install the engine: the Python that has vLLM."),
}


class LazyGroup(ClearGroup):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.target} is no command")
        return command

    def help_of(self, ctx: click.Context, name: str) -> str:  # noqa: ARG002
        return COMMANDS[name].help


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version  # noqa: PLC0415 -- 30 ms that other calls do not need

        click.echo(f"{PROGRAM} {version(PROGRAM)}")
        ctx.exit()


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print it.")
@click.option("--cold", is_flag=True, help="Without a command: start every load from nothing.")
@click.option("--json", "as_json", is_flag=True, help="Without a command and a terminal: print JSON.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Without a command: draw with ASCII only.")
@click.pass_context
def cli(ctx: click.Context, cold: bool, as_json: bool, ascii_only: bool) -> int:
    """Find, fix and prove why vLLM does not load a model.

    Without a command it opens the console; without a terminal it runs one lab case end to end and prints it.
    """
    options = [*(["--cold"] if cold else []), *(["--json"] if as_json else [])]
    if ctx.invoked_subcommand is not None:
        options += ["--ascii"] if ascii_only else []
        if options:
            raise click.UsageError(f"{options[0]} goes after the command: {ctx.invoked_subcommand} {options[0]}", ctx)
        return 0
    if has_terminal() and not as_json:
        return _open_console(cold, ascii_only)
    return _run(["lab", FIRST_CASE, "--yes", *options])


def has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _open_console(cold: bool, ascii_only: bool) -> int:
    run_console = importlib.import_module("tui.app").run_console
    code = run_console(cold=cold, ascii_only=ascii_only or None)
    return code if isinstance(code, int) else 0


def _run(args: Sequence[str]) -> int:
    """Run one command line; the exit code is what the command returns, None being 0."""
    with cli.make_context(PROGRAM, list(args)) as ctx:
        code: Any = cli.invoke(ctx)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0


def main(args: Sequence[str] | None = None) -> None:
    """What tui/entry.py runs. Ends the process; nothing escapes as a traceback."""
    words = list(sys.argv[1:] if args is None else args)
    try:
        _end_on_signals()
        watch_streams()
        _write_any_text()
        code = _run(words)
    except BaseException as error:
        code = failures.report(error, words)
    if args is None:
        _let_signals_end_it()
        gc.freeze()  # all goes with the process: nothing is looked through once more
    sys.exit(code)


def _write_any_text() -> None:
    """A log line may hold any byte and the terminal may speak any encoding: show a substitute, never fail."""
    codecs.register_error(ERRORS, substitute)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=ERRORS)
    # Not stderr: Textual draws there, and has a table of its own that keeps columns where they are.
    if asks_for_ascii() and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="ascii", errors=ERRORS)


def _end_on_signals() -> None:
    """Let signals unwind the stack, so that a running load is ended with the console."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, leave)
    if callable(signal.getsignal(signal.SIGINT)):  # that of tui/entry.py; under nohup it stays ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _let_signals_end_it() -> None:
    """All is done: what comes now has nothing to unwind, and Python would show a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    main()
