"""What a word of a shell script becomes, as far as the script itself tells; what is computed stays as written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.shell_words import split as split_words

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 20_000
_MOST_WORDS = 2_000
_MOST_NESTED = 10
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<adds>\+?)=(?P<value>.*)", re.DOTALL)
_ESCAPED_IN_DOUBLE = '"\\$`\n'


class Expanded(NamedTuple):
    """`unknown`: parts that are computed or have no value, as written."""

    words: tuple[str, ...]
    unknown: tuple[str, ...] = ()


@dataclass
class Scope:
    """`env`: variables of whoever starts the script; its own come first. None: computed, so not known."""

    env: Mapping[str, str]
    own: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    exports_all: bool = False

    def value(self, name: str) -> tuple[str, ...] | None:
        """A plain variable is one word, an array several."""
        if name in self.own:
            return self.own[name]
        return (self.env[name],) if name in self.env else None

    def copied(self) -> Scope:
        return Scope(self.env, dict(self.own), set(self.exported), self.exports_all)

    def set(self, name: str, value: tuple[str, ...] | None) -> None:
        self.own[name] = value
        if self.exports_all:
            self.exported.add(name)

    def assign(self, raw: str) -> str | None:
        """Takes `NAME=value` or `NAME=(a b)` as written; the name, or None where this is no assignment."""
        found = _ASSIGNMENT.fullmatch(raw)
        if found is None:
            return None
        name, value = found["name"], found["value"]
        made = _array(value[1:-1], self) if value.startswith("(") and value.endswith(")") else _single(value, self)
        if found["adds"] and made is not None:
            before = self.value(name)
            is_array = value.startswith("(")
            made = None if before is None else (*before, *made) if is_array else ("".join((*before, *made)),)
        if made is not None and sum(map(len, made)) > _LONGEST:
            made = None
        self.set(name, made)
        return name

    def exported_values(self) -> tuple[dict[str, str], list[str]]:
        """Those that a started program gets, and the names of those that are not known."""
        known, unknown = {}, []
        for name in sorted(self.exported):
            value = self.own.get(name)
            if value is None:
                unknown.append(name)
            else:
                known[name] = " ".join(value)
        return known, unknown


def is_assignment(raw: str) -> bool:
    return _ASSIGNMENT.fullmatch(raw) is not None


def _single(raw: str, scope: Scope) -> tuple[str, ...] | None:
    found = expand(raw, scope, splits=False)
    return None if found.unknown else (" ".join(found.words),)


def _array(inside: str, scope: Scope) -> tuple[str, ...] | None:
    words: list[str] = []
    for word in split_words(inside, "an array"):
        if word.operator and word.text != ";":
            return None
        if word.operator:
            continue
        found = expand(inside[word.start : word.end], scope)
        if found.unknown:
            return None
        words += found.words
        if len(words) > _MOST_WORDS:
            return None
    return tuple(words)


def expand(raw: str, scope: Scope, *, splits: bool = True) -> Expanded:
    """The words that one written word becomes: none, one, or several of an unquoted variable or an array."""
    return _Expander(raw, scope, splits).run()


class _Expander:
    def __init__(self, raw: str, scope: Scope, splits: bool, depth: int = 0) -> None:
        self.raw = raw
        self.scope = scope
        self.splits = splits
        self.depth = depth
        self.words: list[str] = []
        self.open: str | None = None
        self.unknown: list[str] = []
        self.length = 0

    def run(self) -> Expanded:
        raw, at = self.raw, 0
        if raw == "~" or raw.startswith("~/"):
            home = self.scope.value("HOME")
            self.add(home[0] if home else "~")
            at = 1
        while at < len(raw):
            at = self.step(at)
            if self.length > _LONGEST:
                return Expanded((raw[:80],), (raw[:80],))
        if self.open is not None:
            self.words.append(self.open)
        return Expanded(tuple(self.words), tuple(self.unknown))

    def step(self, at: int) -> int:
        raw, sign = self.raw, self.raw[at]
        if sign == "'":
            end = raw.find("'", at + 1)
            end = len(raw) if end < 0 else end
            self.add(raw[at + 1 : end])
            return end + 1
        if sign == '"':
            return self.double(at + 1)
        if sign == "\\":
            self.add("" if raw.startswith(("\n", "\r\n"), at + 1) else raw[at + 1 : at + 2])
            return at + (3 if raw.startswith("\r\n", at + 1) else 2)
        if sign in "$`":
            return self.variable(at, is_quoted=not self.splits)
        end = at + 1
        while end < len(raw) and raw[end] not in "'\"\\$`":
            end += 1
        self.add(raw[at:end])
        return end

    def double(self, at: int) -> int:
        raw = self.raw
        self.add("")
        while at < len(raw) and raw[at] != '"':
            if raw[at] == "\\" and raw[at + 1 : at + 2] in tuple(_ESCAPED_IN_DOUBLE):
                self.add("" if raw[at + 1] == "\n" else raw[at + 1])
                at += 2
            elif raw[at] in "$`":
                at = self.variable(at, is_quoted=True)
            else:
                self.add(raw[at])
                at += 1
            if self.length > _LONGEST:
                break
        return at + 1

    def variable(self, at: int, *, is_quoted: bool) -> int:
        raw = self.raw
        if raw[at] == "`":
            end = raw.find("`", at + 1)
            return self.leave(at, len(raw) if end < 0 else end + 1)
        if name := _NAME.match(raw, at + 1):
            self.put(self.scope.value(name[0]), raw[at : name.end()], is_quoted=is_quoted)
            return name.end()
        if raw.startswith("${", at):
            end = _closing(raw, at + 2)
            self.braces(raw[at + 2 : end - 1], raw[at:end], is_quoted=is_quoted)
            return end
        if raw.startswith("$(", at):
            return self.leave(at, _closing(raw, at + 2, "(", ")"))
        if at + 1 < len(raw) and raw[at + 1] in "0123456789@*#?$!-'":
            return self.leave(at, at + 2)
        self.add("$")
        return at + 1

    def braces(self, inside: str, written: str, *, is_quoted: bool) -> None:
        name = _NAME.match(inside)
        rest = "" if name is None else inside[name.end() :]
        if name is None or (rest and rest not in ("[@]", "[*]") and not re.match(r":?[-=?]", rest)):
            self.add(written)
            self.unknown.append(written)
            return
        value = self.scope.value(name[0])
        if rest in ("[@]", "[*]"):
            self.put(value, written, is_quoted=is_quoted, is_all=True)
            return
        is_known = name[0] not in self.scope.own or value is not None
        takes_default = is_known and (value is None or (rest.startswith(":") and not "".join(value)))
        if rest and takes_default and "?" not in rest[:2] and self.depth < _MOST_NESTED:
            self.default(rest.lstrip(":")[1:], is_quoted=is_quoted)
        else:
            self.put(value, written, is_quoted=is_quoted)

    def default(self, text: str, *, is_quoted: bool) -> None:
        inner = _Expander(text, self.scope, splits=False, depth=self.depth + 1).run()
        self.unknown += inner.unknown
        self.put((" ".join(inner.words),), text, is_quoted=is_quoted)

    def put(self, value: tuple[str, ...] | None, written: str, *, is_quoted: bool, is_all: bool = False) -> None:
        if value is None:
            self.add(written)
            self.unknown.append(written)
        elif is_all:
            self.several(value)
        elif is_quoted:
            self.add(value[0] if value else "")
        else:
            text = value[0] if value else ""
            if text[:1].isspace():
                self.end()
            self.several(tuple(text.split()))
            if text[-1:].isspace():
                self.end()

    def several(self, words: tuple[str, ...]) -> None:
        """The first goes on with what stands before it, the last with what comes after it."""
        for number, word in enumerate(words):
            if number:
                self.end()
            self.add(word)

    def end(self) -> None:
        if self.open is not None:
            self.words.append(self.open)
            self.open = None

    def add(self, text: str) -> None:
        self.open = (self.open or "") + text
        self.length += len(text)

    def leave(self, start: int, end: int) -> int:
        self.add(self.raw[start:end])
        self.unknown.append(self.raw[start:end])
        return end


def _closing(raw: str, at: int, opens: str = "{", closes: str = "}") -> int:
    depth = 1
    while at < len(raw):
        if raw[at] == "\\":
            at += 1
        elif raw[at] == opens:
            depth += 1
        elif raw[at] == closes:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(raw)
