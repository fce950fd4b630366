"""What a log itself prints of its launch, as facts `launch.NAME`: the arguments, the engine's configuration, messages.

vLLM prints `non-default args: {…}` (entrypoints/utils.py log_non_default_args, 0.8.5 on; before that `args:
Namespace(…)` with all of them), then `with config: model='…', …` (v1/engine/core.py).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from engine_probe.facts import Known
from engine_probe.numbers import number_in
from engine_probe.redact import MASKED
from playbooks.conditions import Unset, show
from playbooks.facts import launch_fact, number_or_text
from playbooks.patterns import to_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from engine_probe.facts import Fact, Value
    from engine_probe.launch import Launch
    from engine_probe.logs.records import Record

ARGUMENTS = re.compile(r"^(?P<few>non-default )?args: ?(?:\{(?P<words>.*)\}|Namespace\((?P<all>.*)\))\s*$", re.DOTALL)
CONFIGURATION = re.compile(r"^Initializing an? (?:V[01] )?LLM engine \(v[^)]*\) with config: (?P<words>.*)$", re.DOTALL)
_OF_CONFIGURATION = ("tensor_parallel_size", "pipeline_parallel_size")
"""What is there as it was asked for; others are vLLM's own choice by then."""
_SAID = (
    (re.compile(r"tensor parallel(?:ism)? size \((\d+)\)|tensor_parallel_size \((\d+)\)"), "tensor_parallel_size"),
    (re.compile(r"User-specified max_model_len \((\d+)\)"), "max_model_len"),
)
_DEFAULTS: Mapping[str, tuple[object, ...]] = {
    "tensor_parallel_size": (1,), "pipeline_parallel_size": (1,), "data_parallel_size": (1,), "port": (8000,),
    "gpu_memory_utilization": (0.9,), "block_size": (16,), "max_num_seqs": (256,), "swap_space": (4, 4.0),
    "cpu_offload_gb": (0, 0.0), "max_loras": (1,), "max_lora_rank": (16,), "nnodes": (1,),
    "lora_extra_vocab_size": (256,),
}  # fmt: skip
_NOT_GIVEN: tuple[object, ...] = (None, False, "auto", [], {}, "")
_OPENING, _CLOSING = "([{", ")]}"
_LORA_NAME = re.compile(r"name='([^']*)'")


class PrintedLaunch(NamedTuple):
    """`facts` by the names of the register, `launch.` before them."""

    facts: Mapping[str, Known] = {}
    unsaid: Unset | None = None
    """What is true of every other argument: all that were given have been printed. None: they have not."""

    def beside(self, launch: Launch | None) -> dict[str, Fact]:
        """What the log adds to `launch`, or knows better."""
        if launch is None:
            return dict(self.facts)
        return {
            name: fact
            for name, fact in self.facts.items()
            if name not in _NAMES and not _says(launch, name, fact.value)
        }

    def contradicting(self, launch: Launch) -> Iterator[str]:
        """Where the launch that was given says something else, each as a sentence."""
        for name, fact in self.facts.items():
            given = launch_fact(launch, name.removeprefix("launch."))
            if name in _NAMES or not isinstance(given, Known) or _says(launch, name, fact.value):
                continue
            flag = name.removeprefix("launch.").replace("_", "-")
            yield (
                f"the launch says {flag} {show(given.value)}, the log {show(fact.value)} ({fact.origin}): "
                "what the log says is used"
            )


_NAMES = ("launch.model", "launch.served_model_name", "launch.lora_modules", "launch.tokenizer")
"""Written in several ways: another one is no contradiction."""


def launch_printed(records: Iterable[Record], file: str) -> PrintedLaunch:
    """Of the records of one load; what is printed later counts."""
    facts: dict[str, Known] = {}
    unsaid = None
    for record in records:
        origin = f"{file}:{record.first_line}"
        if found := ARGUMENTS.match(record.message):
            unsaid = Unset(f"not among the arguments that vLLM printed, {origin}")
            is_all = found["few"] is None
            words = found["words"] if found["words"] is not None else found["all"]
            values = {name: value for name, value in items_of(words) if not is_all or not is_default(name, value)}
        elif found := CONFIGURATION.match(record.message):
            values = {name: value for name, value in items_of(found["words"]) if name in _OF_CONFIGURATION}
            values = {name: value for name, value in values.items() if f"launch.{name}" not in facts and value != 1}
        else:
            values = dict(_said(record))
        facts |= {
            f"launch.{name}": Known(plain, "parsed", origin)
            for name, value in values.items()
            if (plain := _plain(name, value)) is not None
        }
    return PrintedLaunch(facts, unsaid)


def items_of(words: str) -> Iterator[tuple[str, object]]:
    """Pairs of `'name': value, …` or `name=value, …`, nested ones left whole; a value that is no literal stays text."""
    for part in _parts(words):
        name, sign, text = part.partition(":") if part.startswith(("'", '"')) else part.partition("=")
        if sign and (plain := name.strip().strip("'\"")).isidentifier():
            try:
                yield plain, ast.literal_eval(text.strip())
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                yield plain, text.strip()


def _parts(words: str) -> Iterator[str]:
    """Between the commas that stand in no brackets and no quotes."""
    start, depth, quote, at = 0, 0, "", 0
    while at < len(words):
        sign = words[at]
        if quote:
            at += sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in _OPENING:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif sign == "," and depth == 0:
            yield words[start:at].strip()
            start = at + 1
        at += 1
    yield words[start:].strip()


def _said(record: Record) -> Iterator[tuple[str, object]]:
    """In messages and exceptions, where the value is beyond doubt."""
    texts = [record.message, *(one.message for chain in record.chains for one in chain)]
    for text in texts:
        if "arallel" not in text and "User-specified" not in text:
            continue
        for pattern, name in _SAID:
            if found := pattern.search(text):
                told = number_in(next(filter(None, found.groups())))
                if told is not None:
                    yield name, int(told)


def is_default(name: str, value: object) -> bool:
    return value in _NOT_GIVEN or value in _DEFAULTS.get(name, ())


def _plain(name: str, value: object) -> Value | None:
    """As `launch_fact` gives it; None: it says nothing."""
    if name == "lora_modules" and (names := _LORA_NAME.findall(str(value))):
        return " ".join(names)
    if value is None or value == MASKED:
        return None
    if isinstance(value, str):
        return number_or_text(value)
    if isinstance(value, (bool, int, float)):
        return value
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _says(launch: Launch, name: str, value: Value) -> bool:
    given = launch_fact(launch, name.removeprefix("launch."))
    return isinstance(given, Known) and _is_same(given.value, value)


def _is_same(one: Value, other: Value) -> bool:
    """JSON is written in several ways, and is not compared."""
    if any(isinstance(side, str) and side.startswith(("{", "[", "-1", "auto")) for side in (one, other)):
        return True
    return one == other or to_value(str(one)) == to_value(str(other)) or -1 in (one, other)
