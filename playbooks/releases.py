"""Release ranges as playbooks write them: `>=0.8.5,<0.11`."""

from __future__ import annotations

import re


def release_fits(version: str, wanted: str) -> bool:
    """Whether a release such as `0.8.5.post1` is in a range such as `>=0.2.7,<0.11`. Empty: every release is."""
    parts = _release(version)
    for clause in filter(None, (one.strip() for one in wanted.split(","))):
        found = re.fullmatch(r"(>=|<=|==|<|>)\s*([\d.]+)", clause)
        if found is None:
            continue
        limit = _release(found[2])
        order = (parts > limit) - (parts < limit)
        if order not in {">=": (0, 1), "<=": (0, -1), "==": (0,), "<": (-1,), ">": (1,)}[found[1]]:
            return False
    return True


def _release(text: str) -> tuple[int, ...]:
    numbers = re.match(r"[\d.]+", text)
    parts = [int(part[:18]) for part in numbers[0].split(".") if part] if numbers else []
    return (*parts, 0, 0, 0)[:3]
