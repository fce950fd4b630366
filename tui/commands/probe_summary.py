"""The end of a probe run in words: one line a model, the root exception, and where to go from there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine_probe import events as ev
from engine_probe.logs.records import read_text
from playbooks.context import read_context
from playbooks.diagnosis import Given, diagnose
from playbooks.exceptions import root_exception

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.launch import Deployment
    from playbooks.context import Context
    from tui.commands.probe_files import RunFiles
    from tui.output import Output


@dataclass
class Outcomes:
    """What became of each model, taken from the events as they pass."""

    names: tuple[str, ...]
    failures: dict[str, ev.Failed] = field(default_factory=dict)
    refused: dict[str, ev.RequestAnswered] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    configured: set[str] = field(default_factory=set)
    stages: dict[str, str] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)

    def take(self, event: ev.Event) -> None:
        name = event.model or ""
        if isinstance(event, ev.Started):
            self.started.add(name)
        elif isinstance(event, ev.StageEntered):
            self.stages[name] = event.stage
        elif isinstance(event, ev.Failed):
            self.failures.setdefault(name, event)
        elif isinstance(event, ev.ConfigBuilt):
            self.configured.add(name)
        elif isinstance(event, ev.RequestAnswered):
            self._take_answer(name, event)

    def _take_answer(self, name: str, answer: ev.RequestAnswered) -> None:
        if answer.status == 200:
            self.answered.add(name)
        elif name not in self.failures:
            self.refused[name] = answer

    @property
    def culprit(self) -> str | None:
        """The first model that failed: the others were stopped because of it."""
        return next((name for name in (*self.failures, *self.refused)), None)

    def line(self, name: str, grade: str) -> str:
        """What to say of one model."""
        if name in self.failures:
            return f"failed in {self.stages.get(name, 'config')}: {self.failures[name].reason}"
        if name in self.refused:
            answer = self.refused[name]
            return f"loaded, but {answer.path} gave {answer.status or 'no answer'}: {answer.error}"
        if name in self.configured:
            return "vLLM accepts the configuration (dry: no weights were loaded)"
        if name in self.answered:
            return f"loaded and answered ({grade})"
        if name not in self.started:
            return "not started" + (f", because {self.culprit} failed" if self.culprit else "")
        return "stopped" + (f", because {self.culprit} failed" if self.culprit else "")


def print_end(output: Output, outcomes: Outcomes, deployment: Deployment, files: RunFiles, grade: str) -> None:
    """The last lines of a run that was not interrupted."""
    if output.as_json:
        return
    width = max(len(name) for name in outcomes.names)
    for name in outcomes.names:
        bad = name in outcomes.failures or name in outcomes.refused
        fine = name in outcomes.answered or name in outcomes.configured
        style = "bold red" if bad else "bold green" if fine else ""
        output.text(f"{name.ljust(width)}  {outcomes.line(name, grade)}", style=style)
    failure = outcomes.failures.get(outcomes.culprit or "")
    if failure is not None:
        _print_root(output, failure, deployment)
    if outcomes.culprit is not None:
        output.text(f"log: {files.log_of(outcomes.culprit)}")


def _print_root(output: Output, failure: ev.Failed, deployment: Deployment) -> None:
    context = read_context()
    root = root_exception(failure.exceptions, context.wrappers)
    if root is None:
        return
    message = f"{root['type']}: {root['message']}"
    output.text(f"root exception: {message}", style="bold red")
    found = _playbook_of(root, context)
    if found is None:
        output.text("no playbook knows it")
        return
    name, title = found
    output.text(f"playbook: {name}: {title}")
    if deployment.path is not None:
        output.text(f"next: vllm-console replay {name} --deployment {deployment.path}")
    else:
        output.text(f"next: vllm-console playbooks show {name}")


def _playbook_of(root: Mapping[str, Any], context: Context) -> tuple[str, str] | None:
    """The likeliest one by the exception alone."""
    message = f"{root['type']}: {root['message']}"
    text = f'Traceback (most recent call last):\n  File "?", line 1, in ?\n{message}\n'
    causes = diagnose(read_text([text]), context.library, context.wrappers, Given("the root exception")).causes
    known = next((one.playbook for one in causes if one.playbook is not None), None)
    return None if known is None else (known.id, known.spec.title)
