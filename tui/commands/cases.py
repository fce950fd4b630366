"""`vllm-console cases`: what was diagnosed, mended or tried before, offline and without its log."""

from __future__ import annotations

from pathlib import Path

import click

from tui.clear_click import ClearGroup
from tui.new_file import write_new
from tui.output import Output


@click.group(cls=ClearGroup)
def cases() -> None:
    """List, show and write again the cases that are kept on disk."""


@cases.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One object a case.")
def list_(as_json: bool) -> int:
    """All cases, the newest last."""
    from engine_probe.locations import find_locations
    from playbooks.kept_cases import kept_cases

    output = Output(as_json)
    found = kept_cases(find_locations().state)
    for one in found:
        output.result({"case": one.name, "kind": one.kind, "title": one.title, "folder": str(one.folder)})
    if found:
        output.table(("CASE", "KIND", "WHAT"), [(one.name, one.kind, one.title) for one in found])
    else:
        output.text("no case is kept yet: vllm-console diagnose LOG --keep, wizard and replay make them")
    return 0


@cases.command()
@click.argument("name", metavar="CASE")
@click.option("--json", "as_json", is_flag=True, help="The diagnosis as one object; of a session what it is.")
def show(name: str, as_json: bool) -> int:
    """The report of one case, and where its files are."""
    from engine_probe.locations import find_locations
    from engine_probe.redact import mask_deep
    from playbooks.kept_cases import find_case

    case = find_case(find_locations().state, name)
    output = Output(as_json, masks=True)
    output.result(
        {"case": case.name, "kind": case.kind, "title": case.title, "folder": str(case.folder)}
        | mask_deep(case.diagnosis or {"report": case.report("md") if as_json else ""})
    )
    output.text(case.report("md").rstrip())
    output.text(f"\nFiles: {case.folder}")
    return 0


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
