"""`--verify warm|cold` and `--load-test NxS`: how a fix is proved, for every command that proves one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from engine_probe.errors import InputError
from engine_probe.requests import LONGEST_BURST_S, MOST_AT_ONCE
from playbooks.session import Proof

if TYPE_CHECKING:
    from collections.abc import Callable

GRADES = ("cold", "warm")
_NONE = "none"
_LOAD_TEST = re.compile(r"(?P<count>\d{1,6})x(?P<seconds>\d{1,6}(?:\.\d{1,3})?)s?")
_VERIFY_HELP = "How a fix is loaded to prove it: from nothing, or faster from a process that has imported vLLM."
_LOAD_HELP = "Requests at once, and for how long, such as 32x60s; none: leave it out."


def proof_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--verify` and `--load-test`, as `verify` and `load_test`."""
    return verify_option(load_test_option(command))


def verify_option(command: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option("--verify", type=click.Choice(GRADES), default="cold", show_default=True, help=_VERIFY_HELP)
    decorated: Callable[..., Any] = option(command)
    return decorated


def load_test_option(command: Callable[..., Any]) -> Callable[..., Any]:
    usual = f"{Proof().concurrent}x{Proof().burst_seconds:g}s"
    option = click.option("--load-test", "load_test", metavar="NxS", default=usual, show_default=True, help=_LOAD_HELP)
    decorated: Callable[..., Any] = option(command)
    return decorated


def proof_of(load_test: str) -> Proof:
    """Raises InputError for what is no load test."""
    if load_test == _NONE:
        return Proof(concurrent=0, burst_seconds=0.0)
    found = _LOAD_TEST.fullmatch(load_test)
    count, seconds = (int(found["count"]), float(found["seconds"])) if found is not None else (0, 0.0)
    if not 1 <= count <= MOST_AT_ONCE or not 0 < seconds <= LONGEST_BURST_S:
        raise InputError(
            f"--load-test {load_test}: wanted is NxS such as 32x60s (32 requests at once for 60 seconds; at most "
            f"{MOST_AT_ONCE:,} and {LONGEST_BURST_S:,.0f} s), or none"
        )
    return Proof(count, seconds)
