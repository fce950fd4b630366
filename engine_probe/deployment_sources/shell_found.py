"""What reading a shell script gives: servers, notes, and how the commands that start servers look."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.deployment_sources.places import place_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.launch import Launch

SERVES = re.compile(
    r"\bvllm\s+serve\b|vllm\.entrypoints\.(?:openai\.)?api_server|openai/api_server\.py|\bvllm-openai\b"
)


class Context(NamedTuple):
    """`env`: what the script may use without setting it."""

    source: str
    folder: Path
    env: Mapping[str, str]
    engine_flags: frozenset[str] = frozenset()
    """Flags that the engine has beside those of the table."""


@dataclass
class Server:
    """`waited`: what the script does before its next server: it asks until one "answers", or it "sleep"s."""

    launch: Launch
    place: str
    is_in_background: bool
    waited: str | None = None


@dataclass
class Found:
    """`said`: variables that were named once already."""

    source: str
    line: int = 1
    """Of the command that is read now."""
    servers: list[Server] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    said: set[str] = field(default_factory=set)

    @property
    def launches(self) -> list[Launch]:
        return [one.launch for one in self.servers]

    @property
    def place(self) -> str:
        return place_words(self.source, self.line)

    def note(self, text: str, line: int | None = None) -> None:
        self.notes.append(f"{place_words(self.source, self.line if line is None else line)}: {text}")

    def note_once(self, name: str, text: str) -> None:
        """Of a variable: not again for each server."""
        if name not in self.said:
            self.said.add(name)
            self.note(f"{name}: {text}")

    def wait(self, how: str) -> None:
        if self.servers and self.servers[-1].waited != "answers":
            self.servers[-1].waited = how
