"""The signs that a match of a pattern can begin with: asked before the pattern is even compiled."""

from __future__ import annotations

import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as sre_parse
else:
    import sre_constants as sre
    import sre_parse

_ASCII = frozenset(map(chr, range(128)))
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, getattr(sre, "POSSESSIVE_REPEAT", None))
_CATEGORIES = {sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_SPACE: r"\s", sre.CATEGORY_WORD: r"\w"}
_Found = tuple["frozenset[str]", bool]
"""The signs, and whether what was looked at may also match nothing."""


def first_signs_of(pattern: str) -> str:
    """The ASCII signs that a text may begin with where `pattern` matches at its start; empty: any.

    For a pattern for which case matters. A text that begins with another sign than an ASCII one may always match.
    """
    signs, may_be_empty = _of_sequence(sre_parse.parse(pattern))
    return "" if may_be_empty or signs == _ASCII else "".join(sorted(signs))


def _of_sequence(tokens: Any) -> _Found:
    signs: frozenset[str] = frozenset()
    for operator, argument in tokens:
        more, may_be_empty = _of_token(operator, argument)
        signs |= more
        if not may_be_empty:
            return signs, False
    return signs, True


def _of_token(operator: Any, argument: Any) -> _Found:
    if operator in (sre.LITERAL, sre.IN):
        return _of_set(argument if operator is sre.IN else [(operator, argument)]), False
    if operator is sre.AT:
        return frozenset(), True
    if operator is sre.SUBPATTERN:
        return _of_sequence(argument[-1])
    if operator is sre.BRANCH:
        found = [_of_sequence(branch) for branch in argument[1]]
        return frozenset().union(*(signs for signs, _ in found)), any(may_be_empty for _, may_be_empty in found)
    if operator in _REPEATS:
        signs, may_be_empty = _of_sequence(argument[2])
        return signs, may_be_empty or argument[0] == 0
    return _ASCII, False


def _of_set(members: Any) -> frozenset[str]:
    signs: set[str] = set()
    for operator, argument in members:
        if operator is sre.LITERAL:
            signs.add(chr(argument))
        elif operator is sre.RANGE:
            signs |= {sign for sign in _ASCII if argument[0] <= ord(sign) <= argument[1]}
        elif operator is sre.CATEGORY and argument in _CATEGORIES:
            signs |= {sign for sign in _ASCII if re.match(_CATEGORIES[argument], sign)}
        else:
            return _ASCII
    return frozenset(signs) & _ASCII
