"""Models that come up on the real engine, well and wrong: what they are asked finds out which."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine_probe.deployment import read_deployment
from engine_probe.supervisor import Probe
from playbooks.context import new_session, read_context
from playbooks.lab import breakers
from playbooks.lab.makers import adapter, tiny_llama
from playbooks.lab.safetensors_file import Tensor, read_tensors, write_tensors
from playbooks.proof import Proved, proved, verdict_words
from playbooks.replay import drive
from playbooks.session import Outcome, Proof, Session, Verdict
from playbooks.unattended import Unattended

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine_probe.engine import Engine
    from playbooks.session import Check

pytestmark = [pytest.mark.engine, pytest.mark.timeout(280)]
ARGS = "{enforce-eager: true, kv-cache-memory-bytes: 64M, max-model-len: 256}"
POOLING = "{enforce-eager: true, kv-cache-memory-bytes: 64M, max-model-len: 256, runner: pooling, convert: embed}"


def never_trained(folder: Path) -> None:
    file = folder / "poet" / "adapter_model.safetensors"
    tensors = read_tensors(file)
    zero = {name: Tensor(one.dtype, one.shape, bytes(len(one.data))) for name, one in tensors.items() if "_B" in name}
    write_tensors(file, {**tensors, **zero})


def without_template(folder: Path) -> None:
    breakers.edit_json(folder / "tiny", file="tokenizer_config.json", remove=["chat_template"])


def with_marks_of_a_chat(folder: Path) -> None:
    without_template(folder)
    special = {"additional_special_tokens": ["<|user|>", "<|assistant|>"]}
    breakers.edit_json(folder / "tiny", file="tokenizer_config.json", set=special)


def without_a_matrix(folder: Path) -> None:
    """Of a linear layer that is not quantized vLLM does not check that it was loaded."""
    breakers.drop_tensors(folder / "tiny", names=["model.layers.1.mlp.down_proj.weight"])


def without_numbers(folder: Path) -> None:
    breakers.nan_tensors(folder / "tiny", names=["model.layers.1.mlp.down_proj.weight"])


TOO_SMALL = "{enforce-eager: true, kv-cache-memory-bytes: 96M}"
BREAKS: dict[str, Callable[[Path], None] | None] = {
    "well": None,
    "pools": None,
    "too small": None,
    "NaN": without_numbers,
    "never trained": never_trained,
    "no template": without_template,
    "lost template": with_marks_of_a_chat,
    "missing tensor": without_a_matrix,
}


@pytest.fixture(scope="module")
def sessions(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Session]:
    """One session of each, on one warm engine."""
    return asyncio.run(run_all(engine, tmp_path_factory.mktemp("models")))


async def run_all(engine: Engine, folder: Path) -> dict[str, Session]:
    context, found = read_context(), {}
    async with Probe(engine) as probe:
        for name in BREAKS:
            deployment = read_deployment(written(folder / name.replace(" ", "-"), name))
            session = replace(new_session(name, deployment, "warm", "warm"), proof=Proof(4, 1.0))
            policy = Unattended(dry_run=name != "too small")
            found[name] = await drive(session, probe, policy, lambda *_: None, context=context)
    return found


def written(folder: Path, name: str) -> Path:
    """A deployment with a model, an adapter, and what is broken of them."""
    folder.mkdir()
    adapter(folder / "poet", tiny_llama(folder / "tiny"))
    break_it = BREAKS[name]
    if break_it is not None:
        break_it(folder)
    lora = "" if name == "pools" else "    lora: {poet: ./poet}\n"
    args = {"pools": POOLING, "too small": TOO_SMALL}.get(name, ARGS)
    path = folder / "deployment.yaml"
    path.write_text(f"models:\n  - name: tiny\n    model: ./tiny\n    args: {args}\n{lora}", encoding="utf-8")
    return path


def checks(session: Session) -> dict[str, Check]:
    return {one.id.removeprefix("proof-"): one for one in session.checks}


def test_a_model_that_is_well_passes_everything(sessions: dict[str, Session]) -> None:
    session = sessions["well"]
    assert session.verdict == "healthy", session.notes
    assert {one: check.outcome for one, check in checks(session).items()} == dict.fromkeys(
        ("models", "chat", "logprobs", "tensors", "values", "adapter-poet"), Outcome.PASS
    )
    assert "log probabilities differ by up to " in str(checks(session)["adapter-poet"].measured)
    assert "poet" in str(checks(session)["models"].measured)


def test_a_model_that_pools_is_asked_for_numbers_and_for_no_text(sessions: dict[str, Session]) -> None:
    session = sessions["pools"]
    assert session.verdict == "healthy", (session.checks, session.notes)
    assert checks(session)["logprobs"].outcome is Outcome.PASS
    assert checks(session)["chat"].outcome is Outcome.ABSTAIN


@pytest.mark.parametrize(
    ("name", "cause", "check"),
    [
        ("NaN", "weights-not-finite", "values"),
        ("NaN", "weights-not-finite", "logprobs"),
        ("never trained", "lora-has-no-effect", "adapter-poet"),
        ("lost template", "chat-template-mismatch", "chat"),
        ("missing tensor", "checkpoint-tensor-missing-silent", "tensors"),
    ],
)
def test_a_model_that_answers_wrongly_is_found_and_explained(
    sessions: dict[str, Session], name: str, cause: str, check: str
) -> None:
    session = sessions[name]
    assert session.symptom is not None, session.checks
    assert session.symptom.kind == "answers-are-wrong"
    assert [one.id for one in session.causes][:1] == [cause]
    assert checks(session)[check].outcome is Outcome.FAIL


def test_the_words_say_what_was_found(sessions: dict[str, Session]) -> None:
    said = {name: {one: check.measured or "" for one, check in checks(sessions[name]).items()} for name in BREAKS}
    assert said["missing tensor"]["tensors"] == "1 are in no file: model.layers.1.mlp.down_proj.weight"
    assert "model.layers.1.mlp.down_proj.weight in model.safetensors" in said["NaN"]["values"]
    assert said["never trained"]["adapter-poet"].endswith("all of its 8 B matrices are zero")
    never = sessions["never trained"].causes[0]
    assert {one.id: one.verdict for one in never.hypotheses}["never-trained"] is Verdict.CONFIRMED


def test_a_model_without_a_template_is_well_and_the_chat_is_left_open(sessions: dict[str, Session]) -> None:
    session = sessions["no template"]
    assert session.verdict == "healthy", session.checks
    assert checks(session)["chat"].reason == "the model has no chat template"


def test_a_fix_is_proved_by_all_of_it(sessions: dict[str, Session]) -> None:
    session = sessions["too small"]
    assert session.verdict == "verified", (session.checks, session.notes)
    assert proved(session.checks) == Proved(Outcome.PASS)
    told = str(checks(session)["load-test"].measured)
    assert "answered" in told
    assert "failed" not in told
    assert verdict_words(session) == "verified; proved by a warm load, not by a cold one"
