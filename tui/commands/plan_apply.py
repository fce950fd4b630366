"""`plan --apply` and `--write`: a proposal becomes a revision of the deployment's file, or a new file beside it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from engine_probe.deployment import deployment_text, deployment_yaml, read_bytes
from engine_probe.errors import InputError
from engine_probe.quoting import quoted
from engine_probe.revisions import changed_text, write_changes
from engine_probe.strict_yaml import text_of_bytes
from playbooks.way_back import will_change

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.changes import Change
    from engine_probe.launch import Deployment
    from engine_probe.revisions import Revision
    from playbooks.plan_proposal import Proposal
    from tui.output import Output


def kept_lengths(words: tuple[str, ...], deployment: Deployment) -> dict[str, int]:
    """Of `--keep chat=8192`, or `8192` for all: by launch. Raises InputError."""
    names = [launch.name for launch in deployment.models]
    kept: dict[str, int] = {}
    for word in words:
        name, equals, tokens = word.rpartition("=")
        if not tokens.isascii() or not tokens.isdigit() or not int(tokens[:12]) > 0 or len(tokens) > 12:
            raise InputError(f"--keep {quoted(word, 60)}: tokens are wanted, such as 8192 or {names[0]}=8192")
        if equals and name not in names:
            raise InputError(
                f"--keep {quoted(word, 60)}: the deployment has no launch {quoted(name, 40)!r}", allowed=tuple(names)
            )
        kept |= dict.fromkeys([name] if equals else names, int(tokens))
    return kept


def apply(deployment: Deployment, proposal: Proposal, output: Output, *, yes: bool) -> Revision | None:
    """None where the answer was no, or nobody could be asked. Raises InputError, and then nothing was written."""
    if deployment.path is None:
        raise InputError("these models came from no deployment file: --write FILE makes one of what is proposed")
    if not yes:
        if not (sys.stdin and sys.stdin.isatty()):
            output.note("nothing was changed: say --yes to apply it")
            return None
        for line in will_change(deployment):
            output.note(line)
        if not click.confirm("Apply it?", err=True):
            return None
    return write_changes(deployment.path, deployment, _changes(proposal))


def write(deployment: Deployment, proposal: Proposal, target: Path) -> None:
    """A new file; beside the old one it keeps that one's comments. Raises InputError where there is one already."""
    text = _new_text(deployment, proposal, target)
    try:
        with target.open("x", encoding="utf-8", newline="") as stream:
            stream.write(text)
    except FileExistsError:
        raise InputError("is there already; --write makes a new file", file=str(target)) from None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=str(target)) from None


def _new_text(deployment: Deployment, proposal: Proposal, target: Path) -> str:
    path = deployment.path
    if path is not None:
        text, _ = changed_text(text_of_bytes(read_bytes(path), str(path)), path, deployment, _changes(proposal))
        if _means(text, target, proposal.deployment):
            return text
    return deployment_yaml(proposal.deployment)  # paths that were relative to the old file, written out


def _means(text: str, target: Path, wanted: Deployment) -> bool:
    found = deployment_text(text, target)
    return (found.models, found.start, found.engine) == (wanted.models, wanted.start, wanted.engine)


def _changes(proposal: Proposal) -> tuple[tuple[str | None, str, Change], ...]:
    return tuple((one.launch, one.key, one.value) for one in proposal.changes)


def applied_object(revision: Revision | None) -> Mapping[str, str] | None:
    """For `--json`: which file changed, and where it is as it was."""
    return None if revision is None else {"file": str(revision.path), "kept": str(revision.kept)}
