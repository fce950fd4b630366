"""`vllm-console diagnose`: the root cause that a log tells of, with its evidence and its fixes."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine_probe.errors import InputError
from tui.commands.files_from import checked_sources, files_from_option
from tui.output import Output, note
from tui.streams import demand_stdin

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.engine_packages import Packages
    from engine_probe.facts import Fact
    from engine_probe.launch import Deployment, Launch
    from engine_probe.logs.records import Record
    from playbooks.diagnosis import Diagnosis
    from playbooks.evidence import Evidence
    from playbooks.evidence_host import HostState

FINE, FOUND, UNEXPLAINED = 0, 1, 3
_QUIET_SECONDS = 1.5


@click.command()
@click.option("--launch", "command", metavar="COMMAND", help='How it was started: "vllm serve …".')
@click.option("--deployment", "deployment_file", metavar="FILE", help="The deployment that it belongs to.")
@click.option("--model", metavar="NAME", help="With --deployment: the model whose log this is.")
@click.option("--model-dir", "model_dir", metavar="DIR", help="The model's folder, to look at its files.")
@files_from_option
@click.option("--host-state", metavar="FILE", help="The host then, as JSON: its GPUs and memory.")
@click.option("--here", is_flag=True, help="The log is of this host: look at its GPUs, memory and limits.")
@click.option("--engine", "engine_name", metavar="ENGINE", help="The vLLM of the log: look at its packages.")
@click.option("--report", "report_file", metavar="FILE", help="Also write a report: a new .md, .html or .json file.")
@click.option(
    "--write-deployment", "launch_file", metavar="FILE", help="Also write the launch that the log printed: a new file."
)
@click.option("--keep", is_flag=True, help="Keep it as a case: vllm-console cases shows it again, without the log.")
@click.option("--json", "as_json", is_flag=True, help="One object.")
@click.argument("words", nargs=-1, metavar="[LOG]…")
def diagnose(  # noqa: PLR0913, PLR0917 -- one parameter an option is click's way
    command: str | None,
    deployment_file: str | None,
    model: str | None,
    model_dir: str | None,
    files_from: tuple[str, ...],
    host_state: str | None,
    here: bool,
    engine_name: str | None,
    report_file: str | None,
    launch_file: str | None,
    keep: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Say why a load failed: ranked root causes, the lines that prove them, and the fixes.

    \b
    vllm-console diagnose vllm.log
    kubectl logs vllm-0 | vllm-console diagnose --launch "vllm serve acme/chat"

    LOG is a file or - (standard input, also without any LOG), docker:NAME, unit:NAME, pod:NAME or ssh:HOST:FILE.
    Exit code: 0 nothing is wrong, 1 a cause was found, 3 something is wrong that no playbook explains, 2 bad input.
    """
    from playbooks.diagnosis_json import as_object

    state = _host_state(host_state, here=here)
    sources = checked_sources(files_from)
    evidence = _evidence(*_launch_of(command, deployment_file, model), model_dir, state, _packages(engine_name))
    evidence = replace(evidence, file_sources=sources, measured=_engine_facts(engine_name))
    evidence = _with_cached_files(evidence) if here else evidence
    diagnosis = _diagnose(words, evidence)
    output = Output(as_json, masks=True)
    unused = diagnosis.facts.get("files.sources_not_used")
    for line in str(getattr(unused, "value", "")).splitlines():
        output.note(line)
    if as_json:
        output.result(as_object(diagnosis))
    else:
        from tui.commands.diagnose_text import print_diagnosis

        print_diagnosis(output, diagnosis)
    if launch_file is not None:
        _write_launch(diagnosis, Path(launch_file), output)
    if report_file is not None or keep:
        _write(as_object(diagnosis), report_file, output, keep=keep)
    if diagnosis.is_unexplained:
        return UNEXPLAINED
    return FOUND if diagnosis.outcome != "healthy" or diagnosis.causes else FINE


def _write(diagnosis: dict[str, Any], report_file: str | None, output: Output, *, keep: bool) -> None:
    from playbooks.kept_cases import form_of, report_of
    from tui.new_file import write_new

    if report_file is not None:
        path = Path(report_file)
        write_new(path, report_of(diagnosis, form_of(path)))
        output.note(f"report: {path}")
    if keep:
        name = _keep(diagnosis, report_of(diagnosis, "md"))
        output.note(f"kept as case {name}: vllm-console cases show {name}")


def _write_launch(diagnosis: Diagnosis, path: Path, output: Output) -> None:
    """Raises InputError where the log prints no launch, or the file is there already."""
    from engine_probe.deployment import deployment_yaml
    from playbooks.launch_from_log import deployment_told
    from tui.new_file import write_new

    told = deployment_told(diagnosis.attempts)
    if not told.is_printed:
        raise InputError("--write-deployment: the log does not print how it was launched")
    write_new(path, f"# Read from {told.words}.\n{deployment_yaml(told.deployment)}")
    output.note(f"deployment: {path}; its model, paths and environment are yours to check")


def _keep(diagnosis: dict[str, Any], report: str) -> str:
    """The new case's name. Raises InputError where it cannot be kept; nothing of it is left then."""
    import shutil
    from datetime import datetime

    from engine_probe.locations import find_locations, writable
    from playbooks.case import new_case

    state = writable(find_locations().state)
    try:
        case = new_case(state, datetime.now().astimezone().date())
        try:
            case.keep_diagnosis(diagnosis, report)
        except OSError:
            shutil.rmtree(case.path, ignore_errors=True)
            raise
    except OSError as error:
        raise InputError(f"cannot keep a case in {state}: {error.strerror or error}") from error
    return case.name


def _diagnose(words: tuple[str, ...], evidence: Evidence) -> Diagnosis:
    from engine_probe.logs.covers import read_wrappers
    from playbooks.diagnosis import Given, diagnose
    from playbooks.library import read_library

    if len(words) > 1:
        raise InputError("one log at a time: a deployment's models each have their own")
    name = words[0] if words else "-"
    records = _records(name)
    given = Given("standard input" if name == "-" else name, evidence)
    read = read_library()
    for told in read.left_out_words:
        note(told)
    return diagnose(records, read.playbooks, read_wrappers(), given)


def _evidence(
    launch: Launch | None,
    deployment: Deployment | None,
    model_dir: str | None,
    state: HostState | None,
    packages: Packages | None,
) -> Evidence:
    from playbooks.evidence import Evidence

    folder = None if model_dir is None else Path(model_dir).expanduser()
    if folder is not None and not folder.is_dir():
        raise InputError(f"--model-dir {model_dir}: there is no such folder")
    if folder is not None and launch is None and deployment is None:
        raise InputError("--model-dir belongs to a launch: give --launch or --deployment too")
    return Evidence(launch, deployment, folder, state, packages)


def _with_cached_files(evidence: Evidence) -> Evidence:
    """The log is of this host: what the hub's cache has is what was loaded."""
    from engine_probe.outside.model_folder import cached_snapshot

    if evidence.launch is None or evidence.model_dir is not None:
        return evidence
    path = evidence.deployment.path if evidence.deployment is not None else None
    base = path.parent if path is not None else Path()
    return replace(evidence, model_dir=cached_snapshot(evidence.launch, os.environ, base))


def _host_state(file: str | None, *, here: bool) -> HostState | None:
    if file is not None and here:
        raise InputError("--host-state and --here both say how the host is: give one of them")
    if file is not None:
        from playbooks.evidence_host import read_host_state

        return read_host_state(Path(file))
    if not here:
        return None
    from engine_probe.hardware.watch import look_once
    from playbooks.evidence_host import HostState
    from playbooks.monitor_json import as_object

    return HostState(as_object(look_once(), ()), "this host, now")


def _engine_facts(engine_name: str | None) -> dict[str, Fact]:
    if engine_name is None:
        return {}
    from engine_probe.engines import choose_engine
    from playbooks.outside_fixes import engine_facts

    return engine_facts(choose_engine(engine_name))


def _packages(engine_name: str | None) -> Packages | None:
    if engine_name is None:
        return None
    from engine_probe.engine_packages import read_packages
    from engine_probe.engines import choose_engine

    try:
        return read_packages(choose_engine(engine_name))
    except (OSError, ValueError) as error:
        raise InputError(f"--engine {engine_name}: {error}") from error


def _records(name: str) -> list[Record]:
    from engine_probe.logs.telling import telling_records

    if name == "-":
        demand_stdin()
        if sys.stdin.isatty():
            raise InputError("no log is named: write a file, or pipe a log in")
        from engine_probe.logs.whole import kept_copy

        return telling_records(kept_copy(sys.stdin.buffer), _says_that_it_reads("standard input"))
    from engine_probe.logs.whole import open_source

    return telling_records(open_source(name), _says_that_it_reads(name))


def _says_that_it_reads(name: str) -> Callable[[], None]:
    """To be asked now and then: of a log that takes long a person is told, once."""
    began, told = time.monotonic(), False

    def go_on() -> None:
        nonlocal told
        if not told and sys.stderr.isatty() and time.monotonic() - began > _QUIET_SECONDS:
            told = True
            note(f"still reading {name} …")

    return go_on


def _launch_of(
    command: str | None, deployment_file: str | None, model: str | None
) -> tuple[Launch | None, Deployment | None]:
    if command is not None and deployment_file is not None:
        raise InputError("--launch and --deployment both say how it was started: give one of them")
    if model is not None and deployment_file is None:
        raise InputError("--model names one of a deployment's models: give --deployment too")
    if command is not None:
        from engine_probe.command_line import parse_command

        return parse_command(command, source="--launch"), None
    if deployment_file is None:
        return None, None
    from engine_probe.deployment import read_deployment
    from engine_probe.errors import nearest_word

    deployment = read_deployment(Path(deployment_file))
    names = [launch.name for launch in deployment.models]
    if model is None:
        return deployment.models[-1] if len(names) == 1 else None, deployment
    found = next((launch for launch in deployment.models if launch.name == model), None)
    if found is None:
        raise InputError(
            f"--model {model}: no model of the deployment", allowed=tuple(names), nearest=nearest_word(model, names)
        )
    return found, deployment
