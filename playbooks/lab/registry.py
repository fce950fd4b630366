"""Named functions with parameters, as a fault's file calls them: `- cut: {file: model.safetensors, keep_share: 0.5}`.

A function's keyword-only parameters are what the file may give; the name is the function's, with hyphens.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from engine_probe.errors import nearest_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from engine_probe.strict_yaml import Lines
    from engine_probe.yaml_nodes import YamlPath

Scalar = bool | int | float | str
_KINDS: Mapping[str, Any] = {
    "str": str,
    "str | None": str | None,
    "int": int,
    "int | None": int | None,
    "float": float,
    "float | None": float | None,
    "bool": bool,
    "Scalar": Scalar,
    "Any": Any,
    "list[str]": list[str],
    "list[int]": list[int],
    "dict[str, str]": dict[str, str],
    "dict[str, Any]": dict[str, Any],
}
"""What a parameter may be annotated with."""


@dataclass(frozen=True)
class Step:
    """One call: `run(what the lab gives)` does it with the parameters of the file."""

    name: str
    function: Callable[..., Any]
    parameters: Mapping[str, Any]

    def run(self, *given: Any) -> Any:
        return self.function(*given, **self.parameters)


class Registry:
    """`what`: the word for one of them in an error, such as `way to break`."""

    def __init__(self, what: str, functions: Iterable[Callable[..., Any]]) -> None:
        self._what = what
        self._functions = {name_of(function): function for function in functions}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._functions))

    def doc(self, name: str) -> str:
        """What it does, in one sentence."""
        return (inspect.getdoc(self._functions[name]) or "").split("\n")[0]

    def step(self, name: str, given: Mapping[str, Any], lines: Lines, at: YamlPath) -> Step:
        """The call that a file asks for at the path `at`. Raises InputError with the line and the nearest word."""
        function = self._functions.get(name)
        if function is None:
            nearest = nearest_word(name, self.names)
            raise lines.error(f"there is no {self._what} {name!r}", at, allowed=self.names, nearest=nearest)
        wanted = _parameters(function)
        written, given = given, {key.replace("-", "_"): value for key, value in given.items()}
        for word in written:
            key = word.replace("-", "_")
            if key not in wanted:
                allowed = tuple(wanted)
                message = f"{name} has no parameter {key!r}"
                raise lines.error(message, (*at, word), allowed=allowed, nearest=nearest_word(key, allowed))
        missing = [key for key, one in wanted.items() if one.default is inspect.Parameter.empty and key not in given]
        if missing:
            raise lines.error(f"{name} wants the parameter {missing[0]!r}", at, allowed=tuple(wanted))
        values = {key: _checked(name, key, value, wanted[key], lines, at) for key, value in given.items()}
        return Step(name, function, values)

    def steps(self, given: Iterable[Mapping[str, Any]], lines: Lines, at: YamlPath) -> tuple[Step, ...]:
        """A list of calls, each a mapping of one name to its parameters."""
        return tuple(self._one(one, lines, (*at, number)) for number, one in enumerate(given))

    def _one(self, given: Mapping[str, Any], lines: Lines, at: YamlPath) -> Step:
        if len(given) != 1:
            raise lines.error(f"one name with its parameters is wanted, not {len(given)}", at, allowed=self.names)
        ((name, parameters),) = given.items()
        return self.step(name, parameters or {}, lines, (*at, name))


def name_of(function: Callable[..., Any]) -> str:
    return function.__name__.replace("_", "-")


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function).parameters
    return {name: one for name, one in found.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}


def _checked(name: str, key: str, value: Any, parameter: inspect.Parameter, lines: Lines, at: YamlPath) -> Any:
    kind = _KINDS[str(parameter.annotation)]
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        words = str(error).replace("`", '"')
        raise lines.error(f"{name}.{key}: {words[:1].lower()}{words[1:]}", (*at, key)) from None
