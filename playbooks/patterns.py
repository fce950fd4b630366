"""Patterns as playbooks write them: a space means any white space, upper and lower case are the same."""

from __future__ import annotations

import re
import time
from functools import cached_property
from typing import TYPE_CHECKING

from engine_probe.literals import all_literals_of, have_all
from engine_probe.numbers import number_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine_probe.facts import Value
    from playbooks.schema import Wording

SLOW_SECONDS = 0.25
_SPACES = (
    (re.compile(r"(?<!\\)\s+\?(?![?+])"), r"\\s*"),
    (re.compile(r"(?<!\\)\s+(?=[*{])"), r"\\s"),
    (re.compile(r"(?<!\\)\s+"), r"\\s+"),
)
"""`a ?b`: any white space between, or none; `a {2,4}b`: so much of it; `a b`: some."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """Raises re.error with the place in `text`."""
    pattern = text.strip()
    for spaces, instead in _SPACES:
        pattern = spaces.sub(instead, pattern)
    return re.compile(pattern, re.IGNORECASE)


def compile_frames(text: str) -> re.Pattern[str]:
    """Frames are code: case counts and a space is a space. Raises re.error."""
    return re.compile(text.strip(), re.MULTILINE)


class Text:
    """One pattern, compiled when it is first wanted: a log calls for few of several hundred."""

    def __init__(
        self,
        log: str,
        literals: Sequence[Sequence[str]] | None = None,
        compile_text: Callable[[str], re.Pattern[str]] | None = None,
    ) -> None:
        """Raises re.error where `literals`, what `may_match` asks for, is not given and `log` does not compile.

        `compile_text`: another way to read `log` than `compile_pattern`.
        """
        self.log = log
        self.literals = all_literals_of(log) if literals is None else literals
        self._compile = compile_text or compile_pattern

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Raises re.error."""
        return self._compile(self.log)

    def may_match(self, plain: str) -> bool:
        """False when the pattern cannot match a text whose `literals.plain` form is (part of) `plain`."""
        return have_all(self.literals, plain)

    def search(self, text: str) -> re.Match[str] | None:
        return self.pattern.search(text)


class CompiledWording(Text):
    """A wording with its patterns."""

    def __init__(
        self,
        spec: Wording,
        literals: Sequence[Sequence[str]] | None = None,
        frames_literals: Sequence[Sequence[str]] | None = None,
    ) -> None:
        super().__init__(spec.log, literals)
        self.spec = spec
        self.frames = None if spec.frames is None else Text(spec.frames, frames_literals, compile_frames)

    @property
    def id(self) -> str:
        return self.spec.id

    @cached_property
    def also_capture(self) -> tuple[re.Pattern[str], ...]:
        return tuple(compile_pattern(extra) for extra in self.spec.also_capture)

    def captured(self, message: str) -> dict[str, Value] | None:
        """The facts found in one message; None when the wording does not match at all."""
        found = self.search(message)
        if found is None:
            return None
        groups: dict[str, str | None] = dict(found.groupdict())
        for extra in self.also_capture:
            if more := extra.search(message):
                groups |= more.groupdict()
        return {name: to_value(text) for name, text in groups.items() if text is not None}

    def group_names(self) -> frozenset[str]:
        """The facts that may be captured."""
        return frozenset(name for pattern in (self.pattern, *self.also_capture) for name in pattern.groupindex)


def to_value(text: str) -> Value:
    """A number where the whole text is one, thousands separators allowed. What cannot be one stays text."""
    number = number_in(text)
    return text if number is None else number


def is_slow(pattern: re.Pattern[str], probes: tuple[str, ...], clock: Callable[[], float] = time.thread_time) -> bool:
    """Whether `pattern` takes too long on a line of up to 10,000 characters.

    In CPU time, so that a busy host makes no good pattern a bad one. The line grows step by step, so that a
    pattern whose time doubles with each character is caught while it returns.
    """
    lengths = (*range(14, 34, 2), 50, 100, 300, 1_000, 3_000, 10_000)
    for probe in probes:
        for length in lengths:
            line = (probe * (length // len(probe) + 1))[:length] + "\x00"
            started = clock()
            pattern.search(line)
            if clock() - started > SLOW_SECONDS:
                return True
    return False


def slow_probes(samples: list[str]) -> tuple[str, ...]:
    """Lines on which a bad pattern shows: one letter, blanks, digits, and the playbook's own samples repeated."""
    return ("a", " ", "1", "a ", "1.", *(sample for sample in samples if sample))


def repeated_letters(pattern: str) -> tuple[str, ...]:
    """Letters that `pattern` itself repeats: `x` of `(x+x+)+y`, on which it is slowest."""
    return tuple(sorted(set(re.findall(r"(?<!\\)(\w)\)?[+*{]", pattern))))
