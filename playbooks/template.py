"""A new playbook to fill in: it loads as it stands, with a comment where something has to be written.

What was not filled in yet is found again by its text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from engine_probe.strict_yaml import InputError, decode_text, nearest_word
from playbooks.schema import Playbook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.strict_yaml import Lines

    Texts = Iterator[tuple[tuple[str | int, ...], str]]

FAMILIES = ("memory", "dependency", "format", "quantization", "lora", "distributed", "configuration", "environment")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

_TEXT = """\
playbook: NAME                        # the file's name without .yaml
title: One line that says what is wrong
summary: >
  What happens, for a tired person, in three lines.
family: FAMILY
kind: configuration                   # resource, configuration, dependency, compatibility
symptom: does-not-start               # or crashes-while-running, answers-are-wrong
layer: frontend                       # frontend, engine, worker, model_runner, outside: the component at fault
stage: config                         # where start-up stops
applies_to:
  vllm: ">=0.5.5"

symptoms:
  any:
    - id: the-wording
      # A Python regular expression; a space means any white space. Named groups become facts.
      log: this line says what is wrong \\((?P<limit>\\d+)\\)

samples:
  match:
    - line: "ValueError: this line says what is wrong (16)"
      facts: {limit: 16}
  no_match:
    - line: "INFO: everything is fine"

hypotheses:
  - id: first-hypothesis
    claim: A sentence that can be false.
    experiment:
      ask: [launch.max_model_len]
      cost: none
      confirm: [launch.max_model_len is set]
      refute: [launch.max_model_len is unset]
    fixes: [first-fix]

fixes:
  - id: first-fix
    set: {args.max-model-len: "{limit}"}   # exactly one variable
    needs: [limit]
    why: Why this mends it.
    expect: [engine.max_model_len == launch.max_model_len]
    you_lose: What it costs.
    risk: low

verify:
  - id: healthy
    http: GET /health
    within: 60s
  - id: answers
    request: one-short-completion
    within: 60s
  - id: answers-at-full-length
    request: one-completion-near-max-model-len
    within: 300s

rollback:
  automatic: the deployment file as it was before the fix
"""


def split_name(word: str, family: str | None) -> tuple[str, str]:
    """Name and family from `memory/my-cause`, or from `my-cause` and a family. Raises InputError where they differ."""
    before, slash, name = word.rpartition("/")
    if slash and family not in (None, before):
        raise InputError(f"{word!r} names the family {before!r}, --family {family!r}: give one of the two")
    return name, before if slash else family or "configuration"


def unfilled(spec: Playbook, lines: Lines) -> list[InputError]:
    """Every text of `spec` that is still the draft's own, with its line."""
    drafted = _drafted()
    return [
        lines.error(f"still the draft's text: {text.strip()!r}", at) for at, text in _texts(spec) if text in drafted
    ]


@lru_cache(maxsize=1)
def _drafted() -> frozenset[str]:
    draft, _ = decode_text(new_playbook("draft", "memory"), "the draft", Playbook)
    return frozenset(text for _, text in _texts(draft))


def _texts(spec: Playbook) -> Texts:
    """What only a person can write."""
    yield ("title",), spec.title
    yield ("summary",), spec.summary
    for number, wording in enumerate(spec.symptoms.any):
        yield ("symptoms", "any", number, "log"), wording.log
    for number, line in enumerate(spec.samples.match):
        yield ("samples", "match", number, "line"), line.line
    for number, other in enumerate(spec.samples.no_match):
        yield ("samples", "no_match", number, "line"), other.line
    for number, one in enumerate(spec.hypotheses):
        yield ("hypotheses", number, "claim"), one.claim
    for number, fix in enumerate(spec.fixes):
        yield ("fixes", number, "why"), fix.why
        yield ("fixes", number, "you_lose"), fix.you_lose


def check_name(name: str, family: str) -> None:
    """Raises InputError for a name or a family that cannot be."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no id: lower-case words with dashes, such as kv-cache-too-small")
    if family not in FAMILIES:
        raise InputError(f"there is no family {family!r}", allowed=FAMILIES, nearest=nearest_word(family, FAMILIES))


def new_playbook(name: str, family: str) -> str:
    """The text of the new file. Raises InputError for a name or a family that cannot be."""
    check_name(name, family)
    return _TEXT.replace("NAME", name).replace("FAMILY", family)
