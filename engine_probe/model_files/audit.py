"""Every file of a model's folder: is it there, is it whole, is it what its name says. Only heads and ends are read."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from engine_probe.model_files.headers import Header, NoHeaderError, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Kind = Literal[
    "missing", "empty", "truncated", "lfs-pointer", "web-page", "not-json", "no-header", "unreadable", "wrong-size",
    "index-names-it-not",
]  # fmt: skip
_LFS = b"version https://git-lfs.github.com/spec/"
_PAGE = re.compile(rb"\s*(?:<!doctype html|<html|<\?xml)", re.IGNORECASE)
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json", "spiece.model", "vocab.txt")
_BESIDE_TOKENIZERS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt")
_JSON_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
               "special_tokens_map.json", "preprocessor_config.json", "adapter_config.json")  # fmt: skip
_INDEX_SUFFIX = ".index.json"
_LARGEST_JSON_BYTES = 64 << 20


@dataclass(frozen=True)
class Trouble:
    """`text` completes the sentence that begins with the file's name."""

    file: str
    kind: Kind
    text: str


@dataclass(frozen=True)
class Audit:
    """`config` None: not there or not readable. `headers` by file name, of the readable ones."""

    folder: Path
    config: Mapping[str, Any] | None
    headers: Mapping[str, Header]
    troubles: tuple[Trouble, ...]
    has_weights: bool
    has_tokenizer: bool

    @property
    def tensor_bytes(self) -> int:
        return sum(header.tensor_bytes for header in self.headers.values())

    def of_kind(self, *kinds: Kind) -> tuple[Trouble, ...]:
        return tuple(one for one in self.troubles if one.kind in kinds)


def audit(folder: Path) -> Audit:
    """Look at `folder`, a model's on this host. Raises OSError where it cannot be listed."""
    names = sorted(path.name for path in folder.iterdir())
    headers: dict[str, Header] = {}
    troubles: list[Trouble] = []
    for name in names:
        trouble, header = look(folder / name)
        troubles += [trouble] if trouble is not None else []
        if header is not None:
            headers[name] = header
    troubles += _against_index(folder, names, headers)
    config = _json(folder / "config.json")
    if config is None and "config.json" not in names and not any(name.endswith(".gguf") for name in names):
        troubles.append(Trouble("config.json", "missing", "is not there"))
    return Audit(
        folder=folder,
        config=config,
        headers=headers,
        troubles=tuple(troubles),
        has_weights=any(is_weights(name) for name in names),
        has_tokenizer=any(name in _TOKENIZERS for name in names),
    )


def is_known(name: str) -> bool:
    """Weights, a tokenizer, or one of the JSON files that vLLM reads."""
    return is_weights(name) or name in _JSON_FILES or name in _TOKENIZERS or name.endswith(_INDEX_SUFFIX)


def is_tokenizer_file(name: str) -> bool:
    """The tokenizer itself or what belongs to it."""
    return name in (*_TOKENIZERS, *_BESIDE_TOKENIZERS)


def is_weights(name: str) -> bool:
    """By its name alone."""
    return name.endswith((".safetensors", ".bin", ".pt", ".pth", ".gguf")) and not name.startswith("training_args")


def look(path: Path, name: str | None = None) -> tuple[Trouble | None, Header | None]:
    """One file; nothing is said of one that is neither weights nor known. `name`: what it is to be, if not its own."""
    name = name or path.name
    if not is_known(name):
        return None, None
    try:
        if not path.is_file():
            return Trouble(name, "missing", "is a link to what is not there, or no regular file"), None
        size = path.stat().st_size
        with path.open("rb") as content:
            head = content.read(512)
    except OSError as error:
        return Trouble(name, "unreadable", f"cannot be read: {error.strerror or error}"), None
    kind = impostor(head, size)
    if kind is not None:
        return Trouble(name, *kind), None
    if name.endswith(".safetensors"):
        return _look_at_safetensors(path, name)
    return _look_at_other(path, name, head), None


def impostor(head: bytes, size: int) -> tuple[Kind, str] | None:
    """What a file of these first bytes is instead of what its name says, whatever that is."""
    if size == 0:
        return "empty", "is empty"
    if head.startswith(_LFS):
        return "lfs-pointer", "is a git-lfs pointer: its content was never downloaded"
    if _PAGE.match(head):
        return "web-page", "is a web page, such as a login or error page, saved under this name"
    return None


def _look_at_safetensors(path: Path, name: str) -> tuple[Trouble | None, Header | None]:
    try:
        header = read_header(path)
    except NoHeaderError as error:
        kind: Kind = "truncated" if "ends inside" in str(error) or "too few" in str(error) else "no-header"
        return Trouble(name, kind, str(error)), None
    except OSError as error:
        return Trouble(name, "unreadable", f"cannot be read: {error.strerror or error}"), None
    if header.missing_bytes:
        text = f"is cut: {header.missing_bytes:,} of its {header.tensor_bytes:,} bytes of tensors are missing"
        return Trouble(name, "truncated", text), header
    extra = header.file_bytes - header.data_offset - header.tensor_bytes
    if extra:
        return Trouble(name, "wrong-size", f"is {extra:,} bytes longer than its header says"), header
    return None, header


def _look_at_other(path: Path, name: str, head: bytes) -> Trouble | None:
    if name.endswith(".json") and _json(path) is None:
        return Trouble(name, "not-json", "holds no JSON object")
    if name.endswith((".bin", ".pt", ".pth")) and head.startswith(b"PK") and not zipfile.is_zipfile(path):
        return Trouble(name, "truncated", "is cut: the directory at its end is missing")
    if name.endswith(".gguf") and not head.startswith(b"GGUF"):
        return Trouble(name, "no-header", "does not begin with GGUF")
    return None


def _json(path: Path) -> Mapping[str, Any] | None:
    try:
        if path.stat().st_size > _LARGEST_JSON_BYTES:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _against_index(folder: Path, names: list[str], headers: Mapping[str, Header]) -> Iterator[Trouble]:
    """Files that an index names and that are not there, and tensors that stand in another file or in none."""
    for index_name in (name for name in names if name.endswith(_INDEX_SUFFIX)):
        index = _json(folder / index_name)
        places = index.get("weight_map") if index is not None else None
        if not isinstance(places, dict):
            continue
        for file in sorted({str(file) for file in places.values()} - set(names)):
            yield Trouble(file, "missing", f"is named by {index_name} and not there")
        for file, header in headers.items():
            lacking = [name for name, place in places.items() if place == file and name not in header.tensors]
            if lacking:
                yield Trouble(file, "index-names-it-not", f"lacks {len(lacking)} tensors that {index_name} says it has")
