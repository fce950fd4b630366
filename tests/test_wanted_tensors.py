"""What a model's class wants of its checkpoint, and what its adapter and its files say beforehand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.launch import Deployment, Launch
from engine_probe.model_files.adapters import doubt_about
from engine_probe.model_files.wanted import compare
from playbooks.files_seen import look_at_files
from playbooks.lab.makers import adapter, tiny_llama
from playbooks.lab.safetensors_file import Tensor, read_tensors, write_tensors
from playbooks.lab.tiny_model import TinyLlama

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.effects import FilesSeen

LLAMA = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2}


def names_of(folder: Path) -> dict[str, tuple[int, ...]]:
    return {name: one.shape for name, one in read_tensors(folder / "model.safetensors").items()}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tiny_llama(folder, num_hidden_layers=2)
    return folder


def test_a_whole_checkpoint_lacks_nothing(base: Path) -> None:
    found = compare(LLAMA, names_of(base))
    assert (found.missing, found.unknown, found.wanted) == ((), None, 2 * 9 + 3)


@pytest.mark.parametrize(
    "name", ["model.norm.weight", "lm_head.weight", "model.embed_tokens.weight", "model.layers.1.mlp.up_proj.weight"]
)
def test_a_tensor_that_is_not_there_is_named(base: Path, name: str) -> None:
    names = [one for one in names_of(base) if one != name]
    assert compare(LLAMA, names).missing == (name,)


def test_a_head_that_is_tied_is_not_wanted(base: Path) -> None:
    names = [name for name in names_of(base) if name != "lm_head.weight"]
    assert compare({**LLAMA, "tie_word_embeddings": True}, names).missing == ()
    assert compare({**LLAMA, "architectures": ["Gemma2ForCausalLM"]}, names).missing[0].startswith("model.layers.0.")
    assert "lm_head.weight" not in compare({**LLAMA, "architectures": ["Gemma2ForCausalLM"]}, names).missing


def test_another_class_wants_its_own_biases(base: Path) -> None:
    found = compare(LLAMA, names_of(base), "Qwen2ForCausalLM")
    assert found.missing[:3] == tuple(f"model.layers.0.self_attn.{one}_proj.bias" for one in "qkv")


def test_quantized_tensors_fill_the_place_of_plain_ones(base: Path) -> None:
    plain = [name for name in names_of(base) if "up_proj" not in name]
    quantized = [f"model.layers.{layer}.mlp.up_proj.{one}" for layer in (0, 1) for one in ("qweight", "scales")]
    deeper = [f"model.layers.{layer}.mlp.up_proj.weight.absmax" for layer in (0, 1)]
    assert compare(LLAMA, [*plain, *quantized]).missing == compare(LLAMA, [*plain, *deeper]).missing == ()


@pytest.mark.parametrize(
    ("config", "names", "why"),
    [
        ({**LLAMA, "architectures": ["MyForCausalLM"]}, ["model.layers.0.x.weight"], "what MyForCausalLM wants"),
        ({}, ["model.layers.0.x.weight"], "a model without architectures"),
        ({**LLAMA, "num_hidden_layers": "two"}, ["model.layers.0.x.weight"], "how many layers"),
        ({**LLAMA, "num_hidden_layers": 10**9}, ["model.layers.0.x.weight"], "how many layers"),
        (LLAMA, ["transformer.h.0.attn.weight"], "the names are of another kind"),
    ],
)
def test_what_is_not_known_is_no_verdict(config: dict[str, Any], names: list[str], why: str) -> None:
    found = compare(config, names)
    assert found.missing == ()
    assert why in str(found.unknown)


def rewrite(file: Path, find: str, put: str = "", *, zero: str = "") -> None:
    tensors = {
        name.replace(find, put) if find else name: (
            Tensor(one.dtype, one.shape, bytes(len(one.data))) if zero and zero in name else one
        )
        for name, one in read_tensors(file).items()
    }
    write_tensors(file, tensors)


def test_a_good_adapter_raises_no_doubt(base: Path, tmp_path: Path) -> None:
    adapter(tmp_path, TinyLlama(num_hidden_layers=2))
    assert doubt_about(tmp_path, names_of(base)) is None
    rewrite(tmp_path / "adapter_model.safetensors", "model.model.layers", "model.model.language_model.layers")
    assert doubt_about(tmp_path, names_of(base)) is None  # a wrapper's prefix may be right: a request decides


def test_doubts_about_an_adapter(base: Path, tmp_path: Path) -> None:
    def doubt(folder: str, find: str = "", put: str = "", zero: str = "", **shape: int) -> tuple[str, str]:
        adapter(tmp_path / folder, TinyLlama(num_hidden_layers=2), **shape)  # type: ignore[arg-type]
        rewrite(tmp_path / folder / "adapter_model.safetensors", find, put, zero=zero)
        found = doubt_about(tmp_path / folder, names_of(base))
        assert found is not None
        return found.kind, found.text

    assert doubt("zero", zero="lora_B") == ("zero", "all of its 4 B matrices are zero")
    kind, text = doubt("foreign", ".layers.", ".blocks.")
    assert (kind, text[:40]) == ("names", "none of its 4 modules is one of this mod")
    kind, text = doubt("wide", hidden_size=256)
    assert kind == "shapes"
    assert text == "layers.0.self_attn.q_proj of it is made for 4,096 × 256, and the model has 4,096 × 128"


@pytest.mark.parametrize(
    "content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\x08" + b"\0" * 7 + b"not json"]
)
def test_an_adapter_that_cannot_be_read_tells_nothing(tmp_path: Path, content: bytes) -> None:
    assert doubt_about(tmp_path, {}) is None
    (tmp_path / "adapter_model.safetensors").write_bytes(content)
    assert doubt_about(tmp_path, {}) is None


def seen(folder: Path, is_local: bool = True, **args: Any) -> FilesSeen:
    launch = Launch("tiny", str(folder), args={name.replace("_", "-"): value for name, value in args.items()})
    return look_at_files(launch, Deployment((launch,)), is_local=is_local)


def set_keys(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **values}), encoding="utf-8")


def test_a_look_at_a_model_that_is_well(base: Path) -> None:
    found = seen(base)
    assert (found.why_not, found.tensors, found.missing_count, found.not_finite_count) == (None, 21, 0, 0)
    assert (found.template, found.pools, found.unknown_class) == ("given", False, None)


def test_files_of_another_host_are_not_looked_at(base: Path, tmp_path: Path) -> None:
    assert "runs elsewhere" in str(seen(base, is_local=False).why_not)
    assert "there is no folder" in str(seen(tmp_path / "nothing").why_not)


def test_where_the_chat_template_is(tmp_path: Path) -> None:
    tiny_llama(tmp_path)
    config = tmp_path / "tokenizer_config.json"
    set_keys(config, chat_template=None)
    assert seen(tmp_path).template == "none"
    assert seen(tmp_path, chat_template="{{ x }}").template == "given"
    set_keys(config, additional_special_tokens=["<|im_start|>", {"content": "<|im_end|>"}])
    assert seen(tmp_path).template == "lost"
    (tmp_path / "chat_template.jinja").write_text("{{ x }}", encoding="utf-8")
    assert seen(tmp_path).template == "given"


@pytest.mark.parametrize(
    ("args", "architecture", "pools"),
    [
        ({}, "LlamaForCausalLM", False),
        ({}, "LlamaForSequenceClassification", True),
        ({"runner": "generate"}, "LlamaForSequenceClassification", False),
        ({"runner": "pooling"}, "LlamaForCausalLM", True),
        ({"task": "embed"}, "LlamaForCausalLM", True),
        ({"task": "generate"}, "LlamaForSequenceClassification", False),
        ({"convert": "embed"}, "LlamaForCausalLM", True),
        ({"convert": "none"}, "LlamaForCausalLM", False),
    ],
)
def test_whether_a_model_pools(tmp_path: Path, args: dict[str, Any], architecture: str, pools: bool) -> None:
    tiny_llama(tmp_path)
    set_keys(tmp_path / "config.json", architectures=[architecture])
    assert seen(tmp_path, **args).pools is pools


def test_an_override_of_the_class_counts(base: Path) -> None:
    found = seen(base, hf_overrides='{"architectures": ["Qwen2ForCausalLM"]}')
    assert found.missing_count == 2 * 3
