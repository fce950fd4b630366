"""A file as it is, in a few words; and whether it is whole, as far as heads and ends tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.model_files.audit import impostor, is_known, look

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.model_files.audit import Kind
    from engine_probe.model_files.headers import Header

_HEAD_BYTES = 512
NOT_THERE = "not there"
_WORDS: dict[Kind, str] = {
    "empty": "empty",
    "lfs-pointer": "a git-lfs pointer",
    "web-page": "a web page",
    "not-json": "no JSON object",
    "no-header": "without a header",
    "truncated": "cut",
    "wrong-size": "longer than its header says",
    "missing": "a link to what is not there",
}


def trouble_with(path: Path, name: str | None = None) -> str | None:
    """What is wrong with a file that should be `name`, to complete a sentence; None: nothing was found."""
    name = name or path.name
    if is_known(name):
        trouble, _ = look(path, name)
        return None if trouble is None else trouble.text
    try:
        if not path.is_file():
            return "is not there, or no regular file"
        with path.open("rb") as content:
            found = impostor(content.read(_HEAD_BYTES), path.stat().st_size)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return None if found is None else found[1]


def state_of(path: Path, name: str | None = None) -> str:
    """`cut (1,234 of 9,876 bytes)`, `a git-lfs pointer (134 bytes)`, `9,876 bytes`, `not there`."""
    if not path.exists():
        return _WORDS["missing"] if path.is_symlink() else NOT_THERE
    trouble, header = look(path, name)
    try:
        size = path.stat().st_size
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if trouble is None:
        return f"{size:,} bytes"
    if trouble.kind == "truncated" and header is not None:
        return f"cut ({size:,} of {_promised(header):,} bytes)"
    return f"{_WORDS.get(trouble.kind, trouble.text)} ({size:,} bytes)"


def _promised(header: Header) -> int:
    return header.data_offset + header.tensor_bytes
