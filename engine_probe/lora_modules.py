"""LoRA adapters in their two forms: words after `--lora-modules`, and a mapping from name to path."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.arg_values import ArgValue


def split_lora(args: Mapping[str, ArgValue]) -> tuple[dict[str, ArgValue], dict[str, str]]:
    """Takes `lora-modules` out of `args` where name and path say all of it.

    Without `enable-lora` vLLM takes no adapter, so that is then written down as false: a launch with adapters
    and nothing said has it on.
    """
    rest = dict(args)
    modules = rest.get("lora-modules")
    words = modules if isinstance(modules, tuple) else (modules,) if isinstance(modules, str) else ()
    pairs = [_pair(word) for word in words]
    lora = dict(pair for pair in pairs if pair is not None)
    if not words or len(lora) != len(words):
        return rest, {}
    del rest["lora-modules"]
    if rest.get("enable-lora") is True:
        del rest["enable-lora"]
    else:
        rest["enable-lora"] = False
    return rest, lora


def _pair(word: str) -> tuple[str, str] | None:
    if word.lstrip().startswith("{"):
        try:
            content = json.loads(word)
        except ValueError:
            return None
        plain = set(content) == {"name", "path"} and all(isinstance(value, str) for value in content.values())
        return (content["name"], content["path"]) if plain else None
    name, equals, path = word.partition("=")
    return (name, path) if equals and name and path else None
