"""What a log prints of its own launch: arguments, configuration, messages; beside a launch that was given."""

from __future__ import annotations

from typing import Any

import pytest

from engine_probe.command_line import parse_command
from engine_probe.facts import Known, Unknown
from engine_probe.logs.records import read_text
from playbooks.conditions import Unset
from playbooks.launch_in_log import items_of, launch_printed
from tests.test_diagnosis import BANNER, COVER, ENGINE, diagnosed, playbook, traceback

ARGS = "(APIServer pid=1) INFO 11-29 10:00:00 [utils.py:253] non-default args: "
FEW = ARGS + "{'model_tag': 'acme/small', 'model': 'acme/small', 'max_model_len': 4096, 'enforce_eager': True}\n"
ALL = (
    "INFO 11-29 10:00:00 api_server.py:712] args: Namespace(model='acme/small', port=8000, tensor_parallel_size=3, "
    "quantization=None, gpu_memory_utilization=0.9, max_model_len=8192, enable_lora=False, dtype='auto')\n"
)
HEADS = "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (3)."
FAILED = ENGINE + traceback(HEADS) + COVER


def printed(log: str) -> dict[str, Any]:
    return {name: fact.value for name, fact in launch_printed(read_text([log]), "vllm.log").facts.items()}


def test_the_arguments_that_differ_are_those_of_the_launch() -> None:
    assert printed(FEW) == {
        "launch.model_tag": "acme/small",
        "launch.model": "acme/small",
        "launch.max_model_len": 4096,
        "launch.enforce_eager": True,
    }


def test_of_all_arguments_those_at_their_default_were_not_given() -> None:
    found = printed(ALL)
    assert found == {"launch.model": "acme/small", "launch.tensor_parallel_size": 3, "launch.max_model_len": 8192}


@pytest.mark.parametrize(
    ("log", "name", "value"),
    [
        (ENGINE.replace("speculative_config=None", "x={'a': 1, 'tensor_parallel_size': 9}, tensor_parallel_size=4"),
         "tensor_parallel_size", 4),
        (traceback(HEADS), "tensor_parallel_size", 3),
        (traceback("ValueError: User-specified max_model_len (8192) is greater than the derived one (x=4096)"),
         "max_model_len", 8192),
    ],
)  # fmt: skip
def test_messages_tell_values_too(log: str, name: str, value: int) -> None:
    assert printed(log) == {f"launch.{name}": value}


def test_values_are_read_whole() -> None:
    words = "'a': 'x, y', 'b': [Path(name='sql', path='/x')], 'c': {'d': 1, 'e': 2}, 'f': \"it's\", 'g': None"
    assert list(items_of(words)) == [
        ("a", "x, y"), ("b", "[Path(name='sql', path='/x')]"), ("c", {"d": 1, "e": 2}), ("f", "it's"), ("g", None),
    ]  # fmt: skip
    assert printed(ARGS + "{'lora_modules': [LoRAModulePath(name='sql', path='/x')]}\n") == {
        "launch.lora_modules": "sql"
    }
    assert printed(ARGS + "{'model': 'acme/small', 'max_mod\n") == {}


def looked_up(log: str, name: str, launch: str | None = None) -> object:
    found = diagnosed(log, playbook("heads", {"log": "attention heads"}), launch=launch)
    answer = found.causes[0].lookup(name)
    return answer.value if isinstance(answer, Known) else type(answer)


def test_without_a_launch_the_log_tells_it() -> None:
    assert looked_up(BANNER + FEW + FAILED, "launch.max_model_len") == 4096
    assert looked_up(BANNER + FEW + FAILED, "launch.quantization") is Unset
    assert looked_up(BANNER + FEW + FAILED, "launch.env.HF_TOKEN") is Unknown
    assert looked_up(BANNER + FAILED, "launch.max_model_len") is Unknown
    assert looked_up(BANNER + FAILED, "launch.tensor_parallel_size") == 3


def test_what_the_launch_lacks_by_a_typo_the_log_has() -> None:
    launch = "vllm serve acme/small --max-modle-len 4096"
    assert looked_up(BANNER + FEW + FAILED, "launch.max_model_len", launch) == 4096
    assert looked_up(BANNER + FEW + FAILED, "launch.quantization", launch + " --quantization awq") == "awq"


def test_a_contradiction_is_said_and_the_log_counts() -> None:
    launch = "vllm serve acme/small --max-model-len 2048 --tensor-parallel-size 3"
    assert looked_up(BANNER + FEW + FAILED, "launch.max_model_len", launch) == 4096
    notes = diagnosed(BANNER + FEW + FAILED, launch=launch).notes
    assert notes == ("the launch says max-model-len 2,048, the log 4,096 (vllm.log:2): what the log says is used",)


@pytest.mark.parametrize("length", ["4096", "4K"])
def test_the_same_in_other_words_is_no_contradiction(length: str) -> None:
    launch = parse_command(f"vllm serve acme/small --max-model-len {length} --enforce-eager")
    found = launch_printed(read_text([FEW]), "vllm.log")
    assert list(found.contradicting(launch)) == []
