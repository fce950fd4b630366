"""Help and usage errors of every command: they fit 80 columns, nothing is cut, and no word is click's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from tui.clear_click import ENGINE_HELP, Seconds
from tui.cli import COMMANDS, cli

if TYPE_CHECKING:
    from collections.abc import Iterator

A_CHOICE = re.compile(r" +--[a-z-]+ \[[a-z_|]+\]")
"""Click keeps the words of a choice together."""


def commands(group: click.Group, ctx: click.Context, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            yield from commands(command, ctx, (*words, name))
        else:
            yield (*words, name)


ALL = list(commands(cli, click.Context(cli)))


def help_of(words: tuple[str, ...]) -> str:
    return CliRunner().invoke(cli, [*words, "--help"], terminal_width=80).output


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_fits_and_is_whole(words: tuple[str, ...]) -> None:
    shown = help_of(words)
    assert shown.startswith("Usage: ")
    assert [line for line in shown.splitlines() if len(line) > 80 and not A_CHOICE.fullmatch(line)] == []
    assert not re.search(r"\w\.\.\.", shown.partition("\n")[2])


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_has_no_jargon(words: tuple[str, ...]) -> None:
    assert not re.search(r"\b(TEXT|INTEGER|FLOAT|RANGE|PATH|BOOLEAN)\b", help_of(words))


@pytest.mark.parametrize("name", ["wizard", "replay", "lab"])
def test_every_form_of_an_engine_is_named(name: str) -> None:
    assert " ".join(ENGINE_HELP.split()) in " ".join(help_of((name,)).split())
    assert "image:IMAGE" in ENGINE_HELP


@pytest.mark.parametrize("group", [(), ("engine",), ("playbooks",)], ids=str)
def test_a_wrong_command_is_answered_alike_everywhere(group: tuple[str, ...]) -> None:
    known = list(COMMANDS) if not group else help_of(group).partition("Commands:")[2].split()
    word = known[0] + "x"
    assert f"no command {word!r}. Did you mean {known[0]!r}?" in CliRunner().invoke(cli, [*group, word]).output
    assert "no command 'xyzzy'. There are: " in CliRunner().invoke(cli, [*group, "xyzzy"]).output


@pytest.mark.parametrize(("value", "said"), [("abc", "is no number of seconds"), ("0", "out of range"), ("nan", "out")])
def test_seconds_are_explained(value: str, said: str) -> None:
    result = CliRunner().invoke(cli, ["engine", "check", "--timeout", value])
    assert result.exit_code == 2
    assert said in result.output


def test_seconds_are_read() -> None:
    assert Seconds(1).convert("1.5", None, None) == 1.5
