"""Deployments from what people already have: a deployment file, a docker compose file, a shell script."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.launch import Deployment

_SERVICES = re.compile(r"^(?:services|\"services\"|'services')\s*:", re.MULTILINE)
_MODELS = re.compile(r"^(?:models|engine|start|\"models\")\s*:", re.MULTILINE)
_YAML = (".yaml", ".yml")
_SCRIPTS = (".sh", ".bash", ".zsh", ".ksh")


def read_source(
    path: Path, env: Mapping[str, str] | None = None, engine_flags: frozenset[str] = frozenset()
) -> Deployment:
    """The file's deployment, whatever kind of file it is; its `notes` say what was not understood.

    Only that of a deployment file has a `path`: no other kind of file is ever changed.

    `env`: variables that the file may use without setting them; of a compose file those of this process by
    default. `engine_flags`: flags that the engine has beside those of the table. Raises InputError.
    """
    from engine_probe.strict_yaml import read_text  # noqa: PLC0415 - each kind of file needs modules of its own

    kind = _kind(path, read_text(path))
    if kind == "compose":
        from engine_probe.deployment_sources.compose import read_compose  # noqa: PLC0415

        return replace(read_compose(path, env, engine_flags), path=None)
    if kind == "script":
        from engine_probe.deployment_sources.shell_script import read_script  # noqa: PLC0415

        return replace(read_script(path, env, engine_flags), path=None)
    from engine_probe.deployment import read_deployment  # noqa: PLC0415

    return read_deployment(path, engine_flags)


def _kind(path: Path, text: str) -> Literal["compose", "script", "deployment"]:
    if path.suffix in _SCRIPTS or text.startswith("#!"):
        return "script"
    has_services, has_models = _SERVICES.search(text) is not None, _MODELS.search(text) is not None
    if has_services and not re.search(r"^models\s*:\s*\n\s*-", text, re.MULTILINE):
        return "compose"
    return "deployment" if path.suffix in _YAML or has_models else "script"
