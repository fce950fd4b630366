"""`vllm-console monitor`: GPU and host memory, whose it is, and what is wrong; as a screen, text or JSON."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import TYPE_CHECKING

import click

from playbooks.alerts import find_alerts
from tui.output import Output, terminal_width
from tui.plain_text import asks_for_ascii, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.hardware.reading import Reading
    from engine_probe.hardware.watch import Watch
    from playbooks.alert import Alert

FINE, FOUND = 0, 1
DEFAULT_SECONDS, LEAST_SECONDS, MOST_SECONDS = 1.0, 0.1, 3600.0
_SAMPLE_SECONDS = 0.25
"""Between two looks memory alone is asked so often, so that a short peak is not missed."""


def _in_range(_ctx: click.Context, param: click.Parameter, seconds: float | None) -> float | None:
    """Not click's own range: that takes nan."""
    if seconds is not None and not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        wanted = f"{seconds:g}: seconds from {LEAST_SECONDS:g} to {MOST_SECONDS:g} are wanted"
        raise click.BadParameter(wanted, param=param)
    return seconds


@click.command()
@click.option("--once", is_flag=True, help="Print one look, and end.")
@click.option("--follow", "-f", is_flag=True, help="Print a look every interval, until Ctrl-C.")
@click.option(
    "--interval", type=float, callback=_in_range, metavar="SECONDS", help="Between two looks; 1 where it is not given."
)
@click.option("--json", "as_json", is_flag=True, help="One object; with --follow one a line.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII only.")
def monitor(once: bool, follow: bool, interval: float | None, as_json: bool, ascii_only: bool) -> int:
    """Show the memory of the GPUs and of this host: whose it is, what it is for, and what is wrong with it.

    On a terminal it opens the monitor. With --once, --follow or --json, or without one to draw on, it prints.

    \b
    vllm-console monitor --once
    vllm-console monitor --once --json > host.json
    vllm-console monitor --follow --json --interval 5 | jq -r '.alerts[].text'

    What is saved of --once --json can be given to diagnose --host-state. Exit code: 0 nothing is wrong, 1 an alert of
    severity error stands.
    """
    if once and follow:
        raise click.UsageError("--once and --follow exclude each other")
    is_screen = not (once or follow or as_json) and _has_terminal()
    if interval is not None and not follow and not is_screen:
        raise click.UsageError("--interval goes with --follow, or with the monitor on a terminal")
    seconds = DEFAULT_SECONDS if interval is None else interval
    if is_screen:
        return _open_screen(seconds, ascii_only=ascii_only)
    if follow:
        return _follow(seconds, as_json=as_json, ascii_only=ascii_only)
    from engine_probe.hardware.watch import look_once

    reading = look_once()
    alerts = find_alerts(reading)
    _print(reading, alerts, as_json=as_json, ascii_only=ascii_only)
    return FOUND if any(one.severity == "error" for one in alerts) else FINE


def _has_terminal() -> bool:
    """One that can be drawn on, and that keys come from."""
    is_terminal = all(one is not None and one.isatty() for one in (sys.stdin, sys.stdout, sys.stderr))
    return is_terminal and os.environ.get("TERM", "") not in ("", "dumb")


def _open_screen(seconds: float, *, ascii_only: bool) -> int:
    from tui.app import run_console

    return run_console(start="monitor", interval_seconds=seconds, ascii_only=ascii_only or None)


def _follow(seconds: float, *, as_json: bool, ascii_only: bool) -> int:
    """Ends only by a signal, or when nobody reads any more."""
    from engine_probe.hardware.watch import Watch

    watch = Watch()
    before: Reading | None = None
    try:
        for _ in _ticks(watch, seconds):
            reading = watch.read()
            _print(reading, find_alerts(reading, before), as_json=as_json, ascii_only=ascii_only)
            if not as_json:
                Output().text()
            before = reading
    finally:
        watch.close()
    return FINE


def _ticks(watch: Watch, seconds: float) -> Iterator[None]:
    """At once, then every `seconds`; looks that took too long are left out, not made up for."""
    due = time.monotonic()
    while True:
        yield
        due = max(due + seconds, time.monotonic())
        while (left := due - time.monotonic()) > 0:
            _wait(min(left, _SAMPLE_SECONDS))
            if left > _SAMPLE_SECONDS:
                watch.sample()


def _wait(seconds: float) -> None:
    """Raises BrokenPipeError as soon as nobody reads what is printed, not only at the next look."""
    waiting = select.poll()
    try:
        waiting.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # no real stdout
        time.sleep(seconds)
        return
    if waiting.poll(seconds * 1000):
        raise BrokenPipeError


def _print(reading: Reading, alerts: tuple[Alert, ...], *, as_json: bool, ascii_only: bool) -> None:
    output = Output(as_json)
    if as_json:
        from playbooks.monitor_json import as_object

        output.result(as_object(reading, alerts))
        return
    from tui.commands.monitor_text import lines_of

    ascii_only = ascii_only or asks_for_ascii() or not _writes_unicode()
    for line in lines_of(reading, alerts, terminal_width(), ascii_only=ascii_only):
        output.text(plain(line.text) if ascii_only else line.text, line.style)


def _writes_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("_", "-") in ("utf-8", "utf8")
