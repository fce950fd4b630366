"""What tells one model from another by its folder: its configuration and the sizes of its weight files."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".npz")
_MOST_BYTES = 8 << 20
_MOST_FILES = 10_000
_HEAD_BYTES = 1 << 16
_LENGTH = 32


class Fingerprint(NamedTuple):
    """`weights` None: the folder holds none, so that they say nothing."""

    config: str
    weights: str | None

    def fits(self, other: Fingerprint) -> bool:
        """The same configuration, and the same weights where both are known."""
        return self.config == other.config and (None in (self.weights, other.weights) or self.weights == other.weights)


def fingerprint_of(folder: Path) -> Fingerprint:
    """Of a model's folder, or a GGUF file. Raises InputError where it cannot be read."""
    try:
        if folder.is_file():
            with folder.open("rb") as stream:
                head = stream.read(_HEAD_BYTES)
            return Fingerprint(_digest(head), _digest(f"{folder.stat().st_size}".encode()))
        with (folder / "config.json").open("rb") as stream:
            config = stream.read(_MOST_BYTES + 1)
        sizes = sorted(_weight_sizes(folder))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=str(folder)) from None
    if len(config) > _MOST_BYTES:
        raise InputError("config.json is larger than 8 MB", file=str(folder))
    return Fingerprint(_digest(config), _digest(repr(sizes).encode()) if sizes else None)


def _weight_sizes(folder: Path) -> Iterator[tuple[str, int]]:
    for number, path in enumerate(folder.iterdir()):
        if number >= _MOST_FILES:
            return
        if path.suffix in _WEIGHTS and path.is_file():
            yield path.name, path.stat().st_size


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_LENGTH]
