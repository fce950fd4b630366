"""Cases that are really driven and kept, on played back or ruled loads; some of them killed on their way."""

from __future__ import annotations

import asyncio
import json
from datetime import date
from typing import TYPE_CHECKING

from engine_probe.deployment import read_deployment
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.stages import read_wordings
from playbooks.case import CaseFolder, new_case
from playbooks.context import Context, new_session
from playbooks.library import library_folder, playbook_files
from playbooks.load import load_file
from playbooks.model_config import model_facts
from playbooks.replay import drive
from playbooks.unattended import Unattended
from tests.recorded_probe import RecordedProbe, recorded_loads

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.replay import OnStep, Policy, ProbeLike
    from playbooks.session import Session

KV = "kv-cache-too-small-for-max-model-len"
SHORTER, POOL = "serve-a-shorter-context", "enlarge-the-pool"
DAY = date(2026, 11, 29)
DEPLOYMENT = """\
models:
  - name: tiny
    model: ./tiny-llama
    args:
      kv-cache-memory-bytes: "96M"
"""
_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 4096,
    "vocab_size": 256,
    "torch_dtype": "float32",
}


def kv_context() -> Context:
    """One playbook is all that these cases need."""
    return context_of(KV)


def context_of(name: str) -> Context:
    """With one playbook about memory."""
    path = library_folder() / "memory" / f"{name}.yaml"
    ids = [one.stem for one in playbook_files(library_folder())]
    return Context((load_file(path, ids),), read_wordings(), read_wrappers())


def kv_deployment(folder: Path, text: str = DEPLOYMENT) -> Path:
    """A file whose model has a config.json, and whose loads are those of data/kv-cache-too-small.jsonl."""
    model = folder / "tiny-llama"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(_CONFIG), encoding="utf-8")
    file = folder / "deployment.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def kv_probe() -> RecordedProbe:
    """A load that fails, and one that serves."""
    bad, good = recorded_loads()
    return RecordedProbe(bad, good)


async def keep_case(
    file: Path,
    state: Path,
    probe: ProbeLike | None = None,
    policy: Policy | None = None,
    *,
    context: Context | None = None,
    on_step: OnStep | None = None,
) -> tuple[CaseFolder, Session]:
    """A whole session with its case."""
    case = new_case(state, DAY)
    deployment = read_deployment(file)
    facts = model_facts(deployment.models[0].model, file.parent)
    session = new_session(case.name, deployment, "warm", "warm", facts)
    driving = drive(
        session,
        probe or kv_probe(),
        policy or Unattended(fix=SHORTER),
        lambda *_: None,
        context=context or kv_context(),
        case=case,
        on_step=on_step,
    )
    return case, await asyncio.wait_for(driving, 30)
