"""A model's config.json as settings that were checked: bounded numbers, transformers' class defaults, clear errors."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NoReturn

from engine_probe.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MOST_LAYERS = 1_000
MOST_EXPERTS = 100_000
_MOST = 10**8
"""No size in a config.json of today comes near; larger ones are mistakes or malice."""
_LARGEST_JSON_BYTES = 32 << 20
_MOST_PARTS = 500_000
"""Lists and objects in one file."""
_TEXT_KEYS = ("text_config", "llm_config", "language_config")
_INHERITED = ("torch_dtype", "dtype", "quantization_config", "tie_word_embeddings", "vocab_size")
"""What a text model without its own takes from the whole model's config."""


class Settings:
    """Values of one JSON object. A name that is written with null counts as left out on purpose: no class default."""

    def __init__(self, raw: Mapping[str, Any], where: str, defaults: Mapping[str, Any] | None = None) -> None:
        self.raw = raw
        self.where = where
        self.defaults = class_defaults(str(raw.get("model_type", ""))) if defaults is None else defaults

    def number(self, *names: str, default: int | None = None, most: int = _MOST, least: int = 0) -> int:
        """The first of `names` that has a value. Raises InputError where none has, or it is no size."""
        found = self.optional(*names, most=most, least=least)
        if found is None and default is None:
            raise InputError(f"says no {names[0]}, and its class has none that could be taken", file=self.where)
        return default if found is None and default is not None else found or 0

    def optional(self, *names: str, most: int = _MOST, least: int = 0) -> int | None:
        """As `number`; None where none has a value."""
        for source in (self.raw, self.defaults):
            for name in names:
                value = source.get(name)
                if value is not None:
                    return self._whole(name, value, most, least)
            if source is self.raw and any(name in self.raw for name in names):
                return None
        return None

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.raw.get(name)
        value = self.defaults.get(name) if value is None else value
        if value is None:
            return default
        if not isinstance(value, bool):
            self._refuse(name, value, "true or false")
        return value

    def real(self, name: str, default: float) -> float:
        value = self.raw.get(name)
        value = self.defaults.get(name) if value is None else value
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
            self._refuse(name, value, "a number from 0 on")
        return float(value)

    def text(self, *names: str) -> str:
        """Empty where it is not written."""
        for name in names:
            value = self.raw.get(name)
            if isinstance(value, str):
                return value
        return ""

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.raw.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self._refuse(name, value, "a list of words")
        if len(value) > _MOST // 10:
            self._refuse(name, "a longer list", "a shorter one")
        return tuple(value)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """A list of sizes; None where it is not written or is no list."""
        value = self.raw.get(name)
        if not isinstance(value, list):
            return None
        return tuple(self._whole(name, one, _MOST) for one in value)

    def inner(self, *names: str) -> Settings | None:
        """An object inside, with its own class's defaults; None where it is not there."""
        for name in names:
            value = self.raw.get(name)
            if isinstance(value, dict) and value:
                return Settings(value, self.where, self._defaults_of(name, value))
            subs = self.defaults.get("sub_configs")
            if value is None and isinstance(subs, dict) and name in subs:
                return Settings({"model_type": subs[name]}, self.where)
        return None

    def _defaults_of(self, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        subs = self.defaults.get("sub_configs")
        kind = value.get("model_type") or (subs.get(name, "") if isinstance(subs, dict) else "")
        return class_defaults(str(kind))

    def text_model(self) -> Settings:
        """The language model's settings: an object inside, or these themselves."""
        subs = self.defaults.get("sub_configs")
        if (
            isinstance(subs, dict)
            and "text_config" in subs
            and "hidden_size" in self.raw
            and "text_config" not in self.raw
        ):
            # Sizes of the language model stand beside vision_config, as files of Qwen2-VL's time have them.
            return Settings({**self.raw, "model_type": subs["text_config"]}, self.where)
        inner = self.inner(*_TEXT_KEYS)
        if inner is None and isinstance(self.raw.get("thinker_config"), dict):
            return Settings(self.raw["thinker_config"], self.where).text_model()
        if inner is None:
            return self
        taken = {name: self.raw[name] for name in _INHERITED if name in self.raw and inner.raw.get(name) is None}
        if "vocab_size" in inner.defaults:
            taken.pop("vocab_size", None)
        return Settings({**taken, **{k: v for k, v in inner.raw.items() if k not in taken}}, self.where, inner.defaults)

    def _whole(self, name: str, value: Any, most: int, least: int = 0) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self._refuse(name, value, f"a whole number from {least} to {most:,}")
        return value

    def _refuse(self, name: str, value: Any, wanted: str) -> NoReturn:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "…"
        raise InputError(f"{name} is {shown}; it must be {wanted}", file=self.where)


def read_json(path: Path) -> Mapping[str, Any]:
    """A file's JSON object. Raises InputError where there is none, or it is too large or too deep."""
    try:
        size = path.stat().st_size
        if not path.is_file() or size > _LARGEST_JSON_BYTES:
            raise InputError("is no regular file, or too large for JSON", file=str(path))
        text = path.read_bytes()
        if text.count(b"[") + text.count(b"{") > _MOST_PARTS:
            raise InputError("holds more lists than a model has use for", file=str(path))
        found = json.loads(text)
    except RecursionError as error:
        raise InputError("is nested too deeply to be one of a model", file=str(path)) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"cannot be read: {str(reason)[:200]}", file=str(path)) from error
    if not isinstance(found, dict):
        raise InputError("holds no JSON object", file=str(path))
    return found


def class_defaults(model_type: str) -> Mapping[str, Any]:
    """What transformers' class of this model_type holds for a field that is left out; empty for an unknown one."""
    line = _default_lines().get(model_type)
    return json.loads(line) if line else {}


@cache
def _default_lines() -> Mapping[str, str]:
    text = resources.files("engine_probe.memory").joinpath("data/class_defaults.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {row[0]: row[1] for row in rows}
