"""Numbers in text that came from outside: which of them can be a count or a size at all."""

from __future__ import annotations

import math
import re

LARGEST = 10**18
"""An exbibyte has as many bytes; no count, size or time that vLLM prints comes near it."""
_NUMBER = re.compile(r"-?[\d,]*\d(?P<fraction>\.\d+)?", re.ASCII)


def is_credible(number: float) -> bool:
    """Finite, and not so large that it can only be garbage, which arithmetic makes errors or nonsense of."""
    return (isinstance(number, int) or math.isfinite(number)) and -LARGEST <= number <= LARGEST


def number_in(text: str) -> float | None:
    """The number that the whole text is, thousands separators allowed; None where it is none or cannot be one."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    plain = text.replace(",", "")
    # Asked as a float first: int() refuses more than 4300 digits with a ValueError (CPython's limit since 3.11).
    if not is_credible(float(plain)):
        return None
    return float(plain) if found["fraction"] else int(plain)


def shortened(text: str, longest: int = 40) -> str:
    """Text that is quoted in a sentence: garbage may have thousands of signs."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
