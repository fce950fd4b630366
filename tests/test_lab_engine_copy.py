"""A copy of an engine made of links: what is left out is not there, and nothing is written into the original."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine_probe.engine import container_engine, local_engine
from playbooks.lab.engine_copy import copy_engine
from playbooks.lab.unmade import CannotMake

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with two packages of its own and pip."""
    folder = tmp_path_factory.mktemp("engine")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    for name in ("alpha_part", "beta"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(f"WHERE = {name!r}\n")
        (site / f"{name}-1.0.dist-info").mkdir()
        (site / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    return folder


def ran(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), *words], capture_output=True, text=True, check=False)


def state_of(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def test_a_package_is_missing_and_another_is_broken(original: Path, tmp_path: Path) -> None:
    before = state_of(original)
    engine = local_engine(str(original / "bin" / "python"), "a test")
    python = copy_engine(engine, tmp_path / "copy", ("alpha-part",), {"beta": 'raise RuntimeError("not today")'})
    assert ran(python, "-c", "import sys; print(sys.prefix)").stdout.strip() == str(tmp_path / "copy")
    assert "No module named 'alpha_part'" in ran(python, "-c", "import alpha_part").stderr
    assert "RuntimeError: not today" in ran(python, "-c", "import beta").stderr
    removed = ran(python, "-m", "pip", "uninstall", "--yes", "beta")
    assert removed.returncode == 0, removed.stderr
    assert "No module named 'beta'" in ran(python, "-c", "import beta").stderr
    assert state_of(original) == before
    assert ran(original / "bin" / "python", "-c", "import alpha_part, beta").returncode == 0


def test_all_else_is_a_link(original: Path, tmp_path: Path) -> None:
    engine = local_engine(str(original / "bin" / "python"), "a test")
    python = copy_engine(engine, tmp_path / "copy", (), {})
    site = next((tmp_path / "copy").glob("lib/python*/site-packages"))
    assert (site / "beta").is_symlink()
    assert ran(python, "-c", "import alpha_part, beta").returncode == 0


def test_engines_that_cannot_be_copied(tmp_path: Path) -> None:
    with pytest.raises(CannotMake, match="runs elsewhere"):
        copy_engine(container_engine("box", "a test"), tmp_path / "copy", (), {})
    with pytest.raises(CannotMake, match="cannot be asked"):
        copy_engine(local_engine(str(tmp_path / "no-python"), "a test"), tmp_path / "copy", (), {})
