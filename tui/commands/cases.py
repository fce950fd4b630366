"""`vllm-console cases`: what was diagnosed, mended or tried before, offline and without its log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tui.clear_click import ClearGroup
from tui.new_file import write_new
from tui.output import Output

if TYPE_CHECKING:
    from playbooks.kept_cases import KeptCase


@click.group(cls=ClearGroup)
def cases() -> None:
    """List, show and write again the cases that are kept on disk."""


@cases.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One object a case.")
def list_(as_json: bool) -> int:
    """All cases, the newest last."""
    from dataclasses import asdict

    from engine_probe.locations import find_locations
    from engine_probe.redact import mask_deep
    from playbooks.kept_cases import kept_cases

    output = Output(as_json)
    found = kept_cases(find_locations().state)
    for one in found:
        told = {"case": one.name, "kind": one.kind, "title": one.title, "folder": str(one.folder)}
        output.result(told | mask_deep(asdict(one.summary)))
    if found:
        output.table(("CASE", "ENDED", "MODEL", "CAUSE", "WHAT CAME OF IT", "FROM"), [_row(one) for one in found])
    else:
        output.text("no case is kept yet: vllm-console diagnose LOG --keep, wizard and replay make them")
    return 0


def _row(case: KeptCase) -> tuple[str, ...]:
    one = case.summary
    came = f"{one.fix} {one.end}" if one.fix else one.end
    return case.name, one.when, one.model, one.cause, came if case.has_report else f"no report yet: {came}", one.source


@cases.command()
@click.argument("name", metavar="CASE")
@click.option(
    "--step",
    type=click.Choice(("symptom", "hypotheses", "fix", "verify")),
    help="Only this step of the case, as often as it came to it.",
)
@click.option("--json", "as_json", is_flag=True, help="One object a step; of a diagnosis one object.")
def show(name: str, step: str | None, as_json: bool) -> int:
    """Step through one case offline: symptom, hypotheses, each fix and what came of it. Needs no engine.

    A case that was cut off, or that an older release kept, is shown as far as it goes, and that is said.
    """
    from engine_probe.locations import find_locations
    from playbooks.kept_cases import find_case

    case = find_case(find_locations().state, name)
    output = Output(as_json, masks=True)
    if case.diagnosis is not None:
        _show_diagnosis(case, step, output)
    else:
        _show_session(case, step, output)
    output.text(f"\nFiles: {case.folder}")
    if case.summary.paths_from:
        output.text(f"Paths that do not begin with / begin at {case.summary.paths_from}")
    return 0


def _show_diagnosis(case: KeptCase, step: str | None, output: Output) -> None:
    """A log's diagnosis has no further steps."""
    from engine_probe.errors import InputError
    from engine_probe.redact import mask_deep

    if step not in (None, "symptom", "hypotheses"):
        raise InputError(f"case {case.name} is the diagnosis of a log: nothing was tried in it")
    output.result(
        {"case": case.name, "kind": case.kind, "title": case.title, "folder": str(case.folder)}
        | mask_deep(case.diagnosis or {})
    )
    text = case.report("md").rstrip()
    if step is None:
        output.text(text)
        return
    head, *causes = text.partition("\n## Timeline")[0].split("\n## ")
    output.text(head.rstrip() if step == "symptom" else "\n\n".join(f"## {one.rstrip()}" for one in causes))


def _show_session(case: KeptCase, step: str | None, output: Output) -> None:
    from engine_probe.redact import mask_deep
    from playbooks.case_steps import heading, lines_of, object_of
    from playbooks.recorded import past_case

    past = past_case(case.folder)
    common = {"case": case.name, "kind": case.kind, "folder": str(case.folder), "trouble": past.trouble}
    if not past.moments:
        report = case.report("md") if case.has_report else ""
        output.result({**common, "step": None, "title": case.title, "report": report})
        output.text(report.rstrip() or case.title)
    for moment in past.moments:
        if step in (None, moment.step.value):
            output.result(common | mask_deep(object_of(moment)))
            output.text(heading(moment), "bold")
            for line in lines_of(moment):
                output.folded(line)
            output.text()
    if past.trouble is not None:
        output.note(f"case {case.name} is shown as far as it goes: {past.trouble}")


@cases.command()
@click.argument("name", metavar="CASE")
@click.option("--to", "target", metavar="FILE", help="A new file; .md, .html or .json says which. Else Markdown here.")
def report(name: str, target: str | None) -> int:
    """Write the report of one case as Markdown, as one HTML page or as JSON, secrets masked."""
    from engine_probe.locations import find_locations
    from playbooks.kept_cases import find_case, form_of

    case = find_case(find_locations().state, name)
    output = Output()
    if target is None:
        output.text(case.report("md").rstrip())
        return 0
    path = Path(target)
    write_new(path, case.report(form_of(path)))
    output.text(str(path))
    return 0
