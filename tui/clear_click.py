"""Click in this program's words: groups that name the nearest command, seconds, and help that is never cut.

Shared by the command line and its groups; imports click only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

ENGINE_HELP = (
    "A Python, a venv, a `vllm` script, container:NAME, image:IMAGE, pod:NAME or ssh:HOST; without it the one found."
)


class ClearGroup(click.Group):
    """A wrong word is answered with the nearest command; the list of commands shows whole sentences."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            raise click.UsageError(unknown_command(args[0], names), ctx)
        return super().resolve_command(ctx, args)

    def help_of(self, ctx: click.Context, name: str) -> str:
        """The line that the list of commands has for `name`: the first sentence of its help."""
        command = self.get_command(ctx, name)
        text = " ".join(((command.help if command else "") or "").partition("\n\n")[0].split())
        return text.partition(". ")[0].removesuffix(".") + "."

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.help_of(ctx, name)) for name in self.list_commands(ctx)])


def unknown_command(word: str, names: Iterable[str]) -> str:
    """What is said of a word that is no command."""
    known = list(names)
    from difflib import get_close_matches  # noqa: PLC0415 -- only when a word is wrong

    near = get_close_matches(word, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(known)}."
    return f"no command {word!r}.{hint}"


class Seconds(click.ParamType[float]):
    """A number of seconds, at least `least`."""

    name = "seconds"

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        return "SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"{value!r} is no number of seconds, such as 60 or 0.5", param, ctx)
        if not math.isfinite(seconds) or seconds < self._least:
            self.fail(f"{value} is out of range: {self._least:g} seconds or more", param, ctx)
        return seconds
