"""`vllm-console logs`: the wanted lines of a log, with layer and stage, as text or JSON, now or as they come."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from engine_probe.errors import InputError
from engine_probe.logs.index_classes import LAYERS, LEVELS
from engine_probe.logs.index_search import compile_pattern
from engine_probe.logs.index_time import Span, parse_time
from engine_probe.logs.index_wanted import Wanted
from engine_probe.logs.sources import Source, parse_source
from engine_probe.stage_names import STAGES
from tui.commands.logs_merge import MergedReader
from tui.commands.logs_print import LinePrinter
from tui.commands.logs_read import Reader
from tui.commands.logs_stages import StagePrinter
from tui.commands.logs_terminal import is_screen, keyboard_and_pipe
from tui.output import Output
from tui.streams import demand_stdin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.commands.logs_print import Naming

_NAMED_LEVELS = LEVELS[1:]


@click.command()
@click.option("--layer", "layers", multiple=True, type=click.Choice(LAYERS), help="Only this layer; may repeat.")
@click.option("--stage", "stages", multiple=True, type=click.Choice(STAGES), help="Only this load stage; may repeat.")
@click.option("--model", metavar="M", help="Only lines of loads of this model: its name, or the name's last part.")
@click.option("--level", type=click.Choice(_NAMED_LEVELS, case_sensitive=False), help="This level and those above it.")
@click.option("--process", "processes", multiple=True, metavar="P", help="Processes whose tag begins so: Worker_TP1.")
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Only the worker of this rank.")
@click.option("--since", metavar="T", help="10:11, 10:11:12, 03-02 10:11, 2026-03-02, or an age such as 10m.")
@click.option("--until", metavar="T", help="The same, for the end; both ends belong to it.")
@click.option("--grep", metavar="RE", help="Only lines that match this Python regular expression; (?i) ignores case.")
@click.option("--stages", "only_stages", is_flag=True, help="One line where a load stage begins, and its seconds.")
@click.option("--follow", "-f", is_flag=True, help="Print also what is written later, through rotation, until Ctrl-C.")
@click.option("--merge", is_flag=True, help="Print several logs in the order of their times, each line behind its log.")
@click.option("--plain", is_flag=True, help="Print also on a terminal.")
@click.option("--json", "as_json", is_flag=True, help="One object a line.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII only.")
@click.argument("words", nargs=-1, metavar="[SOURCE]…")
def logs(  # noqa: PLR0913, PLR0917 -- one parameter an option is click's way
    layers: tuple[str, ...],
    stages: tuple[str, ...],
    model: str | None,
    level: str | None,
    processes: tuple[str, ...],
    rank: int | None,
    since: str | None,
    until: str | None,
    grep: str | None,
    only_stages: bool,
    follow: bool,
    merge: bool,
    plain: bool,
    as_json: bool,
    ascii_only: bool,
    words: tuple[str, ...],
) -> int:
    """Look at vLLM logs, or print the lines of them that are wanted.

    On a terminal it opens the viewer: it follows, filters and searches, and merges several logs by time. The options
    above choose what it shows first. With --plain, --json or --stages, or without a terminal, it prints.

    \b
    vllm-console logs vllm.log
    vllm-console logs head.log worker.log --level WARNING
    docker logs -f vllm 2>&1 | vllm-console logs -
    kubectl logs vllm-0 | vllm-console logs - --stage weight_load --plain
    vllm-console logs docker:vllm --follow --json

    SOURCE is a file, - (standard input, also without any SOURCE), docker:NAME, unit:NAME (systemd),
    pod:[NAMESPACE/]NAME or ssh:HOST:FILE. Bare lines count to the record above them. Secrets are masked.
    """
    wanted = Wanted(
        levels=None if level is None else frozenset(_NAMED_LEVELS[_NAMED_LEVELS.index(level.upper()) :]),
        layers=frozenset(layers) or None,
        stages=frozenset(stages) or None,
        processes=frozenset(processes) or None,
        rank=rank,
        model=model,
        span=_span(since, until),
    )
    sources = _sources(words)
    pattern = _pattern(grep)
    if not (plain or as_json or only_stages) and is_screen():
        stdin = keyboard_and_pipe(sources)
        if stdin is not None:
            from tui.viewing import run_viewer

            return run_viewer(sources, wanted, grep or "", stdin=stdin, ascii_only=ascii_only or None)
    output = Output(as_json)
    naming: Naming = "no" if len(sources) == 1 else "before" if merge else "above"
    printer = StagePrinter(output, naming, at_once=follow) if only_stages else LinePrinter(output, naming)
    kind = MergedReader if naming == "before" else Reader
    reader = kind(sources, wanted, pattern, printer, follow=follow)
    try:
        code = reader.run()
    finally:
        printer.end()
    if printer.printed == 0 and reader.line_count > 0 and not as_json:
        output.note(f"no line of {reader.line_count:,} matches")
    return code


def _sources(words: Sequence[str]) -> list[Source]:
    if not words or "-" in words:
        demand_stdin()
    if not words and sys.stdin.isatty():
        raise InputError(
            "no log is named: write a file, docker:NAME, unit:NAME, pod:NAME, ssh:HOST:FILE, or pipe a log in"
        )
    sources = [parse_source(word) for word in words or ("-",)]
    if len(set(sources)) < len(sources):
        raise InputError("a log is named twice")
    return sources


def _span(since: str | None, until: str | None) -> Span:
    return Span(
        None if since is None else parse_time(since, "--since"), None if until is None else parse_time(until, "--until")
    )


def _pattern(text: str | None) -> re.Pattern[bytes] | None:
    if text is None:
        return None
    try:
        return compile_pattern(text)
    except re.error as error:
        raise InputError(f"--grep {text}: no regular expression: {error}") from error
