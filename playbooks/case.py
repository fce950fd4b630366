"""A case on disk: events as they come, what each load printed, the deployment before and after, the report."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.deployment import deployment_yaml
from engine_probe.escapes import safe_lines
from engine_probe.redact import MASKED, mask, mask_deep, names_a_secret
from engine_probe.whole_file import write_whole
from playbooks.case_summary import now_and_here, of_diagnosis, of_session, write_summary
from playbooks.report import markdown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date
    from pathlib import Path

    from engine_probe.launch import Deployment
    from playbooks.session import Session

EVENTS = "events.jsonl"
_MOST_CASES_A_DAY = 9_999


@dataclass(frozen=True)
class CaseFolder:
    """One case's folder. Only its owner may read it: logs can hold what nobody recognises as a secret."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def has_events(self) -> bool:
        """It was begun before."""
        path = self.path / EVENTS
        return path.is_file() and path.stat().st_size > 0

    def append_event(self, line: str, *, is_sure: bool) -> None:
        """One more line of events.jsonl. `is_sure`: on the disk before anything is done about it."""
        with (self.path / EVENTS).open("ab") as stream:
            stream.write(self._after_a_cut() + line.encode("utf-8", "replace") + b"\n")
            if is_sure:
                stream.flush()
                os.fsync(stream.fileno())

    def _after_a_cut(self) -> bytes:
        """A line end where the line before was cut off by a full disk or a kill: what follows is a line of its own."""
        with (self.path / EVENTS).open("rb") as stream:
            if stream.seek(0, os.SEEK_END) == 0:
                return b""
            stream.seek(-1, os.SEEK_END)
            return b"" if stream.read(1) == b"\n" else b"\n"

    def keep_deployment(self, deployment: Deployment, moment: str) -> None:
        """Keep the deployment as `deployment-MOMENT.yaml`."""
        text = _text_of(deployment)
        # A value may be written in any of YAML's ways: it is looked for by what it says, not by its key.
        for secret in sorted(_secrets_of(deployment), key=len, reverse=True):
            text = text.replace(secret, MASKED)
        self._write(f"deployment-{moment}.yaml", mask(text))

    def write_report(self, session: Session) -> Path:
        """Write report.md, and for lists of cases its summary; return the report's path."""
        write_summary(self.path, of_session(session, *now_and_here()))
        return self._write("report.md", mask(safe_lines(markdown(session))))

    def keep_diagnosis(self, diagnosis: Mapping[str, Any], text: str) -> Path:
        """Write diagnosis.json and `text` as report.md; return the folder."""
        self._write("diagnosis.json", json.dumps(mask_deep(diagnosis), ensure_ascii=False, indent=1) + "\n")
        self._write("report.md", mask(text))
        write_summary(self.path, of_diagnosis(diagnosis, *now_and_here()))
        return self.path

    def _write(self, name: str, text: str) -> Path:
        path = self.path / name
        write_whole(path, text.encode("utf-8", "replace"))
        return path


def new_case(state: Path, today: date) -> CaseFolder:
    """Make the next folder of today under `state`. Raises OSError when it cannot be written."""
    cases = state / "cases"
    cases.mkdir(parents=True, exist_ok=True)
    taken = [folder.name for folder in cases.glob(f"{today.isoformat()}-*")]
    number = max((int(name.rpartition("-")[2]) for name in taken if name[-4:].isdigit()), default=0)
    while number < _MOST_CASES_A_DAY:
        number += 1
        folder = cases / f"{today.isoformat()}-{number:04d}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue  # another console took this number in between
        return CaseFolder(folder)
    raise OSError(f"there are {_MOST_CASES_A_DAY:,} cases of today under {cases}")


def _secrets_of(deployment: Deployment) -> set[str]:
    """Values of arguments and variables whose names say that they are secret."""
    found: set[str] = set()
    for launch in deployment.models:
        for name, value in (*launch.args.items(), *launch.env.items()):
            if names_a_secret(name) and not isinstance(value, bool):
                found.update(value if isinstance(value, tuple) else (str(value),))
    return {one.strip() for one in found if one.strip()}


def _text_of(deployment: Deployment) -> str:
    if deployment.path is not None and os.access(deployment.path, os.R_OK):
        return deployment.path.read_text(encoding="utf-8")
    return deployment_yaml(deployment)
