"""`vllm-console playbooks`: list and show what the console knows, check files, start a new one."""

from __future__ import annotations

from pathlib import Path

import click

from engine_probe.locations import writable
from engine_probe.strict_yaml import InputError
from playbooks import experiments
from playbooks.diagnosis_report import change_in_words
from playbooks.experiments import NamedExperiment, experiment_lines
from playbooks.facts import register
from playbooks.hypotheses import in_words
from playbooks.lab.faults import faults_of
from playbooks.library import Loaded, find, library_files, own_folder, read_library
from playbooks.load import check_file
from playbooks.template import FAMILIES, new_playbook, split_name
from tui.clear_click import ClearGroup
from tui.output import Output


@click.group(cls=ClearGroup)
def playbooks() -> None:
    """List, show and check the playbooks: one file a root cause."""


@playbooks.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One object a playbook.")
def list_(as_json: bool) -> int:
    """All playbooks, yours (in the settings folder) after those that come with the console."""
    output = Output(as_json)
    library = _library(output)
    for one in library:
        spec = one.spec
        output.result({"id": one.id, "family": spec.family, "kind": spec.kind, "layer": spec.layer} | _rest(one))
    output.table(
        ("PLAYBOOK", "FAMILY", "KIND", "STAGE", "TITLE"),
        [(one.id, one.spec.family, one.spec.kind, one.spec.stage, one.spec.title) for one in library],
    )
    return 0


def _library(output: Output) -> tuple[Loaded, ...]:
    """Those that are right; of the others it is said why not."""
    read = read_library()
    for words in read.left_out_words:
        output.note(words)
    return read.playbooks


def _rest(one: Loaded) -> dict[str, object]:
    spec = one.spec
    return {"stage": spec.stage, "symptom": spec.symptom, "title": spec.title, "file": str(one.path)}


@playbooks.command()
@click.argument("name", metavar="ID")
def show(name: str) -> int:
    """One playbook: what it knows, and its file. Also one experiment by its name."""
    if name in experiments.names():
        return _show_experiment(experiments.named(name))
    output = Output()
    one = find(_library(output), name)
    output.text(f"{one.id}: {one.spec.title}", "bold")
    output.text(" ".join(one.spec.summary.split()))
    output.text("\nHypotheses", "bold")
    for claim in one.spec.hypotheses:
        output.text(f"  {claim.claim} (cost: {claim.experiment.cost})")
        output.folded(f"{in_words(claim.experiment)} ({claim.experiment.run or 'facts'})", indent="    ")
    output.text("\nFixes", "bold")
    for fix in one.spec.fixes:
        output.folded(f"{fix.id}: {change_in_words(fix)} (risk: {fix.risk})")
    shown = faults_of(one.id)
    if shown:
        output.text("\nFaults that the lab makes of it", "bold")
    for fault in shown:
        output.folded(f"{fault.id}: {fault.title}")
    output.text(f"\n{one.path}")
    return 0


def _show_experiment(one: NamedExperiment) -> int:
    output = Output()
    output.text(f"{one.name}: an experiment", "bold")
    for line in experiment_lines(one):
        output.folded(line)
    output.text(f"  vllm-console probe --experiment {one.name} DEPLOYMENT")
    return 0


@playbooks.command(name="experiments")
@click.option("--json", "as_json", is_flag=True, help="One object an experiment.")
def experiments_(as_json: bool) -> int:
    """Every experiment that a hypothesis may run; `probe --experiment NAME DEPLOYMENT` does one."""
    output = Output(as_json)
    for one in experiments.every():
        output.result(
            {"name": one.name, "kind": one.kind, "cost": one.cost, "change": one.change or None}
            | {"does": one.meaning, "tells_apart": one.tells_apart, "facts": list(one.facts)}
        )
    rows = [(one.name, one.kind, one.cost, one.meaning) for one in experiments.every()]
    output.table(("EXPERIMENT", "KIND", "COST", "DOES"), rows)
    return 0


@playbooks.command()
@click.argument("files", nargs=-1, metavar="[FILE…]")
@click.option("--json", "as_json", is_flag=True, help="One object a file.")
def check(files: tuple[str, ...], as_json: bool) -> int:
    """Check playbook files strictly, all of them when none is named. Exit code 2 when something is wrong."""
    output = Output(as_json)
    paths = [Path(file) for file in files] or library_files()
    wrong = [error for path in paths if (error := _check_one(path, output)) is not None]
    if wrong:
        first, *rest = wrong
        first.more = (*first.more, *rest)
        raise first
    if not files:
        for error in read_library().left_out:  # ids that are there twice
            raise error
    return 0


def _check_one(path: Path, output: Output) -> InputError | None:
    try:
        check_file(path)
    except InputError as error:
        output.result({"file": str(path), "fine": False, "error": str(error)})
        return error
    output.result({"file": str(path), "fine": True, "error": None})
    output.text(f"{path}: fine")
    return None


@playbooks.command()
@click.argument("name", metavar="[FAMILY/]ID")
@click.option("--family", metavar="FAMILY", help=f"The folder that it goes to: {', '.join(FAMILIES)}.")
@click.option("--from-case", "case", metavar="CASE", help="Draft it from a case: its error, the fix that held.")
@click.option("--yes", is_flag=True, help="Draft it although a playbook explains that case already.")
def new(name: str, family: str | None, case: str | None, yes: bool) -> int:
    """Write a commented playbook to fill in, into your own folder.

    One that is drafted from a case speaks only where no other playbook explains, until you say otherwise in it.
    """
    if case is not None:
        return _draft(name, family, case, yes=yes)
    name, family = split_name(name, family)
    text = new_playbook(name, family)
    folder = writable(own_folder() / family)
    path = folder / f"{name}.yaml"
    if path.exists():
        raise InputError("is there already", file=str(path))
    path.write_text(text, encoding="utf-8")
    output = Output()
    output.text(str(path))
    output.note(f"fill it in, then: vllm-console playbooks check {path}")
    return 0


def _draft(name: str, family: str | None, case: str, *, yes: bool) -> int:
    """What the wizard's key writes. Raises InputError where the case shows no failure, or is explained."""
    from datetime import datetime

    from engine_probe.locations import find_locations
    from playbooks.drafting import session_of_case
    from tui.drafting import known_already, write_draft

    before, slash, bare = name.rpartition("/")
    if slash and family not in (None, before):
        raise InputError(f"{name!r} names the family {before!r}, --family {family!r}: give one of the two")
    session = session_of_case(find_locations().state, case)
    known = known_already(session)
    if known is not None and not yes:
        raise InputError(f"{known}, so a draft would say it a second time: --yes writes it all the same")
    path = write_draft(session, bare, datetime.now().astimezone().date(), before if slash else family)
    output = Output()
    output.text(str(path))
    output.note("it is valid as it stands, and speaks only where no other playbook explains; its comments say more")
    return 0


@playbooks.command()
def facts() -> int:
    """Every fact that a playbook may name."""
    Output().table(
        ("FACT", "SHOWN AS", "UNIT", "MEANING"), [(one.name, one.label, one.unit, one.meaning) for one in register()]
    )
    return 0
