"""Ways to break a model's or an adapter's folder, by the names that a fault's file uses.

Each gets the folder and the parameters of the file. To add one: write the function, put it into `BREAKERS`.
Files are replaced, never written into: a whole copy may share them.
"""

from __future__ import annotations

import json
import re
import struct
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from playbooks.lab.registry import Registry
from playbooks.lab.safetensors_file import Tensor, read_tensors, size_of, write_tensors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_HTML = "<!DOCTYPE html>\n<html><head><title>401 Unauthorized</title></head>\n<body>Please log in.</body></html>\n"
_LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n"


def cut(folder: Path, *, file: str, keep_share: float = 0.5) -> None:
    """Keep only the first part of a file, as a download that broke off does."""
    content = (folder / file).read_bytes()
    _replace(folder / file, content[: int(len(content) * keep_share)])


def garbage(folder: Path, *, file: str) -> None:
    """Bytes that are no safetensors: the header's length is far beyond the end of the file."""
    content = (folder / file).read_bytes()
    _replace(folder / file, struct.pack("<Q", 2**60) + content[8:])


def empty(folder: Path, *, file: str) -> None:
    """No byte in the file."""
    _replace(folder / file, b"")


def web_page(folder: Path, *, file: str) -> None:
    """A page of a web server in place of the file."""
    _replace(folder / file, _HTML.encode())


def lfs_pointer(folder: Path, *, file: str) -> None:
    """Git LFS's pointer in place of the file, as a clone without LFS leaves it."""
    size = (folder / file).stat().st_size
    _replace(folder / file, _LFS.format(digest="4d7a" * 16, size=size).encode())


def remove(folder: Path, *, files: list[str]) -> None:
    """The files are not there."""
    for file in files:
        (folder / file).unlink()


def rename(folder: Path, *, file: str, to: str) -> None:
    """The file has another name."""
    (folder / file).rename(folder / to)


def write(folder: Path, *, file: str, text: str) -> None:
    """A file with this text."""
    _replace(folder / file, text.encode())


def edit_json(
    folder: Path,
    *,
    file: str = "config.json",
    set: dict[str, Any] = {},  # noqa: A002, B006 -- the word of the file; never changed
    remove: list[str] = [],  # noqa: B006
) -> None:
    """Set or remove keys of a JSON file; a dot leads into an object: `rope_scaling.factor`."""
    content = json.loads((folder / file).read_text(encoding="utf-8"))
    for key in remove:
        where, last = _inside(content, key)
        where.pop(last, None)
    for key, value in set.items():
        where, last = _inside(content, key)
        where[last] = value
    _replace(folder / file, (json.dumps(content, indent=1) + "\n").encode())


def _inside(content: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    *before, last = key.split(".")
    for name in before:
        content = content.setdefault(name, {})
    return content, last


def rename_tensors(folder: Path, *, find: str, to: str, file: str = "model.safetensors") -> None:
    """In the tensors' names, what the pattern finds becomes `to`."""
    _rewrite(folder / file, lambda name, one: (re.sub(find, to, name, count=1), one))


def drop_tensors(folder: Path, *, names: list[str], file: str = "model.safetensors") -> None:
    """Tensors of these names (`*` stands for anything) are not in the file."""
    _rewrite(folder / file, lambda name, one: None if _is_one_of(name, names) else (name, one))


def add_tensor(folder: Path, *, name: str, shape: list[int], file: str = "model.safetensors") -> None:
    """One tensor more, of zeros."""
    found = read_tensors(folder / file)
    write_tensors(folder / file, found | {name: _zeros("BF16", tuple(shape))})


def reshape_tensors(folder: Path, *, names: list[str], shape: list[int], file: str = "model.safetensors") -> None:
    """Tensors of these names have another shape; what they have too little is zero."""

    def reshaped(name: str, one: Tensor) -> tuple[str, Tensor]:
        size = size_of(one.dtype, tuple(shape))
        data = one.data[:size].ljust(size, b"\0")
        return name, Tensor(one.dtype, tuple(shape), data) if _is_one_of(name, names) else one

    _rewrite(folder / file, reshaped)


def nan_tensors(folder: Path, *, names: list[str], file: str = "model.safetensors") -> None:
    """bfloat16 tensors of these names hold no number."""

    def without_numbers(name: str, one: Tensor) -> tuple[str, Tensor]:
        if not _is_one_of(name, names):
            return name, one
        return name, Tensor(one.dtype, one.shape, b"\xc0\x7f" * (len(one.data) // 2))

    _rewrite(folder / file, without_numbers)


def zero_tensors(folder: Path, *, names: list[str], file: str = "model.safetensors") -> None:
    """Tensors of these names hold nothing but zeros."""
    _rewrite(folder / file, lambda name, one: (name, _zeros(one.dtype, one.shape) if _is_one_of(name, names) else one))


def float32_tensors(folder: Path, *, names: list[str], file: str = "model.safetensors") -> None:
    """bfloat16 tensors of these names, the same values as float32."""

    def widened(name: str, one: Tensor) -> tuple[str, Tensor]:
        if not _is_one_of(name, names):
            return name, one
        data = b"".join(b"\0\0" + one.data[at : at + 2] for at in range(0, len(one.data), 2))
        return name, Tensor("F32", one.shape, data)

    _rewrite(folder / file, widened)


def retype_tensors(folder: Path, *, names: list[str], dtype: str, file: str = "model.safetensors") -> None:
    """Tensors of these names are stored as another type (I8, F16, …), their bytes taken as they come."""

    def retyped(name: str, one: Tensor) -> tuple[str, Tensor]:
        if not _is_one_of(name, names):
            return name, one
        size = size_of(dtype, one.shape)
        return name, Tensor(dtype, one.shape, (one.data * (1 + size // max(1, len(one.data))))[:size])

    _rewrite(folder / file, retyped)


def _rewrite(path: Path, change: Callable[[str, Tensor], tuple[str, Tensor] | None]) -> None:
    changed = (change(name, one) for name, one in read_tensors(path).items())
    write_tensors(path, dict(one for one in changed if one is not None))


def _is_one_of(name: str, patterns: list[str]) -> bool:
    """`*` in a pattern stands for anything."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _zeros(dtype: str, shape: tuple[int, ...]) -> Tensor:
    return Tensor(dtype, shape, b"\0" * size_of(dtype, shape))


def _replace(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


BREAKERS = Registry(
    "way to break",
    (
        cut,
        garbage,
        empty,
        web_page,
        lfs_pointer,
        remove,
        rename,
        write,
        edit_json,
        rename_tensors,
        drop_tensors,
        add_tensor,
        reshape_tensors,
        nan_tensors,
        zero_tensors,
        float32_tensors,
        retype_tensors,
    ),
)
