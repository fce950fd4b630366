"""The launch that a log prints, as one that can be loaded again: vLLM's `non-default args: {…}` become arguments.

Where they are not printed, the engine's configuration tells what differs from the defaults. What a log does not say is
not in it: the environment, the GPUs, and values that were masked.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.arg_values import canonical_name
from engine_probe.errors import InputError
from engine_probe.flags import flag_for
from engine_probe.launch import Deployment, Launch
from engine_probe.redact import MASKED
from playbooks.launch_in_log import ARGUMENTS, CONFIGURATION, is_default, items_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine_probe.launch import ArgValue
    from engine_probe.logs.attempts import Attempt
    from engine_probe.logs.records import Record

_NOT_ARGUMENTS = ("model", "model_tag", "lora_modules", "dispatch_function", "subparser")
_SERVERS_OWN = ("uvicorn_log_level", "allowed_origins", "allowed_methods", "allowed_headers")
"""Old releases print them although nobody gave them."""
_ADAPTER = re.compile(r"name='([^']*)', path='([^']*)'")
UNKNOWN_MODEL = "the model of the log"
_NAMED = {"max_seq_len": "max_model_len"}
"""What the configuration calls otherwise than the arguments do."""
_OF_MODEL = ("tokenizer", "served_model_name")
"""The model's own where nothing else was given."""
_CONFIGURED: Mapping[str, tuple[object, ...]] = {
    "max_seq_len": (), "max_model_len": (), "dtype": (), "quantization": (), "tensor_parallel_size": (),
    "pipeline_parallel_size": (), "data_parallel_size": (), "load_format": (), "kv_cache_dtype": (), "tokenizer": (),
    "served_model_name": (), "tokenizer_mode": (), "skip_tokenizer_init": (), "revision": (),
    "tokenizer_revision": (), "trust_remote_code": (), "download_dir": (), "disable_custom_all_reduce": (),
    "enforce_eager": (), "seed": (0,),
}  # fmt: skip
"""What vLLM prints of the engine's configuration and takes as an argument of that name (v1/engine/core.py, 0.6 to
0.32), with defaults beyond those of every argument."""


class LaunchTold(NamedTuple):
    """`line`, from 1: where it stands. `is_resolved`: of the engine's configuration, so vLLM chose some of it."""

    launch: Launch
    line: int
    is_resolved: bool = False

    @property
    def words(self) -> str:
        """Which line was read, and what it cannot tell."""
        if not self.is_resolved:
            return f"the arguments that vLLM printed, line {self.line}; environment and GPUs are not among them"
        return (
            f"the engine's configuration, line {self.line}: what differs from vLLM's defaults, some of it chosen by "
            "vLLM itself; memory limits, environment and GPUs are not in it"
        )


class DeploymentTold(NamedTuple):
    """Never without a model. `is_printed`: a launch was. `words`: which lines were read, and what they cannot tell."""

    deployment: Deployment
    is_printed: bool
    words: str = ""


def launch_told(records: Iterable[Record], name: str | None = None) -> LaunchTold | None:
    """The last arguments that are printed, else the last configuration; None where there is neither.

    `name`: instead of its own.
    """
    given: tuple[Mapping[str, object], int] | None = None
    resolved: tuple[Mapping[str, object], int] | None = None
    for record in records:
        if found := ARGUMENTS.match(record.message):
            is_all = found["few"] is None
            pairs = items_of(found["words"] if found["words"] is not None else found["all"])
            values = {key: value for key, value in pairs if not is_all or not is_default(key, value)}
            given = values, record.first_line
        elif found := CONFIGURATION.match(record.message):
            resolved = dict(items_of(found["words"])), record.first_line
    if given is not None:
        return _launch(*given, name)
    if resolved is None or "max_seq_len" not in resolved[0]:
        return None
    return _launch(_arguments_of(resolved[0]), resolved[1], name, is_resolved=True)


def _launch(
    values: Mapping[str, object], line: int, name: str | None, *, is_resolved: bool = False
) -> LaunchTold | None:
    model = str(values.get("model") or values.get("model_tag") or "")
    if not model:
        return None
    args = {
        key.replace("_", "-"): plain for key, value in values.items() if (plain := _argument(key, value)) is not None
    }
    lora = dict(_ADAPTER.findall(str(values.get("lora_modules", ""))))
    try:
        return LaunchTold(Launch(name or short_name(model), model, args, lora=lora), line, is_resolved)
    except InputError:
        return None


def _arguments_of(configuration: Mapping[str, object]) -> dict[str, object]:
    """The engine's configuration as arguments, without what is a default."""
    model = configuration.get("model")
    values = {_NAMED.get(key, key): value for key, value in configuration.items() if key in _CONFIGURED}
    values = {key: str(value).removeprefix("torch.") if key == "dtype" else value for key, value in values.items()}
    kept = {
        key: value
        for key, value in values.items()
        if not (is_default(key, value) or value in _CONFIGURED[key] or (key in _OF_MODEL and value == model))
    }
    return {"model": model, **kept}


def deployment_told(attempts: Iterable[Attempt]) -> DeploymentTold:
    """All models of a log with their last launches."""
    launches: dict[str, Launch] = {}
    words: dict[str, str] = {}
    for attempt in attempts:
        told = launch_told(attempt.records)
        name = short_name(attempt.model) if attempt.model else told.launch.name if told is not None else UNKNOWN_MODEL
        launch = told.launch if told is not None else Launch(name, attempt.model or UNKNOWN_MODEL)
        launches[name] = Launch(name, launch.model, launch.args, lora=launch.lora)
        if told is not None:
            words[name] = told.words
    models = tuple(launches.values()) or (Launch(UNKNOWN_MODEL, UNKNOWN_MODEL),)
    each = [text if len(models) == 1 else f"{name}: {text}" for name, text in words.items()]
    return DeploymentTold(Deployment(models), bool(words), "; ".join(each))


def short_name(model: str) -> str:
    """`chat-70b` of `acme/chat-70b` and of a folder."""
    return model.rstrip("/").rpartition("/")[2] or model


def _argument(key: str, value: object) -> ArgValue | None:
    """As a launch takes it; None: it is no argument of vLLM's, or it says nothing."""
    name = canonical_name(key.replace("_", "-"))[0]
    if key in _NOT_ARGUMENTS + _SERVERS_OWN or flag_for(name) is None or value is None or MASKED in str(value):
        return None
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(one if isinstance(one, str) else json.dumps(one) for one in value) or None
    return json.dumps(value) if isinstance(value, dict) else None
