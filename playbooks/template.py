"""A new playbook to fill in: valid as it stands, with a comment where something has to be written."""

from __future__ import annotations

import re

from engine_probe.strict_yaml import InputError, nearest_word

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


def new_playbook(name: str, family: str) -> str:
    """The text of the new file. Raises InputError for a name or a family that cannot be."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no id: lower-case words with dashes, such as kv-cache-too-small")
    if family not in FAMILIES:
        raise InputError(f"there is no family {family!r}", allowed=FAMILIES, nearest=nearest_word(family, FAMILIES))
    return _TEXT.replace("NAME", name).replace("FAMILY", family)
