"""GPUs that the stand-in driver library shows: states in readable names, and the library itself for tests.

The state file's grammar is at the head of `fake_nvml/fake_nvml.c`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pytest

GIB = 1024**3
LIBRARY = "libnvidia-ml.so.1"
_COUNTER = struct.Struct("=56sQ")


@dataclass(frozen=True)
class FakeProcess:
    pid: int
    used_gib: float | None = None
    """None: the driver does not say it."""
    kind: str = "compute"
    """compute, graphics or mps."""
    slice_index: int | None = None


@dataclass(frozen=True)
class FakeSlice:
    total_gib: float = 9.75
    used_gib: float = 0.0
    name: str = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"


@dataclass(frozen=True)
class FakeGpu:
    """An idle H100 unless something else is said. `power_watts` and the like are None for the library's own value."""

    total_gib: float = 80.0
    used_gib: float = 0.0
    reserved_gib: float = 0.5
    name: str = "NVIDIA H100 80GB HBM3"
    uuid: str | None = None
    utilization_percent: int | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle_bits: int | None = None
    ecc_errors: int | None = None
    remap_pending: int | None = None
    remap_failed: int | None = None
    pcie_gen: int | None = None
    pcie_width: int | None = None
    nvlinks: int | None = None
    nvlinks_up: int | None = None
    bus_id: str | None = None
    processes: tuple[FakeProcess, ...] = ()
    slices: tuple[FakeSlice, ...] | None = None
    """Not None: in MIG mode."""

    def lines(self, index: int) -> list[str]:
        uuid = self.uuid or f"GPU-{index:08x}"
        sizes = " ".join(str(_bytes(size)) for size in (self.total_gib, self.used_gib, self.reserved_gib))
        lines = [f"gpu {index} {uuid} {sizes} {self.name}"]
        lines += [f"set {index} {key} {value}" for key, value in self._values().items() if value is not None]
        for one in self.processes:
            place = "" if one.slice_index is None else f" {one.slice_index}"
            lines.append(f"process {index} {one.pid} {_bytes(one.used_gib)} {one.kind}{place}")
        if self.slices is not None:
            lines.append(f"mig {index} 1")
        for number, part in enumerate(self.slices or ()):
            sizes = f"{_bytes(part.total_gib)} {_bytes(part.used_gib)}"
            lines.append(f"slice {index} {number} MIG-{index:04x}-{number} {sizes} {part.name}")
        return lines

    def _values(self) -> Mapping[str, object]:
        return {
            "utilization": self.utilization_percent,
            "power": None if self.power_watts is None else round(self.power_watts * 1000),
            "power-limit": None if self.power_limit_watts is None else round(self.power_limit_watts * 1000),
            "temperature": self.temperature_celsius,
            "sm-clock": self.sm_clock_mhz,
            "memory-clock": self.memory_clock_mhz,
            "throttle": self.throttle_bits,
            "ecc": self.ecc_errors,
            "remap-pending": self.remap_pending,
            "remap-failed": self.remap_failed,
            "pcie-gen": self.pcie_gen,
            "pcie-width": self.pcie_width,
            "nvlinks": self.nvlinks,
            "nvlinks-up": self.nvlinks_up,
            "bus": self.bus_id,
        }


def state_text(
    gpus: Sequence[FakeGpu],
    *more: str,
    driver: str = "580.65.06",
    cuda: int = 13000,
    errors: Iterable[tuple[str, int | str, int]] = (),
    xids: Iterable[tuple[int, int]] = (),
) -> str:
    """`errors`: (function, GPU index or "*", NVML's code); `xids`: (GPU index, code); `more`: lines as they are."""
    lines = [f"driver {driver}", f"cuda {cuda}"]
    for index, one in enumerate(gpus):
        lines += one.lines(index)
    lines += [f"error {function} {index} {code}" for function, index, code in errors]
    lines += [f"xid {index} {code}" for index, code in xids]
    return "\n".join([*lines, *more, ""])


class FakeDriver:
    """The library, its state file and its counters. `say` changes what a loaded library says from then on."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.library = library
        self.state_file = folder / "nvml-state"
        self.calls_file = folder / "nvml-calls"
        self.say("")

    def say(self, text: str | bytes) -> None:
        new = self.state_file.with_suffix(".new")
        new.write_bytes(text if isinstance(text, bytes) else text.encode())
        new.replace(self.state_file)

    def show(self, *gpus: FakeGpu) -> None:
        self.say(state_text(gpus))

    def settings(self) -> dict[str, str]:
        """The environment of a process that is to find this driver."""
        return {
            "LD_LIBRARY_PATH": str(self.library.parent),
            "FAKE_NVML_STATE": str(self.state_file),
            "FAKE_NVML_CALLS": str(self.calls_file),
        }

    def env(self) -> dict[str, str]:
        return {**os.environ, **self.settings()}

    def load_here(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """nvidia-ml-py of this process, and of processes started from it, uses this library until the test ends."""
        import pynvml

        for name, value in self.settings().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(self.library)))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def calls(self) -> dict[str, int]:
        """How often each function was called, by all processes with this driver's settings."""
        if not self.calls_file.exists():
            return {}
        records = _COUNTER.iter_unpack(self.calls_file.read_bytes())
        return {name.rstrip(b"\0").decode(): count for name, count in records if count}

    def forget_calls(self) -> None:
        """Set all counters to 0, in place: the library keeps the file mapped."""
        if self.calls_file.exists():
            with self.calls_file.open("r+b") as file:
                file.write(bytes(self.calls_file.stat().st_size))


def compiler() -> list[str] | None:
    """The C compiler of this machine, or the one that the package ziglang ships."""
    found = shutil.which("cc")
    if found:
        return [found]
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else None


def build_library(folder: Path, without: Iterable[str] = ()) -> Path:
    """Compile the library into `folder`; the functions `without` are not in it, as in an old driver."""
    command = compiler()
    assert command is not None, "neither cc nor the package ziglang is here"
    sources = sorted(str(path) for path in (Path(__file__).parent / "fake_nvml").glob("*.c"))
    missing = [f"-D{function}=missing_{function}" for function in without]
    library = folder / LIBRARY
    options = ["-shared", "-fPIC", "-Wl,-Bsymbolic", "-O1", "-Wall", "-Werror", *missing, "-o", str(library)]
    subprocess.run([*command, *options, *sources], check=True)
    return library


def _bytes(size_gib: float | None) -> int:
    return -1 if size_gib is None else round(size_gib * GIB)
