"""One package of an engine, by its own pip: installed, changed, removed, and all is as it was before, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_probe.engine import Engine, local_engine
from engine_probe.errors import InputError
from engine_probe.outside.keys import checked_outside, outside_key
from engine_probe.outside.package_change import apply, change_of_json, planned, take_back
from engine_probe.outside.pip_words import pip_words, shown
from engine_probe.outside.work import StoppedError, Work
from tests.venvs import make_venv
from tests.wheels import only_from, site_packages, venv_with_pip, write_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.outside.package_change import PackageChange

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engine") / "venv"
    wheels = folder.parent / "wheels"
    for version in ("1.0", "2.0"):
        write_wheel(wheels, "tiny-tool", version)
    write_wheel(wheels, "tiny-app", "1.0", "tiny-tool>=2", "tiny-part")
    write_wheel(wheels, "tiny-part", "0.3")
    python = venv_with_pip(folder)
    words = [str(python), "-m", "pip", "install", "--no-index", "--find-links", str(wheels), "tiny-tool==1.0"]
    subprocess.run(words, check=True, capture_output=True)
    return folder


@pytest.fixture
def python(template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of the one venv of all tests: each leaves it as it was."""
    only_from(template.parent / "wheels", monkeypatch)
    yield template / "bin" / "python"
    subprocess.run([str(template / "bin" / "python"), "-c", "import tiny_tool"], check=True)


def files(python: Path) -> dict[str, bytes]:
    """All of the environment but what Python compiles by itself."""
    root = python.parent.parent
    found = (one for one in root.rglob("*") if one.is_file() and "__pycache__" not in one.parts)
    return {str(one.relative_to(root)): one.read_bytes() for one in sorted(found)}


def version_of(python: Path, module: str = "tiny_tool") -> str:
    words = [str(python), "-c", f"import {module}; print({module}.__version__)"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def engine_of(python: Path) -> Engine:
    return local_engine(str(python), "a test")


def make(python: Path, name: str, value: str, notes: list[PackageChange] | None = None) -> PackageChange:
    kept = [] if notes is None else notes
    return apply(planned(engine_of(python), f"engine.packages.{name}", value), kept.append, Work())


@pytest.mark.parametrize(("name", "value", "now"), [("tiny-tool", "2.0", "2.0"), ("Tiny.Tool", "remove", "")])
def test_a_package_is_changed_and_put_back(name: str, value: str, now: str, python: Path) -> None:
    before = files(python)
    change = make(python, name, value)
    assert version_of(python) == now
    take_back(change, Work())
    assert files(python) == before
    take_back(change_of_json(change.as_json()), Work())
    assert files(python) == before


def test_a_range_takes_what_fits(python: Path) -> None:
    before = files(python)
    change = make(python, "tiny-tool", ">1,<3")
    assert version_of(python) == "2.0"
    take_back(change, Work())
    assert files(python) == before


def test_a_new_package_comes_with_what_it_needs_and_all_of_it_goes(python: Path) -> None:
    before = files(python)
    change = make(python, "tiny-app", "1.0")
    assert (version_of(python, "tiny_app"), version_of(python), version_of(python, "tiny_part")) == (
        "1.0",
        "2.0",
        "0.3",
    )
    take_back(change, Work())
    assert files(python) == before


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("tiny-tool", "9.9", "install .*tiny-tool==9.9 failed: ERROR: No matching distribution"),
        ("tiny-tool", "1.0", "tiny-tool 1.0 is that already"),
        ("tiny-tool", "<2", "tiny-tool 1.0 is that already"),
        ("tiny-app", "remove", "tiny-app is not installed in .*: there is nothing to remove"),
        ("tiny-tool", "newest", "'newest' cannot be used|newest cannot be used"),
        ("--index-url=x", "1.0", "is no name of a package"),
        ("tiny-tool", "1.0 --pre", "cannot be used for engine.packages.tiny-tool: a version such as"),
    ],
)
def test_what_cannot_be_changes_nothing(name: str, value: str, said: str, python: Path) -> None:
    before = files(python)
    with pytest.raises(InputError, match=said):
        make(python, name, value)
    assert files(python) == before


def test_an_engine_without_pip_says_how_it_gets_one(tmp_path: Path) -> None:
    stand_in = make_venv(tmp_path / "bare")
    stand_in.add_metadata("tiny-tool", "1.0")
    with pytest.raises(InputError, match="has no pip") as caught:
        make(Path(stand_in.python), "tiny-tool", "2.0")
    assert f"uv pip install --python {stand_in.python} tiny-tool==2.0" in str(caught.value)
    assert "-m ensurepip" in str(caught.value)


def test_files_of_another_environment_are_never_touched(python: Path, tmp_path: Path) -> None:
    """An environment made of links into another one: pip would empty that."""
    before = files(python)
    other = make_venv(tmp_path / "linked")
    for one in site_packages(python).iterdir():
        if not (other.site_packages / one.name).exists():
            (other.site_packages / one.name).symlink_to(one)
    with pytest.raises(InputError, match=r"tiny-tool 1\.0 does not lie in this environment"):
        make(Path(other.python), "tiny-tool", "remove")
    assert files(python) == before


def test_the_other_side_of_a_shell_as_over_ssh(python: Path) -> None:
    """There the words are joined and read by a shell, and nothing but the command's own streams connects the sides."""
    before = files(python)
    engine = Engine(("sh", "-c", str(python)), "ssh:here", "a test", env={"A": "b c"}, joined_by_shell=True)
    change = apply(planned(engine, "engine.packages.tiny-app", "1.0"), lambda _: None, Work())
    assert version_of(python, "tiny_app") == "1.0"
    take_back(change_of_json(json.loads(json.dumps(change.as_json()))), Work())
    assert files(python) == before


def test_stopped_in_the_midst_it_is_as_before(python: Path) -> None:
    before = files(python)
    work = Work()
    with pytest.raises(StoppedError):
        apply(planned(engine_of(python), "engine.packages.tiny-tool", "2.0"), lambda _: work.stop(), work)
    assert files(python) == before


KILLED = """
import json, os, signal, sys
from engine_probe.engine import Engine, local_engine
from engine_probe.outside import package_change
from engine_probe.outside.work import Work

class Killing(Work):
    def go_on(self, doing=None):
        super().go_on(doing)
        if (doing or "").startswith("pip uninstall"):
            os.kill(os.getpid(), signal.SIGKILL)

change = package_change.planned(local_engine(sys.argv[1], "a test"), "engine.packages.tiny-tool", "remove")
package_change.apply(change, lambda one: print(json.dumps(one.as_json()), flush=True), Killing())
"""


def test_after_a_kill_in_the_midst_of_pip_the_note_takes_it_back(python: Path) -> None:
    before = files(python)
    words = [sys.executable, "-c", KILLED, str(python)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    take_back(change_of_json(json.loads(ended.stdout)), Work())
    assert files(python) == before


def test_half_of_what_pip_does_is_taken_back_too(python: Path) -> None:
    """pip moves what it removes to a name that begins with ~ first."""
    before = files(python)
    change = make(python, "tiny-tool", "2.0")
    site = site_packages(python)
    shutil.move(site / "tiny_tool", site / "~iny_tool")
    shutil.rmtree(site / "tiny_tool-2.0.dist-info")
    take_back(change, Work())
    assert files(python) == before


def test_the_commands_are_what_is_run() -> None:
    engine = local_engine("/opt/my vllm/bin/python", "a test")
    assert shown(engine, pip_words("numpy", "2.1.3", is_there=True)) == (
        "'/opt/my vllm/bin/python' -m pip install --disable-pip-version-check --no-input --progress-bar off --no-deps "
        "numpy==2.1.3"
    )
    assert pip_words("ray", "<3", is_there=False)[-1] == "ray<3"


@pytest.mark.parametrize(
    "key", ["files./etc/passwd", "files.../x", "files.a/../../b", "files.", "files.a\nb", "engine.packages.-r"]
)
def test_keys_that_lead_elsewhere_are_refused(key: str) -> None:
    with pytest.raises(InputError):
        outside_key(key)


@pytest.mark.parametrize("value", ["hub:", "hub:noslash", "hub:a/b@", "", "a\nb"])
def test_sources_that_are_none_are_refused(value: str) -> None:
    with pytest.raises(InputError):
        checked_outside("files.config.json", value)


def test_sources() -> None:
    assert checked_outside("files.config.json", " hub:acme/chat@v1.0 ") == "hub:acme/chat@v1.0"
    assert checked_outside("files.config.json", os.fspath(ROOT)) == str(ROOT)
