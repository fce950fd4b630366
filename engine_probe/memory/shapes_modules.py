"""The modules of a model, as a checkpoint names them: what config.json and a file's header are both turned into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from engine_probe.memory.model import Split

Place = Literal["first", "last", "every", "layer"]
Role = Literal["linear", "experts", "embedding", "head", "plain"]
"""What quantisation makes of it: it converts `linear` and `experts`, nothing of `plain` (norms, routers)."""


@dataclass(frozen=True)
class Module:
    """One matrix (`rows` outputs × `columns` inputs) with its bias, `copies` times; a vector has one column."""

    name: str
    rows: int
    columns: int
    role: Role = "linear"
    split: Split = "tp"
    layer: int | None = None
    place: Place = "layer"
    copies: int = 1
    has_bias: bool = False
    is_vision: bool = False
    float_bytes: int | None = None
    """Bytes of an element that keeps its own type whatever the model's is; None: the model's."""
    is_runtime: bool = False
    """vLLM makes it while loading; no checkpoint holds it."""

    @property
    def elements(self) -> int:
        """Of the matrix alone."""
        return self.rows * self.columns * self.copies

    @property
    def bias_elements(self) -> int:
        return self.rows * self.copies if self.has_bias else 0


def norm(name: str, width: int, layer: int | None, *, kind: str = "rms", place: Place = "layer") -> Module | None:
    """`kind`: rms, ln (with bias), bare (layer norm without bias), none (without any parameter)."""
    if kind == "none":
        return None
    return Module(name, width, 1, "plain", "replicated", layer, place, has_bias=kind == "ln")


def existing(*modules: Module | None) -> list[Module]:
    """Those that are there."""
    return [one for one in modules if one is not None]


def parameters(modules: list[Module] | tuple[Module, ...]) -> int:
    """How many numbers a checkpoint of them holds."""
    return sum(one.elements + one.bias_elements for one in modules if not one.is_runtime)
