"""What a load gets around it: environment, port, logging config. Says what it changed and why."""

import getpass
import json
import os
import socket
import sys
import tempfile

from engine_probe.child import log_tap

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


def read_at_import(env):
    """What of a launch's `env` must be set before vLLM is imported."""
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_IMPORT)}


def argument(argv, name):
    """The value of the last `--name value` or `--name=value` in argv; `_` and `-` are the same to vLLM."""
    found = None
    for position, word in enumerate(argv):
        key, equals, value = word.partition("=")
        if key.replace("_", "-") == name:
            found = value if equals else (argv[position + 1] if position + 1 < len(argv) else None)
    return found


def load_level(argv, env):
    level = argument(argv, "--log-level") or argument(argv, "--logging-config.log-level")
    return (level or env.get("VLLM_LOGGING_LEVEL") or "INFO").upper()


def environment(launch_env, private_dir, index, argv):
    """(env, notes) for a load: the launch's own, plus what keeps its leavings in one folder and its records coming."""
    # Ours are not vLLM's: it warns of every VLLM_ variable that it does not know.
    env = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_CONSOLE_")}
    env.update(launch_env)
    notes = []
    if "TMPDIR" not in launch_env:
        # Sockets and rendezvous files of a killed vLLM stay for ever in the common temp folder; here they go with us.
        common = (
            tempfile.gettempdir() if not tempfile.gettempdir().startswith(private_dir) else os.path.dirname(private_dir)
        )
        env.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(common, "torchinductor_" + _user()))
        env["TMPDIR"] = private_dir
    env.setdefault("VLLM_RPC_BASE_PATH", private_dir)
    own_config = "VLLM_LOGGING_CONFIG_PATH" in env or argument(argv, "--log-config-file")
    if own_config or env.get("VLLM_CONFIGURE_LOGGING") == "0":
        notes.append("the launch configures vLLM's logging itself: no structured records, text only")
        return env, notes
    config = os.path.join(private_dir, "logging-%d.json" % index)
    with open(config, "w") as file:
        json.dump(log_tap.logging_config(load_level(argv, env)), file)
    env["VLLM_LOGGING_CONFIG_PATH"] = config
    env[log_tap.CHANNEL_VARIABLE] = os.path.join(private_dir, "records-%d" % index)
    env[log_tap.STACKS_VARIABLE] = private_dir
    env["PYTHONPATH"] = os.pathsep.join(p for p in (private_dir, env.get("PYTHONPATH")) if p)
    return env, notes


def _user():
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def command(argv):
    """What really runs for `vllm serve …` or `python -m vllm…`: the same, with this engine's own interpreter."""
    if os.path.basename(argv[0]) == "vllm":
        script = os.path.join(os.path.dirname(sys.executable), "vllm")
        start = [script] if os.access(script, os.X_OK) else [sys.executable, "-m", "vllm.entrypoints.cli.main"]
        return start + list(argv[1:])
    return [sys.executable] + list(argv[1:])


def choose_port(argv, keep):
    """(port, argv, note). A taken port is replaced and said so; with `keep` the port stays and OSError is raised."""
    wanted = argument(argv, "--port")
    port = int(wanted) if wanted and wanted.isdigit() else 8000
    if is_free(port):
        return port, list(argv), None
    if keep:
        raise OSError("port %d is in use" % port)
    free = _free_port()
    note = "port %d is in use: port %d instead" % (port, free)
    return free, list(argv) + ["--port", str(free)], note


def is_free(port):
    for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        except OSError as error:
            if error.errno in (98, 48, 13):  # in use (Linux, BSD), or not permitted
                return False
    return True


def _free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
