"""Who may import what, proven in fresh interpreters: the split between the packages is what keeps each usable alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHILD_FILES = [*sorted((ROOT / "engine_probe" / "child").rglob("*.py")), ROOT / "engine_probe" / "events.py"]


def modules_after(code: str) -> set[str]:
    """Top-level packages that are loaded once `code` has run in a new interpreter."""
    tail = "\nimport sys\nprint('\\n'.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code + tail], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.splitlines())


def modules_of(package: str) -> list[str]:
    files = sorted((ROOT / package).rglob("*.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    return [name.removesuffix(".__init__") for name in names]


def test_help_loads_no_more_than_it_needs() -> None:
    code = "from tui import cli\ntry:\n    cli.cli.main(['--help'])\nexcept SystemExit:\n    pass"
    assert modules_after(code).isdisjoint({"textual", "rich", "msgspec", "ruamel", "psutil", "pynvml"})


def test_a_diagnosis_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    """What a start of Python costs is most of it: what changes files, runs pip or reads YAML stays out."""
    log = tmp_path / "vllm.log"
    log.write_text("ERROR 11-30 10:00:00 [core.py:1] ValueError: No available memory for the cache blocks.\n")
    words = ["diagnose", "--json", "--launch", "vllm serve acme/m-7b", str(log)]
    code = f"import sys\nsys.argv = {['vllm-console', *words]!r}\n"
    code += "from tui.entry import main\ntry:\n    main()\nexcept SystemExit:\n    pass"
    unwanted = {"textual", "rich", "ruamel", "psutil", "pynvml", "subprocess", "tempfile", "lzma", "zipfile", "difflib"}
    assert modules_after(code).isdisjoint(unwanted)


def test_no_headless_command_loads_textual_or_rich() -> None:
    """All but the one that does nothing else than open a screen."""
    names = [name for name in modules_of("tui") if name.startswith("tui.commands") and name != "tui.commands.wizard"]
    loaded = modules_after("\n".join(f"import {name}" for name in ["tui.cli", "tui.output", "tui.failures", *names]))
    assert loaded.isdisjoint({"textual", "rich"})


@pytest.mark.parametrize("package", ["engine_probe", "playbooks"])
def test_what_finds_out_and_decides_does_not_know_how_things_look(package: str) -> None:
    # What the child runs under the engine's Python is imported there, not here.
    names = [name for name in modules_of(package) if not name.startswith("engine_probe.child.")]
    loaded = modules_after("\n".join(f"import {name}" for name in names))
    assert loaded.isdisjoint({"textual", "rich", "click", "tui"})


@pytest.mark.parametrize("file", CHILD_FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_runs_under_the_engines_python_is_python_3_9(file: Path) -> None:
    ast.parse(file.read_text(encoding="utf-8"), str(file), feature_version=(3, 9))


@pytest.mark.parametrize("file", CHILD_FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_runs_under_the_engines_python_needs_only_it(file: Path) -> None:
    """The standard library, its own files, and what every engine has: vLLM and what vLLM depends on."""
    allowed = set(sys.stdlib_module_names) | {"engine_probe", "vllm", "torch", "setproctitle", "uvicorn"}
    allowed |= {child.stem for child in CHILD_FILES}
    assert imported(file) <= allowed


def imported(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found
