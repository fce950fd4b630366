"""A copy of an engine made of links, without some packages or with broken ones: for faults that show at import.

Everything but those packages is a link to the engine in use, which is never written to. The packages themselves are
real folders with a record of their own, so that pip can take them away or replace them without following a link.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from playbooks.lab.unmade import CannotMake

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine_probe.engine import Engine

_ASK = "import sys, sysconfig; print(sys._base_executable); print(sys.prefix); print(sysconfig.get_path('purelib'))"
_ASK_SECONDS = 30.0
_DIST_INFO = re.compile(r"(?P<name>.+?)-[^-]+\.(?:dist-info|egg-info)$")


def copy_engine(engine: Engine, folder: Path, without: Sequence[str], broken: Mapping[str, str]) -> Path:
    """Make the copy in `folder`; return its Python. `broken`: the code of a package by its name. Raises CannotMake."""
    if not engine.is_local:
        raise CannotMake("the engine runs elsewhere: only one of this host can be copied")
    base_python, prefix, packages = _asked(engine)
    config = prefix / "pyvenv.cfg"
    if not config.is_file():
        raise CannotMake(f"{engine.label} is no virtual environment, and only such a one can be copied by links")
    site = folder / packages.relative_to(prefix)
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "pyvenv.cfg").write_text(config.read_text(encoding="utf-8"), encoding="utf-8")
    for name in dict.fromkeys(("python", "python3", base_python.name)):
        (folder / "bin" / name).symlink_to(base_python)
    left_out = {_plain(name) for name in (*without, *broken)}
    for entry in _entries(packages, left_out):
        (site / entry.name).symlink_to(entry)
    for name, code in broken.items():
        _write_package(site, name, code)
    return folder / "bin" / "python"


def _asked(engine: Engine) -> tuple[Path, Path, Path]:
    try:
        answer = subprocess.run(
            engine.argv("-c", _ASK), capture_output=True, text=True, timeout=_ASK_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotMake(f"{engine.label} cannot be asked where its packages are: {error}") from None
    base_python, prefix, packages = (Path(line) for line in answer.stdout.splitlines()[-3:])
    return base_python, prefix, packages


def _entries(packages: Path, left_out: set[str]) -> Iterator[Path]:
    """What lies in site-packages, but for the modules and records of the packages in `left_out`."""
    for entry in sorted(packages.iterdir()):
        found = _DIST_INFO.match(entry.name)
        name = found["name"] if found else entry.name.removesuffix(".py").removesuffix(".libs")
        if _plain(name) not in left_out and entry.name != "__pycache__":
            yield entry


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _write_package(site: Path, name: str, code: str) -> None:
    """A package of one file, with the record that pip needs to take it away."""
    module, version = name.replace("-", "_"), "0.0.1"
    info = f"{module}-{version}.dist-info"
    files = {
        f"{module}/__init__.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/INSTALLER": "pip\n",
    }
    for path, text in files.items():
        (site / path).parent.mkdir(exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
    record = "".join(f"{path},,{os.linesep}" for path in (*files, f"{info}/RECORD"))
    (site / info / "RECORD").write_text(record, encoding="utf-8")
