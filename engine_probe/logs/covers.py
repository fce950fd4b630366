"""Cover messages: exceptions and records that only say that something else went wrong. The wordings are data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from engine_probe.strict_yaml import decode_file


class _Wrapper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    log: str
    samples: list[str]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    wrappers: list[_Wrapper]


@dataclass(frozen=True)
class Wrappers:
    """Cover messages such as `Engine core initialization failed. See root cause above.`"""

    patterns: tuple[re.Pattern[str], ...]

    def covers(self, message: str) -> bool:
        """Whether `message` only says that something else went wrong."""
        return any(pattern.search(message) for pattern in self.patterns)


def read_wrappers(path: Path | None = None) -> Wrappers:
    """The cover messages of `path` (the package's own by default). Raises InputError when a sample does not match."""
    path = path or Path(__file__).parent / "data" / "wrappers.yaml"
    content, lines = decode_file(path, _File)
    for number, wrapper in enumerate(content.wrappers):
        for index, sample in enumerate(wrapper.samples):
            if not re.search(wrapper.log, sample):
                raise lines.error("this sample does not match", ("wrappers", number, "samples", index))
    return Wrappers(tuple(re.compile(wrapper.log) for wrapper in content.wrappers))
