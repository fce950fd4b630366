"""Cuts a shell script into commands whose words keep how they are written; what is computed stays in one piece."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NamedTuple

from engine_probe.errors import InputError
from engine_probe.places import snippet
from engine_probe.shell_words import Word, place_at, split

_COVER = "\ue000"
_ARRAY = re.compile(r"(?<![^\s;&|(])[A-Za-z_]\w*\+?=\(")
_HERE = re.compile(r"<<-?[ \t]*(?P<quote>['\"\\]?)(?P<word>[\w.-]+)")
_CONTINUED = re.compile(r"\\\r?\n")
_MOST_CHARACTERS = 200_000


class Command(NamedTuple):
    """`words` as written, quotes included; `ends_with`: the operator behind it, "" at the end of the text."""

    words: tuple[str, ...]
    line: int
    ends_with: str
    is_cut: bool = False
    """Its last line ends without a backslash, and the next one begins with an option."""


class HereDocument(NamedTuple):
    """`is_comment`: `: <<'END'`, which does nothing with it."""

    line: int
    text: str
    is_comment: bool


class Cut(NamedTuple):
    commands: list[Command]
    here: list[HereDocument]


def cut(text: str, source: str, first_line: int = 1) -> Cut:
    """Raises InputError at a quote or a parenthesis that is never closed."""
    if len(text) > _MOST_CHARACTERS:
        raise InputError("is larger than 200 kB; that is no script written by hand", file=source)
    if "\0" in text:
        raise InputError(
            "holds a NUL byte; that is no script", file=source, line=text[: text.index("\0")].count("\n") + 1
        )
    covered = _Cover(text.replace(_COVER, "?"), source, first_line)
    commands = _commands(split(covered.run(), source), covered.text, covered.numbers)
    return Cut(commands, covered.here)


class _LineNumbers:
    def __init__(self, text: str, first_line: int) -> None:
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._first = first_line

    def at(self, index: int) -> int:
        return bisect_left(self._ends, index) + self._first


class _Cover:
    """Replaces what has blanks and operators of its own by signs of the same length."""

    def __init__(self, text: str, source: str, first_line: int) -> None:
        self.text = text
        self.source = source
        self.first_line = first_line
        self.out = list(text)
        self.numbers = _LineNumbers(text, first_line)
        self.here: list[HereDocument] = []
        self.waiting: list[tuple[str, bool]] = []
        """The word that ends each, and whether it is a comment."""

    def run(self) -> str:
        text, at, in_double = self.text, 0, False
        while at < len(text):
            sign = text[at]
            if sign == "\\":
                at += 2
            elif sign == '"':
                in_double = not in_double
                at += 1
            elif sign == "'" and not in_double:
                end = text.find("'", at + 1)
                at = len(text) if end < 0 else end + 1
            elif (stop := self.computed(at, in_double=in_double)) is not None:
                self.cover(at, stop)
                at = stop
            elif in_double:
                at += 1
            else:
                at = self.plain(at)
        return "".join(self.out)

    def plain(self, at: int) -> int:
        """Outside of quotes."""
        text = self.text
        if text[at] == "#" and (at == 0 or text[at - 1] in " \t\n;&|("):
            end = text.find("\n", at)
            return len(text) if end < 0 else end
        if text[at] == "\n" and self.waiting:
            return self.bodies(at + 1)
        if text.startswith("<<", at) and not text.startswith("<<<", at) and (found := _HERE.match(text, at)):
            before = text[text.rfind("\n", 0, at) + 1 : at].strip()
            self.waiting.append((found["word"], before == ":"))
            quote = found["quote"]
            return found.end() + (1 if quote and quote != "\\" and text.startswith(quote, found.end()) else 0)
        if text.startswith("<<<", at):
            return at + 3
        if found := _ARRAY.match(text, at):
            end = self.closing(found.end(), "(", ")")
            self.cover(at, end)
            return end
        return at + 1

    def computed(self, at: int, *, in_double: bool) -> int | None:
        text = self.text
        if text[at] == "`":
            end = text.find("`", at + 1)
            return self.unclosed(at, "`") if end < 0 else end + 1
        if text.startswith("$(", at) or (not in_double and text[at : at + 2] in ("<(", ">(")):
            return self.closing(at + 2, "(", ")")
        return self.closing(at + 2, "{", "}") if text.startswith("${", at) else None

    def closing(self, at: int, opens: str, closes: str) -> int:
        begin, depth, quote = at, 1, ""
        text = self.text
        while at < len(text):
            sign = text[at]
            if sign == "\\" and quote != "'":
                at += 1
            elif quote:
                quote = "" if sign == quote else quote
            elif sign in "'\"" and opens == "(":
                quote = sign
            elif sign == opens:
                depth += 1
            elif sign == closes:
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        return self.unclosed(begin - 1, opens)

    def unclosed(self, at: int, sign: str) -> int:
        place = place_at(self.text, at, at + 1)
        raise InputError(
            f"the {sign} at character {place.column + 1} is never closed",
            file=self.source,
            line=place.line + self.first_line - 1,
            snippet=snippet(self.text, place),
        )

    def cover(self, start: int, end: int) -> None:
        self.out[start:end] = _COVER * (end - start)

    def bodies(self, at: int) -> int:
        for word, is_comment in self.waiting:
            begin = at
            while at < len(self.text):
                end = self.text.find("\n", at)
                end = len(self.text) if end < 0 else end
                line = self.text[at:end]
                if line.strip("\t\r") == word:
                    break
                at = end + 1
            line_number = self.numbers.at(begin)
            self.here.append(HereDocument(line_number, self.text[begin:at], is_comment))
            end = self.text.find("\n", at)
            stop = len(self.text) if end < 0 else end
            self.out[begin:stop] = " " * (stop - begin)
            at = min(len(self.text), stop + 1)
        self.waiting = []
        return at


def _commands(words: list[Word], text: str, numbers: _LineNumbers) -> list[Command]:
    commands: list[Command] = []
    open_words: list[Word] = []
    is_redirected = False

    def close(operator: str, *, is_cut: bool = False) -> None:
        if open_words or (operator and operator != ";"):
            line = numbers.at(open_words[0].start if open_words else last_end)
            raw = tuple(text[word.start : word.end] for word in open_words)
            commands.append(Command(raw, line, operator, is_cut))
        open_words.clear()

    last_end = 0
    for word in words:
        if word.operator and (word.text[0] in "<>" or word.text == "&>"):
            if open_words and open_words[-1].end == word.start and open_words[-1].text.isdigit():
                open_words.pop()
            is_redirected = True
        elif word.operator:
            close(word.text)
            is_redirected = False
        elif is_redirected:
            is_redirected = False
        else:
            if open_words and "\n" in _CONTINUED.sub("", text[last_end : word.start]):
                close(";", is_cut=True)
            open_words.append(word)
        last_end = word.end
    close("")
    return commands
