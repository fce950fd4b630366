"""Text that must occur wherever a pattern matches: asked first, because searching plain text costs almost nothing."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

if sys.version_info >= (3, 11):
    from re import _constants as sre_constants
    from re import _parser as sre_parse
else:
    import sre_constants
    import sre_parse

_LEAST_LENGTH = 4
_MOST_SETS = 3
_REPEATS = (sre_constants.MAX_REPEAT, sre_constants.MIN_REPEAT, getattr(sre_constants, "POSSESSIVE_REPEAT", None))


def literals_of(pattern: str) -> tuple[str, ...]:
    """Texts of which at least one is in the `plain` form of every text that `pattern` matches; empty: none is certain.

    Also of a pattern for which case and the number of spaces matter: the text is in its plain form all the same.
    """
    return next(iter(all_literals_of(pattern)), ())


def all_literals_of(pattern: str) -> tuple[tuple[str, ...], ...]:
    """Such sets of texts, the most telling first: of each of them one is in every text that `pattern` matches."""
    tokens = sre_parse.parse(" ".join(pattern.split()), re.IGNORECASE)
    found = sorted(
        (one for one in _all_of_sequence(tokens) if _shortest(one) >= _LEAST_LENGTH), key=_worth, reverse=True
    )
    return tuple(dict.fromkeys(found))[:_MOST_SETS]


def plain(text: str) -> str:
    """`text` in lower case with single spaces: what literals are looked for in."""
    return " ".join(text.lower().split())


def has_any(literals: Iterable[str], text: str) -> bool:
    """Whether one of `literals` is in `text`. A plain loop: asked hundreds of thousands of times for a log."""
    for literal in literals:  # noqa: SIM110 - a generator takes three times as long
        if literal in text:
            return True
    return False


def have_all(sets: Iterable[Iterable[str]], text: str) -> bool:
    """Whether of each of `sets` one is in `text`."""
    for literals in sets:  # noqa: SIM110 - as above
        if not has_any(literals, text):
            return False
    return True


def _of_sequence(tokens: Any) -> tuple[str, ...]:
    """The most telling among what a sequence needs."""
    return max(_all_of_sequence(tokens), key=_worth)


def _all_of_sequence(tokens: Any) -> list[tuple[str, ...]]:
    """Its runs of letters, and its alternations."""
    candidates: list[tuple[str, ...]] = []
    run = ""
    for operator, argument in tokens:
        if operator is sre_constants.LITERAL and chr(argument).isascii():
            run += chr(argument)
            continue
        candidates += [(plain(run),), _of_token(operator, argument)]
        run = ""
    candidates.append((plain(run),))
    return candidates


def _of_token(operator: Any, argument: Any) -> tuple[str, ...]:
    if operator is sre_constants.SUBPATTERN:
        return _of_sequence(argument[-1])
    if operator is sre_constants.BRANCH:
        branches = [_of_sequence(branch) for branch in argument[1]]
        return tuple(text for branch in branches for text in branch) if all(map(_worth, branches)) else ()
    if operator in _REPEATS and argument[0] >= 1:
        return _of_sequence(argument[2])
    return ()


def _worth(texts: tuple[str, ...]) -> int:
    return _shortest(texts) - (len(texts) > 1)


def _shortest(texts: tuple[str, ...]) -> int:
    return min(map(len, texts), default=0)
