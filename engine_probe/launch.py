"""A launch is one model's vLLM arguments, environment and GPUs; a deployment is an ordered list of launches.

A launch that came from a command keeps how it was written, so that `argv` gives back the same words.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeVar

from engine_probe.arg_values import ArgValue, canonical_name, canonical_value, words_of
from engine_probe.redact import MASKED, mask_argv, mask_env

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["ArgValue", "Deployment", "EngineSpec", "Frozen", "Launch", "Piece", "Written"]

K = TypeVar("K")
V = TypeVar("V")


class Frozen(dict[K, V]):
    """A dict that cannot be changed: it still prints, encodes, compares and copies as one."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("a launch is never changed: make another one with with_arg, with_env, …")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Frozen, (dict(self),)

    def __deepcopy__(self, _memo: Any) -> Frozen[K, V]:
        return self


@dataclass(frozen=True)
class EngineSpec:
    """How to reach the Python that has vLLM, as a deployment file says it (DESIGN: engines)."""

    python: str = "python3"
    container: str | None = None
    image: str | None = None
    ssh: str | None = None
    pod: str | None = None
    """A Kubernetes pod, `POD` or `NAMESPACE/POD`."""
    run: str = "docker"
    """With `image`: the tool that runs it, with options for its `run` if any."""


class Piece(NamedTuple):
    """Words of a command that belong together; `name` is the argument they set, empty for other words."""

    name: str
    words: tuple[str, ...]


class Written(NamedTuple):
    """A command as it was written, and the values it had then."""

    pieces: tuple[Piece, ...]
    values: Mapping[str, ArgValue]


@dataclass(frozen=True)
class Launch:
    """One model as `vllm serve` would be called. `args` has canonical long names without dashes.

    Equality looks at what is set, never at how it was written. With `lora`, `enable-lora` is on unless args says no.
    """

    name: str
    model: str
    args: Mapping[str, ArgValue] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: tuple[int, ...] | None = None
    engine: EngineSpec | None = None
    lora: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = field(default=("vllm", "serve"), compare=False)
    """The words before the model, such as `python -m vllm.entrypoints.openai.api_server`."""
    written: Written | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        args: dict[str, ArgValue] = {}
        for word, raw in self.args.items():
            name, negated = canonical_name(word)
            args[name] = canonical_value(name, not raw if negated and isinstance(raw, bool) else raw)
        object.__setattr__(self, "args", Frozen(args))
        object.__setattr__(self, "env", Frozen(self.env))
        object.__setattr__(self, "lora", Frozen(self.lora))

    def values(self) -> dict[str, ArgValue]:
        """Everything that the command sets, the model and the LoRA adapters among it."""
        values: dict[str, ArgValue] = {"model": self.model, **self.args}
        if self.lora:
            values.setdefault("enable-lora", True)
            values["lora-modules"] = tuple(f"{name}={path}" for name, path in self.lora.items())
        return values

    def arg(self, name: str) -> ArgValue | None:
        """The value of an argument, in any of its forms (`-tp`, `max_model_len`); None: not set."""
        return self.values().get(canonical_name(name)[0])

    def written_as(self, name: str) -> str | None:
        """The word that set the argument, such as `-O3`; None where it was not set by a command."""
        pieces = self.written.pieces if self.written else ()
        return next((piece.words[0] for piece in pieces if piece.name == name), None)

    def argv(self) -> list[str]:
        """The command's words: as written where nothing changed, in our own form where something did."""
        now = self.values()
        before = self.written.values if self.written else {}
        argv, fresh = list(self.entrypoint), dict(now)
        for piece in self.written.pieces if self.written else ():
            if not piece.name or (piece.name in now and _same(now[piece.name], before.get(piece.name))):
                argv += piece.words
                fresh.pop(piece.name, None)
            elif piece.name in fresh:
                argv += self._words(piece.name, fresh.pop(piece.name))
        for name, value in fresh.items():
            if name not in before or not _same(value, before[name]):
                argv += self._words(name, value)
        return argv

    def _words(self, name: str, value: ArgValue) -> list[str]:
        if name == "model" and self.entrypoint[-1:] == ("serve",):
            return [str(value)]
        if name == "lora-modules" and isinstance(value, tuple):
            return ["--lora-modules", *value]
        return words_of(name, value)

    def child_env(self) -> dict[str, str]:
        """What the child's environment needs beyond its own: `env`, and the GPUs by NVML index."""
        if self.gpus is None:
            return dict(self.env)
        visible = ",".join(str(gpu) for gpu in self.gpus)
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible, **self.env}

    def command(self, *, masked: bool = False) -> str:
        """A line for a shell; `masked` hides secrets and is what may be shown or kept."""
        env = mask_env(self.child_env()) if masked else self.child_env()
        argv = mask_argv(self.argv()) if masked else self.argv()
        words = [*(f"{name}={_quoted(value)}" for name, value in env.items()), *(_quoted(word) for word in argv)]
        return " ".join(words)

    def with_arg(self, name: str, value: ArgValue) -> Launch:
        """The same launch with one argument set."""
        canonical, negated = canonical_name(name)
        wanted = not value if negated and isinstance(value, bool) else value
        return replace(self, args={**self.args, canonical: wanted})

    def without_arg(self, name: str) -> Launch:
        """The same launch without one argument."""
        return replace(self, args=_without(self.args, canonical_name(name)[0]))

    def with_env(self, name: str, value: str | None) -> Launch:
        """The same launch with one variable set, or taken away by None."""
        return replace(self, env=_without(self.env, name) if value is None else {**self.env, name: value})

    def with_gpus(self, gpus: Iterable[int] | None) -> Launch:
        """The same launch on other GPUs; None: whichever vLLM takes."""
        return replace(self, gpus=None if gpus is None else tuple(gpus))

    def with_lora(self, name: str, path: str | None) -> Launch:
        """The same launch with one LoRA adapter, or without it by None."""
        return replace(self, lora=_without(self.lora, name) if path is None else {**self.lora, name: path})


def _quoted(word: str) -> str:
    return word if word == MASKED else shlex.quote(word)


def _same(one: ArgValue, other: ArgValue | None) -> bool:
    """1 and True are equal in Python, but not as arguments."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _without(mapping: Mapping[str, V], key: str) -> dict[str, V]:
    return {name: value for name, value in mapping.items() if name != key}


@dataclass(frozen=True)
class Deployment:
    """Launches that share a host, in start order. `path` is the file it came from, None if none did."""

    models: tuple[Launch, ...]
    engine: EngineSpec | None = None
    start: Literal["sequential", "parallel"] = "sequential"
    path: Path | None = None
    digest: str | None = field(default=None, compare=False)
    """SHA-256 of the file when it was read: a file that changed since is never overwritten."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What its source says and no launch can: each a sentence, with the place."""

    def launch(self, name: str) -> Launch | None:
        """The launch of this name."""
        return next((launch for launch in self.models if launch.name == name), None)
