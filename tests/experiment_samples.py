"""A playbook of two claims with an experiment each, in the place of the library's for the same failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.context import read_context

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.context import Context

KV = "kv-cache-too-small-for-max-model-len"
WRONG, RIGHT = "files-are-not-whole", "length-is-too-long"
RANDOM, SHORTER = "random-weights", "shorter"
_TEXT = """\
playbook: kv-cache-too-small-for-max-model-len
title: The KV cache cannot hold one request
summary: It stops before it serves.
family: memory
kind: resource
symptom: does-not-start
layer: engine
stage: memory_planning
symptoms:
  any:
    - id: too-small
      log: To serve at least one request with the models?'s? max seq len \\((?P<asked_len>\\d+)\\)
      also_capture: [estimated maximum model length is (?P<estimated_len>\\d+)]
samples:
  match:
    - line: To serve at least one request with the model's max seq len (4096), it says
      facts: {asked_len: 4096}
  no_match:
    - line: all is well
hypotheses:
  - id: files-are-not-whole
    claim: The files lack tensors.
    experiment: FIRST
    fixes: [random-weights]
  - id: length-is-too-long
    claim: With a quarter of the length the model serves.
    experiment:
      run: load-shorter
      cost: one full start
      confirm: [load.is_serving is true]
      refute: [load.is_serving is false]
    fixes: [shorter]
fixes:
  - id: random-weights
    set: {args.load-format: dummy}
    why: Nothing is read.
    expect: [load.is_serving is true]
    you_lose: All sense.
    risk: high
  - id: shorter
    set: {args.max-model-len: "{memory.length_that_fits}"}
    why: It fits.
    expect: [load.is_serving is true]
    you_lose: Length.
    risk: low
"""
_FIRST = "{{run: {run}, cost: {cost}, confirm: [{confirm}], refute: [{refute}]}}"


def two_claims(
    folder: Path,
    run: str = "tensor-audit",
    confirm: str = "files.missing_tensors > 0",
    refute: str = "files.missing_tensors == 0",
    cost: str = "seconds",
) -> Context:
    """All playbooks, with that one in `folder` for the failure; its first claim is tested by `run`."""
    first = _FIRST.format(run=run, cost=cost, confirm=confirm, refute=refute)
    place = folder / "own" / "memory"
    place.mkdir(parents=True)
    (place / f"{KV}.yaml").write_text(_TEXT.replace("FIRST", first), encoding="utf-8")
    return read_context((folder / "own",))
