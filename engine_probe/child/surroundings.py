"""What a load gets around it: environment, port, logging config. Says what it changed and why."""

from __future__ import annotations

import getpass
import json
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.child import log_tap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_READ_AT_IMPORT = (
    "LD_",
    "PYTHON",
    "TMPDIR",
    "HF_",
    "HUGGING",
    "TRANSFORMERS_",
    "XDG_",
    "OMP_",
    "MKL_",
    "TORCH",
    "PYTORCH_",
    "VLLM_LOGGING_PREFIX",
    "VLLM_PLUGINS",
)
"""Names that vLLM, torch or the loader read once: a process that has imported them cannot show a change."""


class Surroundings(NamedTuple):
    """`tapped`: the load's processes send their log records to `channel`."""

    env: dict[str, str]
    notes: list[str]
    tapped: bool
    channel: str


def read_at_import(env: Mapping[str, str]) -> dict[str, str]:
    """What of a launch's `env` must be set before vLLM is imported."""
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_IMPORT)}


def argument(argv: Sequence[str], name: str) -> str | None:
    """The value of the last `--name value` or `--name=value` in argv; `_` and `-` are the same to vLLM."""
    found = None
    for position, word in enumerate(argv):
        key, equals, value = word.partition("=")
        if key.replace("_", "-") == name:
            found = value if equals else next(iter(argv[position + 1 : position + 2]), None)
    return found


def own_environment() -> dict[str, str]:
    """Ours without the console's own settings: vLLM warns of every VLLM_ variable that it does not know."""
    return {name: value for name, value in os.environ.items() if not name.startswith("VLLM_CONSOLE_")}


def surround(launch_env: Mapping[str, str], argv: Sequence[str], private_dir: str, index: int) -> Surroundings:
    """The launch's own environment, and what keeps its leavings in one folder and its records coming.

    Raises OSError when the logging config cannot be written.
    """
    env = {**own_environment(), **launch_env}
    channel = os.path.join(private_dir, f"records-{index}")
    env[log_tap.CHANNEL_VARIABLE] = channel
    if "TMPDIR" not in launch_env:
        # Sockets and rendezvous files of a killed vLLM stay for ever in the common temp folder; here they go with us.
        cache = os.path.join(os.path.dirname(private_dir), "torchinductor_" + _user())
        env.setdefault("TORCHINDUCTOR_CACHE_DIR", cache)
        env["TMPDIR"] = private_dir
    env.setdefault("VLLM_RPC_BASE_PATH", private_dir)
    has_own_config = "VLLM_LOGGING_CONFIG_PATH" in env or argument(argv, "--log-config-file") is not None
    if has_own_config or env.get("VLLM_CONFIGURE_LOGGING") == "0":
        note = "the launch configures vLLM's logging itself: no structured records, text only"
        return Surroundings(env, [note], tapped=False, channel=channel)
    _tap(env, argv, private_dir, index)
    return Surroundings(env, [], tapped=True, channel=channel)


def _tap(env: dict[str, str], argv: Sequence[str], private_dir: str, index: int) -> None:
    config = os.path.join(private_dir, f"logging-{index}.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump(log_tap.logging_config(_log_level(argv, env)), file)
    env["VLLM_LOGGING_CONFIG_PATH"] = config
    env[log_tap.STACKS_VARIABLE] = private_dir
    env["PYTHONPATH"] = os.pathsep.join(part for part in (private_dir, env.get("PYTHONPATH")) if part)


def _log_level(argv: Sequence[str], env: Mapping[str, str]) -> str:
    level = argument(argv, "--log-level") or argument(argv, "--logging-config.log-level")
    return (level or env.get("VLLM_LOGGING_LEVEL") or "INFO").upper()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def command(argv: Sequence[str]) -> list[str]:
    """What really runs for `vllm serve …` or `python -m vllm…`: the same, with this engine's own interpreter."""
    if os.path.basename(argv[0]) == "vllm":
        script = os.path.join(os.path.dirname(sys.executable), "vllm")
        start = [script] if os.access(script, os.X_OK) else [sys.executable, "-m", "vllm.entrypoints.cli.main"]
        return [*start, *argv[1:]]
    return [sys.executable, *argv[1:]]
