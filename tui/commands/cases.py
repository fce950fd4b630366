"""`vllm-console cases`: what was diagnosed, mended or tried before, offline and without its log."""

from __future__ import annotations

from pathlib import Path

import click

from engine_probe.errors import InputError
from tui.clear_click import ClearGroup
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
def show(name: str) -> int:
    """The report of one case, and where its files are."""
    from engine_probe.locations import find_locations
    from playbooks.kept_cases import find_case

    case = find_case(find_locations().state, name)
    output = Output()
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


def write_new(path: Path, text: str) -> None:
    """Raises InputError where the file is there already or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{path} is there already: give another name") from None
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
