"""The log of a second model, with the deployment and the GPUs' state: what the models do to one another comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.launch import Deployment, Launch
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from playbooks.diagnosis import Given, diagnose
from playbooks.diagnosis_json import as_object
from playbooks.evidence import Evidence
from playbooks.evidence_host import HostState
from playbooks.library import load_library
from tests.test_diagnosis import traceback

if TYPE_CHECKING:
    from playbooks.library import Loaded

FREE = (
    "ValueError: Free memory on device ({free}/79.25 GiB) on startup is less than desired GPU memory utilization (0.9, "
    "71.33 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 270.00 MiB. GPU 0 has a total capacity of 79.25 GiB "
    "of which 210.00 MiB is free. Process 4200 has 71.40 GiB memory in use. Including non-PyTorch memory, this process "
    "has 7.62 GiB memory in use. Of the allocated memory 7.10 GiB is allocated by PyTorch, and 20.00 MiB is reserved "
    "by PyTorch but unallocated."
)
CHAT = Launch("chat-70b", "/models/Llama-3-70B", {"tensor-parallel-size": 4}, gpus=(0, 1, 2, 3))
CODE = Launch("code-13b", "/models/CodeLlama-13b", {"max-model-len": 4096})
QWEN = Launch("qwen", "/models/Qwen2-72B", {"tensor-parallel-size": 8})
LLAMA = Launch("llama", "/models/Llama-3-70B", {"tensor-parallel-size": 8})


@pytest.fixture(scope="module")
def library() -> tuple[Loaded, ...]:
    return load_library()


def log(model: str, error: str, version: str) -> str:
    banner = f"(APIServer pid=1) INFO 11-29 10:00:00 [utils.py:233] vLLM API server version {version}\n"
    engine = (
        f"(EngineCore_DP0 pid=2) INFO 11-29 10:00:01 [core.py:77] Initializing a V1 LLM engine (v{version}) with "
        f"config: model='{model}', speculative_config=None\n"
    )
    function = "load_model" if "OutOfMemory" in error else "init_device"
    return banner + engine + traceback(error, function=function)


def state(holding: range) -> HostState:
    """Eight cards, of which some are held by the first model's workers."""
    gpus = [
        {"index": number, "name": "A100", "total_gib": 79.25, "used_gib": 71.9, "free_gib": 7.35,
         "processes": [{"pid": 4200 + number, "name": "VLLM::Worker", "used_gib": 71.4}]}
        if number in holding
        else {"index": number, "name": "A100", "total_gib": 79.25, "used_gib": 0.5, "free_gib": 78.7, "processes": []}
        for number in range(8)
    ]  # fmt: skip
    servers = [{"name": "first", "pid": 4100, "processes": [{"pid": 4200 + number} for number in holding]}]
    return HostState({"schema": 1, "gpus": gpus, "servers": servers}, "host.json")


def answer(library: tuple[Loaded, ...], text: str, models: tuple[Launch, ...], holding: range) -> dict[str, Any]:
    evidence = Evidence(deployment=Deployment(models=models), host_state=state(holding))
    return as_object(diagnose(read_text([text]), library, read_wrappers(), Given("second.log", evidence)))


@pytest.mark.parametrize("error", [FREE.format(free="7.35"), OOM])
def test_a_model_on_another_ones_card_is_moved_to_a_free_one(library: tuple[Loaded, ...], error: str) -> None:
    found = answer(library, log(CODE.model, error, "0.11.2"), (CHAT, CODE), range(4))
    cause = found["causes"][0]
    assert cause["id"] == "co-located-models-budgets-exceed-gpu"
    assert (cause["fixes"][0]["launch"], cause["fixes"][0]["set"]) == ("code-13b", {"gpus": 4})
    assert cause["confidence"] >= max(one["confidence"] for one in found["causes"][1:])


@pytest.mark.parametrize("error", [FREE.format(free="7.35"), OOM])
def test_two_models_on_all_cards_get_a_share_each_in_steps(library: tuple[Loaded, ...], error: str) -> None:
    found = answer(library, log(LLAMA.model, error, "0.11.2"), (QWEN, LLAMA), range(8))
    cause = found["causes"][0]
    assert cause["id"] == "co-located-models-budgets-exceed-gpu"
    steps = [(step["launch"], step["set"]) for step in cause["fixes"][0]["steps"]]
    assert steps == [
        ("qwen", {"args.gpu-memory-utilization": 0.47}),
        ("llama", {"args.gpu-memory-utilization": 0.47}),
    ]


def test_where_a_release_counts_the_neighbours_too_the_second_share_covers_them(library: tuple[Loaded, ...]) -> None:
    text = log(LLAMA.model, OOM, "0.8.5")
    (fix,) = [
        fix
        for fix in answer(library, text, (QWEN, LLAMA), range(8))["causes"][0]["fixes"]
        if fix["id"] == "share-the-card-alike"
    ]
    assert [step["set"]["args.gpu-memory-utilization"] for step in fix["steps"]] == [0.47, 0.94]


def test_models_on_cards_of_their_own_are_not_blamed(library: tuple[Loaded, ...]) -> None:
    apart = (CHAT, Launch("code-13b", "/models/CodeLlama-13b", gpus=(4,)))
    text = log(CODE.model, FREE.format(free="7.35"), "0.11.2")
    assert answer(library, text, apart, range(5))["causes"][0]["id"] != "co-located-models-budgets-exceed-gpu"


@pytest.mark.parametrize(
    ("message", "family"),
    [
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity; 74.32 GiB already "
            "allocated; 4.83 GiB free; 78.90 GiB reserved in total by PyTorch)",
            "memory",
        ),
        ("ModuleNotFoundError: No module named 'flash_attn'", "dependency"),
        ("ModuleNotFoundError", "dependency"),
        ("OSError: libcudart.so.12: cannot open shared object file: No such file or directory", "dependency"),
        ("safetensors_rust.SafetensorError", "format"),
        ("safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization", "format"),
        ("ValueError: Unsupported quantization", "quantization"),
        ("ValueError: LoRA target module not found in base model", "lora"),
    ],
)
def test_a_message_alone_leads_to_its_class(library: tuple[Loaded, ...], message: str, family: str) -> None:
    found = diagnose(read_text([message + "\n"]), library, read_wrappers(), Given("a.log"))
    assert [one.cause.family for one in found.causes[:1]] == [family]
