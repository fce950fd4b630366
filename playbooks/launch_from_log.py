"""The launch that a log prints, as one that can be loaded again: vLLM's `non-default args: {…}` become arguments.

What a log does not say is not in it: the environment, the GPUs, and values that were masked.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from engine_probe.arg_values import canonical_name
from engine_probe.errors import InputError
from engine_probe.flags import flag_for
from engine_probe.launch import Deployment, Launch
from engine_probe.redact import MASKED
from playbooks.launch_in_log import ARGUMENTS, is_default, items_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine_probe.launch import ArgValue
    from engine_probe.logs.attempts import Attempt
    from engine_probe.logs.records import Record

_NOT_ARGUMENTS = ("model", "model_tag", "lora_modules", "dispatch_function", "subparser")
_SERVERS_OWN = ("uvicorn_log_level", "allowed_origins", "allowed_methods", "allowed_headers")
"""Old releases print them although nobody gave them."""
_ADAPTER = re.compile(r"name='([^']*)', path='([^']*)'")
UNKNOWN_MODEL = "the model of the log"


def launch_told(records: Iterable[Record], name: str | None = None) -> Launch | None:
    """What the last arguments that are printed launch; None where none are. `name`: instead of its own."""
    values: dict[str, object] | None = None
    for record in records:
        if found := ARGUMENTS.match(record.message):
            is_all = found["few"] is None
            pairs = items_of(found["words"] if found["words"] is not None else found["all"])
            values = {key: value for key, value in pairs if not is_all or not is_default(key, value)}
    model = str((values or {}).get("model") or (values or {}).get("model_tag") or "")
    if values is None or not model:
        return None
    args = {
        key.replace("_", "-"): plain for key, value in values.items() if (plain := _argument(key, value)) is not None
    }
    lora = dict(_ADAPTER.findall(str(values.get("lora_modules", ""))))
    try:
        return Launch(name or short_name(model), model, args, lora=lora)
    except InputError:
        return None


def deployment_told(attempts: Iterable[Attempt]) -> tuple[Deployment, bool]:
    """All models of a log with their last launches; whether any launch was printed. Never without a model."""
    launches: dict[str, Launch] = {}
    is_printed = False
    for attempt in attempts:
        told = launch_told(attempt.records)
        is_printed = is_printed or told is not None
        name = short_name(attempt.model) if attempt.model else told.name if told is not None else UNKNOWN_MODEL
        if told is None:
            told = Launch(name, attempt.model or UNKNOWN_MODEL)
        launches[name] = Launch(name, told.model, told.args, lora=told.lora)
    models = tuple(launches.values()) or (Launch(UNKNOWN_MODEL, UNKNOWN_MODEL),)
    return Deployment(models), is_printed


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
