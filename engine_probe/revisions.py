"""Applies one change to a deployment file as a new revision, and takes it back. Both are atomic.

FILE becomes the new content; the old content is kept beside it as FILE.rN.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.arg_values import canonical_name
from engine_probe.changes import Change, change, diff, gpus_of, model_of, new_order, new_start, target_of, without_word
from engine_probe.deployment import deployment_text, digest_of, placed_arg, placed_path, read_bytes
from engine_probe.errors import InputError
from engine_probe.strict_yaml import text_of_bytes
from engine_probe.yaml_edit import rendered, reordered, set_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine_probe.launch import Deployment

    Announce = Callable[["Revision"], None]

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Revision:
    """One applied change. `kept` is the file with the content before it."""

    number: int
    path: Path
    kept: Path
    launch: str | None
    key: str
    diff: tuple[str, ...]
    before: Deployment
    after: Deployment


def write_revision(
    path: Path,
    deployment_before: Deployment,
    launch: str | None,
    key: str,
    value: Change,
    engine_flags: frozenset[str] = frozenset(),
    announce: Announce | None = None,
) -> Revision:
    """Changes one key in the file and keeps the old content. Errors: InputError, and then nothing was written."""
    return write_changes(path, deployment_before, ((launch, key, value),), engine_flags, announce)


def write_changes(
    path: Path,
    deployment_before: Deployment,
    changes: Sequence[tuple[str | None, str, Change]],
    engine_flags: frozenset[str] = frozenset(),
    announce: Announce | None = None,
) -> Revision:
    """Several keys in one revision; launch, key and value each. Errors: InputError, and then nothing was written.

    `announce` is given the revision before anything of it is written: a kill in between finds it noted.
    """
    content = _unchanged(path, deployment_before.digest)
    text = text_of_bytes(content, str(path))
    new_text, after = changed_text(text, path, deployment_before, changes, engine_flags)
    new_content = (_BOM if content.startswith(_BOM) else b"") + new_text.encode("utf-8")
    after = replace(after, digest=digest_of(new_content))
    launch, key, _ = changes[-1]
    difference = diff(deployment_before, after)
    target = path.resolve()
    try:
        number = _next_number(target)
        kept = target.with_name(f"{target.name}.r{number}")
        revision = Revision(number, path, kept, launch, key, difference, deployment_before, after)
        if announce is not None:
            announce(revision)
        _write(kept, content, like=target, is_new=True)
        try:
            _unchanged(path, deployment_before.digest)
            _write(target, new_content)
        except (OSError, InputError):
            kept.unlink()
            raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=str(path)) from None
    return revision


def changed_text(
    text: str,
    path: Path,
    deployment: Deployment,
    changes: Sequence[tuple[str | None, str, Change]],
    engine_flags: frozenset[str] = frozenset(),
) -> tuple[str, Deployment]:
    """A file's text with the changes, all else as it was, and the deployment that it then says. Errors: InputError."""
    for launch, key, value in changes:
        after = _placed(change(deployment, launch, key, value), path.parent)
        if after == deployment:
            raise InputError(f"{key} is that already: nothing to change", file=str(path))
        text = _edited(text, deployment, launch, key, value)
        _check(text, after, path, engine_flags, key)
        deployment = after
    return text, deployment


def undo_revision(path: Path, revision: Revision) -> Deployment:
    """Puts the content before the revision back and removes the kept file. Errors: InputError, nothing written."""
    _unchanged(path, revision.after.digest)
    content = read_bytes(revision.kept)
    if digest_of(content) != revision.before.digest:
        raise InputError("was changed since it was kept; the way back is not safe", file=str(revision.kept))
    try:
        _write(path.resolve(), content)
        revision.kept.unlink()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=str(path)) from None
    return revision.before


def revision_differs(written: Sequence[Revision]) -> str | None:
    """Why the file is not what `written`, of one file, made of it, or a way back is gone; None where all is so."""
    last = written[-1]
    try:
        if digest_of(read_bytes(last.path)) != last.after.digest:
            return f"{last.path} was changed by somebody else meanwhile"
    except InputError as error:
        return str(error)
    gone = next((one.kept for one in written if not _holds(one.kept, one.before.digest)), None)
    return None if gone is None else f"{gone}, which is {last.path} as it was, is gone or was changed"


def put_back(path: Path, kept: Sequence[Path], digests: Sequence[str], digest_before: str) -> None:
    """Undo several revisions of which only this is known, the oldest kept file first. Errors: InputError.

    `digests`: what the file may be now, one after each revision; one that was cut off may not have been written.
    """
    digest = digest_of(read_bytes(path))
    if digest not in (digest_before, *digests):
        raise InputError("has changed on disk since it was read; read it again. Nothing was written", file=str(path))
    try:
        if digest != digest_before:
            content = read_bytes(kept[0])
            if digest_of(content) != digest_before:
                raise InputError("was changed since it was kept; the way back is not safe", file=str(kept[0]))
            _write(path.resolve(), content)
        ours = [one for one, held in zip(kept, (digest_before, *digests), strict=False) if _holds(one, held)]
        for one in (*ours, *_cut_off(path.resolve())):
            one.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=str(path)) from None


def _holds(kept: Path, digest: str | None) -> bool:
    """Another file may have come to that name: it is no way back of this change."""
    return kept.is_file() and digest_of(read_bytes(kept)) == digest


def _cut_off(target: Path) -> list[Path]:
    """Files that were being written when the console was killed."""
    name = re.compile(rf"\.{re.escape(target.name)}\.(?:r\d+\.)?[a-z0-9_]{{8}}")
    return [one for one in target.parent.iterdir() if name.fullmatch(one.name)]


def _placed(deployment: Deployment, folder: Path) -> Deployment:
    """Paths as a new reading of the file will make them; those that are absolute stay."""
    models = tuple(
        replace(
            model,
            model=placed_path(model.model, folder),
            args={name: placed_arg(name, value, folder) for name, value in model.args.items()},
            lora={name: placed_path(adapter, folder) for name, adapter in model.lora.items()},
        )
        for model in deployment.models
    )
    return replace(deployment, models=models)


def _unchanged(path: Path, digest: str | None) -> bytes:
    content = read_bytes(path)
    if digest != digest_of(content):
        raise InputError("has changed on disk since it was read; read it again. Nothing was written", file=str(path))
    return content


def _edited(text: str, before: Deployment, launch: str | None, key: str, value: Change) -> str:
    target = target_of(before, launch, key)
    names = [model.name for model in before.models]
    if target.kind == "order":
        return reordered(text, ("models",), [names.index(name) for name in new_order(before, value)])
    if target.kind == "start":
        return set_key(text, (), "start", new_start(value))
    value = without_word(value)
    at = ("models", names.index(target.launch or ""))
    if target.kind == "gpus":
        gpus = gpus_of(value)
        return set_key(text, at, "gpus", None if gpus is None else rendered(gpus))
    if target.kind == "model":
        return set_key(text, at, "model", rendered(model_of(value)))
    if target.kind == "args":
        return _edited_arg(text, before, at, target.name, target.launch or "", value)
    written = None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return set_key(text, (*at, target.kind), target.name, None if written is None else rendered(written))


def _edited_arg(text: str, before: Deployment, at: tuple[str, int], name: str, launch: str, value: Change) -> str:
    """The file may use another form of the flag, `max_model_len` or `no-enforce-eager`: then that line changes."""
    wanted = canonical_name(name)[0]
    after = change(before, launch, f"args.{name}", value).launch(launch)
    new = after.args.get(wanted) if after else None
    positive = set_key(
        text,
        (*at, "args"),
        wanted,
        None if new is None else rendered(new),
        lambda k: canonical_name(k) == (wanted, False),
    )
    negated_removed = set_key(text, (*at, "args"), wanted, None, lambda k: canonical_name(k) == (wanted, True))
    if negated_removed == text:
        return positive
    if isinstance(new, bool):
        return set_key(text, (*at, "args"), wanted, rendered(not new), lambda k: canonical_name(k) == (wanted, True))
    return negated_removed


def _check(new_text: str, after: Deployment, path: Path, engine_flags: frozenset[str], key: str) -> None:
    """The new text must mean exactly the change: anchors, merges and odd forms could make it mean more or less."""
    found = deployment_text(new_text, after.path or path, engine_flags)
    if found != replace(after, path=found.path):
        raise InputError(
            f"{key} cannot be changed here alone: the value is shared or written in another form", file=str(path)
        )


def next_kept(path: Path) -> Path:
    """Where the content that `path` has now would be kept by the next revision. Raises OSError."""
    target = path.resolve()
    return target.with_name(f"{target.name}.r{_next_number(target)}")


def _next_number(target: Path) -> int:
    pattern = re.compile(re.escape(target.name) + r"\.r(\d+)")
    taken = [int(match[1]) for one in target.parent.iterdir() if (match := pattern.fullmatch(one.name))]
    return max(taken, default=0) + 1


def _write(target: Path, content: bytes, like: Path | None = None, *, is_new: bool = False) -> None:
    """Content, then name: a reader sees the old file or the new one. Mode and owner are those of the old.

    `is_new`: nothing may have that name yet. Raises OSError.
    """
    status = (like or target).stat()
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.chown(temporary, status.st_uid, status.st_gid)
        temporary.chmod(stat.S_IMODE(status.st_mode))
        _give_new_name(temporary, target) if is_new else temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _give_new_name(temporary: Path, target: Path) -> None:
    """Never takes the place of another file."""
    try:
        os.link(temporary, target)
    except OSError:
        if os.path.lexists(target):
            raise
        temporary.replace(target)  # a file system without hard links
    else:
        temporary.unlink()
