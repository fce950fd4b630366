"""Walks the commands of a shell script in order: what it sets, where it waits, and what it starts."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from engine_probe.deployment_sources.places import shown
from engine_probe.deployment_sources.shell_expand import Scope, expand, is_assignment
from engine_probe.deployment_sources.shell_found import SERVES, Context, Found
from engine_probe.deployment_sources.shell_groups import Groups
from engine_probe.deployment_sources.shell_servers import Starter
from engine_probe.deployment_sources.shell_text import cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.deployment_sources.shell_groups import Group
    from engine_probe.deployment_sources.shell_text import Command

_ASKS = re.compile(r"\b(?:curl|wget|nc|wait-for-it)\b|/health|/v1/models|startup complete", re.IGNORECASE)
_WAITS_ITSELF = re.compile(r"\bcurl\b.*--retry|\bwait-for-it|\bwget\b.*--retry-connrefused")
SAYS_ONLY = frozenset(
    ("echo", "printf", "pkill", "pgrep", "kill", "grep", "cat", "which", "type", "alias", "trap", "ps", "sed", "awk")
)
_JOINS = ("|", "&&", "||")
_MOST_TEXTS = 8


def read_text_of_shell(
    text: str,
    context: Context,
    scope: Scope | None = None,
    *,
    first_line: int = 1,
    depth: int = 0,
    said: set[str] | None = None,
) -> Found:
    """`depth`: of texts inside of texts, such as `bash -c "…"`. Raises InputError for what vLLM would refuse."""
    walk = _Walk(context, scope or Scope(context.env), depth, set() if said is None else said)
    return walk.of_text(text, first_line)


class _Walk:
    def __init__(self, context: Context, scope: Scope, depth: int, said: set[str]) -> None:
        self.context = context
        self.scope = scope
        self.depth = depth
        self.found = Found(context.source, said=said)
        self.groups = Groups(self.found, scope)
        self.starter = Starter(context, self.found, self.inner)
        self.own: dict[str, Callable[[list[str]], None]] = {
            **dict.fromkeys(("declare", "typeset", "readonly", "local"), self.declare),
            **dict.fromkeys(("source", "."), self.source),
            **dict.fromkeys(("cd", "pushd"), self.change_folder),
            "export": lambda rest: self.declare(["-x", *rest]),
            "unset": self.unset,
            "set": self.options,
            "read": self.unknown,
            "sleep": lambda _: self.found.wait("sleep"),
        }

    def of_text(self, text: str, first_line: int) -> Found:
        pieces = cut(text, self.context.source, first_line)
        for document in pieces.here:
            if not document.is_comment and SERVES.search(document.text):
                self.found.note("a here document that starts vLLM is not read", document.line)
        commands = pieces.commands
        for number, command in enumerate(commands):
            self.found.line = command.line
            if command.is_cut:
                self.found.note(
                    "the line below begins with an option, and no \\ stands here: it is not part of this command"
                )
            is_alternative = number > 0 and commands[number - 1].ends_with == "||"
            self.take(command, _is_in_background(commands, number), is_alternative)
        for group in self.groups.open:
            self.found.note(f"{group.kind} is never closed", group.line)
        return self.found

    def take(self, command: Command, is_in_background: bool, is_alternative: bool) -> None:
        words, closed = self.groups.ends(self.groups.enter(list(command.words)))
        if words:
            inside = self.groups.condition
            if inside is None and not is_alternative:
                self.run(words, is_in_background)
            else:
                self.may_run(words, inside)
        for _ in range(closed):
            self.groups.close(")", is_in_background=is_in_background)

    def run(self, raw: list[str], is_in_background: bool) -> None:
        at = next((number for number, one in enumerate(raw) if not is_assignment(one)), len(raw))
        if at == len(raw):
            for one in raw:
                self.scope.assign(one)
            return
        first, rest = raw[at], raw[at + 1 :]
        if first in self.own:
            self.own[first](rest)
        elif first in self.groups.functions:
            line = self.groups.functions[first]
            self.found.note(f"the function {shown(first)} of line {line} is called; what it does is not followed")
        else:
            self.start(raw, at, is_in_background)

    def start(self, raw: list[str], at: int, is_in_background: bool) -> None:
        """A program; the first `at` words are assignments for it alone."""
        scope = self.scope.copied()
        for one in raw[:at]:
            name = scope.assign(one)
            scope.exported |= {name} if name else set()
        expanded = [expand(one, self.scope) for one in raw[at:]]
        words = [word for one in expanded for word in one.words]
        text = " ".join(words)
        if not words or posixpath.basename(words[0]) in SAYS_ONLY:
            return
        if not SERVES.search(text):
            if _WAITS_ITSELF.search(text):
                self.found.wait("answers")
            return
        self.starter.start(words, scope, tuple(part for one in expanded for part in one.unknown), is_in_background)

    def may_run(self, raw: list[str], inside: Group | None) -> None:
        """What it sets is not known afterwards, and a server that it starts is named."""
        text = " ".join(raw)
        if inside is not None and inside.kind.endswith("loop") and _ASKS.search(text):
            inside.asks = True
        if SERVES.search(text):
            if posixpath.basename(raw[0]) not in SAYS_ONLY:
                where = "behind ||" if inside is None else f"in {inside.kind} from line {inside.line} on"
                self.found.note(f"a server is started {where}, which is not followed: {shown(text)}")
            return
        self.unknown([one.partition("=")[0] for one in raw if is_assignment(one)])
        if raw[0] == "read":
            self.unknown(raw[1:])

    def unknown(self, names: list[str]) -> None:
        for name in names:
            if re.fullmatch(r"\w+\+?", name):
                self.scope.set(name.rstrip("+"), None)

    def declare(self, rest: list[str]) -> None:
        is_exported = any(one.startswith("-") and "x" in one for one in rest)
        for one in rest:
            name = self.scope.assign(one) if is_assignment(one) else one
            if is_exported and name and not name.startswith("-"):
                self.scope.exported.add(name)
                self.scope.own.setdefault(name, self.scope.value(name))

    def unset(self, rest: list[str]) -> None:
        for name in rest:
            self.scope.own.pop(name, None)
            self.scope.exported.discard(name)

    def options(self, rest: list[str]) -> None:
        """`set -a` exports all that is assigned from there on."""
        if rest and rest[0][:1] in ("+", "-") and (re.fullmatch(r"[+-]\w*a\w*", rest[0]) or "allexport" in rest):
            self.scope.exports_all = rest[0].startswith("-")

    def source(self, rest: list[str]) -> None:
        if rest and not rest[0].strip("\"'").endswith("activate"):
            self.found.note(f"{shown(rest[0])} is sourced; what it sets is not read")

    def change_folder(self, rest: list[str]) -> None:
        found = expand(rest[0], self.scope) if rest else None
        if found is not None and len(found.words) == 1 and not found.unknown:
            self.starter.folder = self.starter.folder / found.words[0]
        elif found is None or "dirname" not in rest[0]:
            self.found.note("the folder that it changes to is computed; paths after it are taken from the script's own")

    def inner(self, text: str, scope: Scope, is_in_background: bool) -> None:
        """A text that another shell runs: it knows what is exported."""
        if self.depth >= _MOST_TEXTS:
            self.found.note("texts inside of texts go too deep; this one is not read")
            return
        known = {name: value for name, value in scope.own.items() if name in scope.exported}
        context = self.context._replace(folder=self.starter.folder)
        inner_scope = Scope(scope.env, known, set(scope.exported))
        found = read_text_of_shell(
            text, context, inner_scope, first_line=self.found.line, depth=self.depth + 1, said=self.found.said
        )
        for server in found.servers:
            server.is_in_background |= is_in_background
        self.found.servers += found.servers
        self.found.notes += found.notes


def _is_in_background(commands: list[Command], number: int) -> bool:
    """Of a pipeline or a list joined by && and ||, the & at its end."""
    while number < len(commands) and commands[number].ends_with in _JOINS:
        number += 1
    return number < len(commands) and commands[number].ends_with == "&"
