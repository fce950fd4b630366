"""vLLM's releases: reading one, ranges such as `0.5.5..0.10.2,0.13.0`, and the releases whose sources were read."""

from __future__ import annotations

import re
from functools import lru_cache

READ = (
    "0.5.5",
    "0.6.6.post1",
    "0.7.3",
    "0.8.5",
    "0.9.2",
    "0.10.2",
    "0.11.2",
    "0.13.0",
    "0.16.0",
    "0.20.2",
    "0.25.1",
    "0.29.0",
    "0.32.0",
    "0.33.0",
)
"""Releases whose sources the data files were made from, oldest first."""

_RELEASE = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?!\d)")


@lru_cache(maxsize=256)
def key_of(version: str) -> tuple[int, int, int] | None:
    """Orders releases: `0.11.0rc1+cu129` is (0, 11, 0). None for what is no release, such as `dev`."""
    found = _RELEASE.match(version.strip())
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


@lru_cache(maxsize=512)
def is_in(version: str, ranges: str) -> bool:
    """Whether `version` lies in one of `ranges`, ends included; also between two releases that were read."""
    key = key_of(version)
    for part in ranges.split(","):
        first, _, last = part.partition("..")
        low, high = key_of(first), key_of(last or first)
        if key is not None and low is not None and high is not None and low <= key <= high:
            return True
    return False


@lru_cache(maxsize=64)
def read_releases_for(version: str) -> tuple[str, ...]:
    """The read releases that tell of `version`: itself, else one of the same minor release, else both neighbours."""
    key = key_of(version)
    if key is None:
        return READ
    keys = [key_of(one) or (0, 0, 0) for one in READ]
    if key in keys:
        return (READ[keys.index(key)],)
    same_minor = tuple(one for one, known in zip(READ, keys, strict=True) if known[:2] == key[:2])
    if same_minor:
        return same_minor
    older = [one for one, known in zip(READ, keys, strict=True) if known < key][-1:]
    newer = [one for one, known in zip(READ, keys, strict=True) if known > key][:1]
    return (*older, *newer)
