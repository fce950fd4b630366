"""The groups that a shell script is in: loops, conditions and functions, whose commands may not run, and brackets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.deployment_sources.places import shown

if TYPE_CHECKING:
    from engine_probe.deployment_sources.shell_expand import Scope
    from engine_probe.deployment_sources.shell_found import Found

_OPENS = {
    "for": "a for loop",
    "while": "a while loop",
    "until": "an until loop",
    "select": "a select loop",
    "if": "an if",
    "case": "a case",
}
_NAMES_A_VARIABLE = ("for", "select", "case")
_CLOSES = frozenset(("done", "fi", "esac", "}"))
_SKIPPED = frozenset(("then", "else", "elif", "do", "!"))
_FUNCTION = re.compile(r"(?:function\s+)?(?P<name>[\w.:-]+)\s*\(\)(?P<brace>\{?)")
_TESTS = ("((", "[[")


@dataclass
class Group:
    """`is_plain`: braces and parentheses, whose commands all run. `asks`: it asks whether a server is up."""

    kind: str
    line: int
    is_plain: bool
    first_server: int
    outer: Scope | None = None
    asks: bool = False
    has_brace: bool = False


class Groups:
    """Takes the words of the shell's own grammar off the front and the end of each command."""

    def __init__(self, found: Found, scope: Scope) -> None:
        self.found = found
        self.scope = scope
        self.open: list[Group] = []
        self.functions: dict[str, int] = {}

    @property
    def condition(self) -> Group | None:
        """The outermost group whose commands may not run, or run several times."""
        return next((group for group in self.open if not group.is_plain), None)

    def enter(self, words: list[str]) -> list[str]:
        """The command's own words; groups that begin or end before them are entered or left."""
        while words:
            rest = self._entered(words)
            if rest is None:
                return words
            words = rest
        return words

    def _entered(self, words: list[str]) -> list[str] | None:
        first = words[0]
        if first in _OPENS:
            return self._opened(first, words)
        if first == "{" or first in _CLOSES or first in _SKIPPED:
            if first == "{":
                self._brace()
            elif first in _CLOSES:
                self.close(first)
            return words[1:]
        if first.startswith(_TESTS):
            return []
        if first.startswith("(") and not first.startswith("()"):
            self._push("(", is_plain=True, outer=self.scope.copied())
            return [first[1:], *words[1:]] if len(first) > 1 else words[1:]
        return self._function(words)

    def _opened(self, first: str, words: list[str]) -> list[str]:
        self._push(_OPENS[first], is_plain=False)
        if first in _NAMES_A_VARIABLE:
            if words[1:2] and re.fullmatch(r"\w+", words[1]):
                self.scope.set(words[1], None)
            return []
        return words[1:]

    def _brace(self) -> None:
        last = self.open[-1] if self.open else None
        if last is not None and last.kind.startswith("the function") and not last.has_brace:
            last.has_brace = True
        else:
            self._push("{", is_plain=True)

    def _function(self, words: list[str]) -> list[str] | None:
        text = " ".join(words[:3])
        found = _FUNCTION.match(text)
        name = found["name"] if found else words[1] if words[0] == "function" and len(words) > 1 else None
        if name is None:
            return None
        self._push(f"the function {shown(name)}", is_plain=False)
        self.functions[name] = self.found.line
        taken = len(found[0].split()) if found else 2
        self.open[-1].has_brace = bool(found and found["brace"])
        return words[taken:]

    def _push(self, kind: str, *, is_plain: bool, outer: Scope | None = None) -> None:
        self.open.append(Group(kind, self.found.line, is_plain, len(self.found.servers), outer))

    def ends(self, words: list[str]) -> tuple[list[str], int]:
        """The words without the parentheses that close at their end, and how many these are."""
        depth = sum(group.kind == "(" for group in self.open)
        closed = 0
        while words and closed < depth and words[-1].endswith(")") and words[-1].count("(") < words[-1].count(")"):
            words = [*words[:-1], words[-1][:-1]] if len(words[-1]) > 1 else words[:-1]
            closed += 1
        return words, closed

    def close(self, word: str, *, is_in_background: bool = False) -> None:
        if not self.open:
            return
        group = self.open.pop()
        if group.outer is not None:
            self.scope.own, self.scope.exported = group.outer.own, group.outer.exported
        if is_in_background and group.is_plain:
            for server in self.found.servers[group.first_server :]:
                server.is_in_background = True
        if group.asks and word == "done":
            self.found.wait("answers")
