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
_REPEATS = (sre_constants.MAX_REPEAT, sre_constants.MIN_REPEAT, getattr(sre_constants, "POSSESSIVE_REPEAT", None))


def literals_of(pattern: str) -> tuple[str, ...]:
    """Texts of which at least one is in the `plain` form of every text that `pattern` matches; empty: none is certain.

    Also of a pattern for which case and the number of spaces matter: the text is in its plain form all the same.
    """
    found = _of_sequence(sre_parse.parse(" ".join(pattern.split()), re.IGNORECASE))
    return found if found and min(map(len, found)) >= _LEAST_LENGTH else ()


def plain(text: str) -> str:
    """`text` in lower case with single spaces: what literals are looked for in."""
    return " ".join(text.lower().split())


def has_any(literals: Iterable[str], text: str) -> bool:
    """Whether one of `literals` is in `text`. A plain loop: asked hundreds of thousands of times for a log."""
    for literal in literals:  # noqa: SIM110 - a generator takes three times as long
        if literal in text:
            return True
    return False


def _of_sequence(tokens: Any) -> tuple[str, ...]:
    """The most telling among what a sequence needs: the longest run of letters, or an alternation of long ones."""
    candidates: list[tuple[str, ...]] = []
    run = ""
    for operator, argument in tokens:
        if operator is sre_constants.LITERAL and chr(argument).isascii():
            run += chr(argument)
            continue
        candidates += [(plain(run),), _of_token(operator, argument)]
        run = ""
    candidates.append((plain(run),))
    return max(candidates, key=_worth)


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
    return min(map(len, texts), default=0) - (len(texts) > 1)
