"""What a list of cases says of one: model, cause, fix, how it ended, from which file or log, when.

It is written when the case ends; `paths_from` is the folder that relative paths of the case begin at.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.redact import mask_deep
from engine_probe.whole_file import write_whole
from playbooks.case_file import read_kept

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from playbooks.session import Session

SUMMARY = "summary.json"


@dataclass(frozen=True)
class CaseSummary:
    """Texts are empty, and `time` is None, where nothing tells them."""

    model: str = ""
    cause: str = ""
    """The id of its playbook, `unexplained`, or empty where nothing is wrong."""
    fix: str = ""
    """The last that was tried."""
    end: str = ""
    """What came of it, in words."""
    source: str = ""
    """The deployment file, or the logs."""
    paths_from: str = ""
    time: float | None = None
    """Of its end, in seconds since the epoch."""

    @property
    def title(self) -> str:
        """One line: `lora-rank-exceeds-max: allow-this-rank verified; tiny, deployment.yaml, 11-30 04:39`."""
        what = " ".join(filter(None, (self.fix, self.end)))
        about = ", ".join(filter(None, (self.model, self.source, self.when)))
        return "; ".join(filter(None, (": ".join(filter(None, (self.cause, what))), about)))

    @property
    def when(self) -> str:
        """`11-30 04:39`, in this host's time; empty where it is not known."""
        return "" if self.time is None else datetime.fromtimestamp(self.time).astimezone().strftime("%m-%d %H:%M")


def of_session(session: Session, at: float | None, paths_from: str = "") -> CaseSummary:
    """How the case stands, or ended."""
    path = session.deployment.path
    tried = [one for one in session.fixes if one.outcome != "not tried"]
    fix = session.applied_fix or next((one.id for one in tried if one.outcome == "verified"), None)
    fix = fix or (tried[-1].id if tried else "")
    cause = next((one.id for one in session.causes if any(fix in claim.fixes for claim in one.hypotheses)), None)
    cause = cause or (session.causes[0].id if session.causes else "unexplained" if session.symptom else "")
    return CaseSummary(
        "" if session.model == "not known yet" else session.model,
        cause,
        fix,
        _end(session, [one.id for one in tried if one.outcome == "did not hold"], fix),
        ", ".join(_absolute([str(path)] if path is not None else session.log_sources, paths_from)),
        paths_from,
        at,
    )


def _end(session: Session, failed: list[str], fix: str) -> str:
    """What became of `fix`, or of the whole: a verdict that is understood without the report."""
    verdict = session.verdict
    if verdict == "stopped" and session.symptom is None:
        return "stopped before anything was known"
    if verdict == "stopped" and not fix:
        return "diagnosed, nothing changed"
    if verdict in ("stopped", "not verified") and fix in failed:
        return "did not hold"
    words = {None: "not ended", "healthy": "nothing is wrong", "stopped": "taken back", "unexplained": ""}
    return words.get(verdict, verdict or "")


def of_diagnosis(diagnosis: Mapping[str, Any], at: float | None, paths_from: str = "") -> CaseSummary:
    """Of a log alone."""
    first: Mapping[str, Any] = next(iter(diagnosis["causes"]), {})
    logs = dict.fromkeys(str(line["file"]) for cause in diagnosis["causes"] for line in cause["evidence"])
    end = "nothing is wrong" if diagnosis["outcome"] == "healthy" and not first else "diagnosed"
    model = first.get("model") or next((one["model"] for one in diagnosis["attempts"] if one["model"]), "")
    return CaseSummary(
        model or "", first.get("id", ""), "", end, ", ".join(_absolute([*logs][:2], paths_from)), paths_from, at
    )


def _absolute(paths: Iterable[str], folder: str) -> list[str]:
    return [os.path.normpath(os.path.join(folder, one)) if folder and not one.startswith("<") else one for one in paths]  # noqa: PTH118


def write_summary(folder: Path, summary: CaseSummary) -> None:
    """Raises OSError."""
    text = json.dumps(mask_deep(asdict(summary)), ensure_ascii=False, indent=1) + "\n"
    write_whole(folder / SUMMARY, text.encode("utf-8", "replace"))


def read_summary(folder: Path) -> CaseSummary | None:
    """None where the case goes on, was cut off, or is of an older release."""
    try:
        content = json.loads(read_kept(folder / SUMMARY))
        return CaseSummary(**{name: content[name] for name in CaseSummary.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def now_and_here() -> tuple[float, str]:
    """What a summary that is written now has as its time and the beginning of its paths."""
    return time.time(), str(Path.cwd())
