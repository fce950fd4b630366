"""Playbooks of the second half of the family configuration on logs of their own making, and what they compute.

Formats are those of vLLM's releases: prefixes of processes, records of several lines, containers in front.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine_probe.command_line import parse_command
from engine_probe.facts import Fact, Known, Unknown, Value
from engine_probe.launch import Launch
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from playbooks.diagnosis import Given, diagnose
from playbooks.evidence import Evidence
from playbooks.facts import lookup_for
from playbooks.library import load_library

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playbooks.library import Loaded

SERVE = "vllm serve acme/m-7b"
_LONGEST_NAME = 60


@pytest.fixture(scope="module")
def library() -> tuple[Loaded, ...]:
    return load_library()


def causes(library: tuple[Loaded, ...], log: str, launch: str | None = SERVE) -> list[str]:
    given = Given("engine.log", Evidence(None if launch is None else parse_command(launch)))
    found = diagnose(read_text([log]), library, read_wrappers(), given)
    return [one.cause.id for one in found.causes]


def raised(text: str, *frames: tuple[str, str], prefix: str = "") -> str:
    """A traceback of `frames` (file under site-packages, function), each line after `prefix`."""
    lines = ["Traceback (most recent call last):"]
    for file, function in frames:
        lines += [f'  File "/opt/venv/lib/python3.12/site-packages/{file}", line 7, in {function}', "    raise"]
    return "\n".join(prefix + line for line in [*lines, *text.split("\n")]) + "\n"


def short(value: str) -> str:
    """The name of a case: a whole log is none."""
    return value if len(value) <= _LONGEST_NAME else "log"


ARGUMENTS = ("vllm/engine/arg_utils.py", "create_engine_config")
PYDANTIC = ("pydantic/_internal/_dataclasses.py", "__init__")
API_SERVER = "(APIServer pid=2211) "


def refused(config: str, text: str, prefix: str = API_SERVER) -> str:
    """A check of vLLM inside pydantic's message."""
    whole = (
        f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {config}\n"
        f"  Value error, {text} [type=value_error, input_value=ArgsKwargs((), {{}}), input_type=ArgsKwargs]\n"
        "    For further information visit https://errors.pydantic.dev/2.11/v/value_error"
    )
    return raised(whole, ARGUMENTS, PYDANTIC, prefix=prefix)


def served(version: str, line: str = "") -> str:
    """A load that came up, in the format of its release."""
    bracket = not version.startswith(("0.5", "0.6", "0.7"))
    engine = "[core.py:114]" if bracket else "llm_engine.py:184]"
    server = "[api_server.py:1100]" if bracket else "api_server.py:440]"
    name = "a V1 LLM engine" if bracket else "an LLM engine"
    return (
        f"INFO 03-02 10:11:11 {server} vLLM API server version {version}\n"
        f"INFO 03-02 10:11:12 {engine} Initializing {name} (v{version}) with config: model='acme/m-7b'\n"
        "INFO:     Started server process [41]\n"
        "INFO:     Waiting for application startup.\n"
        "INFO:     Application startup complete.\n"
        "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)\n"
        '127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200\n'
    ) + line


LENGTH = (
    "User-specified max_model_len (65536) is greater than the derived max_model_len "
    "(max_position_embeddings=32768{dot} or model_max_length=None in model's config.json). "
)
OVERRIDE = "To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
BOOTSTRAP = (
    "RuntimeError: \n"
    "        An attempt has been made to start a new process before the\n"
    "        current process has finished its bootstrapping phase.\n"
    "\n"
    "        This probably means that you are not using fork to start your\n"
    "        child processes and you have forgotten to use the proper idiom\n"
    "        in the main module:\n"
)


def engine_dies(text: str, *frames: tuple[str, str]) -> str:
    """The busy loop of 0.11 ends by `text`."""
    record = "(EngineCore_DP0 pid=77) ERROR 03-02 10:15:00 [core.py:710] "
    loop = (("vllm/v1/engine/core.py", "run_engine_core"), ("vllm/v1/engine/core.py", "run_busy_loop"))
    return (
        record
        + "EngineCore encountered a fatal error.\n"
        + raised(text, *loop, *frames, prefix=record)
        + "(APIServer pid=41) ERROR 03-02 10:15:00 [async_llm.py:480] AsyncLLM output_handler failed.\n"
        + raised(
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for "
            "the root cause.",
            ("vllm/v1/engine/async_llm.py", "output_handler"),
            prefix="(APIServer pid=41) ERROR 03-02 10:15:00 [async_llm.py:480] ",
        )
    )


@pytest.mark.parametrize(
    ("wanted", "log"),
    ids=short,
    argvalues=[
        ("max-model-len-above-model-limit", refused("ModelConfig", LENGTH.format(dot=".0") + OVERRIDE + ".")),
        (
            "max-model-len-above-model-limit",
            "2026-03-02T10:11:12.1Z "
            + raised(
                "ValueError: " + LENGTH.format(dot="") + "This may lead to incorrect model outputs. " + OVERRIDE,
                ("vllm/config.py", "_get_and_verify_max_len"),
                prefix="vllm-0  | ",
            ),
        ),
        (
            "missing-main-guard",
            raised(BOOTSTRAP, ("multiprocessing/spawn.py", "_check_not_importing_main"))
            + "ERROR 01-15 11:16:12 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 41 died\n",
        ),
        (
            "missing-main-guard",
            raised(BOOTSTRAP, ("multiprocessing/spawn.py", "_check_not_importing_main"))
            + raised(
                "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
                ("vllm/v1/engine/utils.py", "wait_for_engine_startup"),
            ),
        ),
        (
            "reasoning-parser-unknown",
            raised("KeyError: \"Reasoning parser 'glm99' not found. Available parsers: qwen3\""),
        ),
        (
            "reasoning-parser-unknown",
            "usage: vllm serve [model_tag] [options]\n"
            "vllm serve: error: argument --reasoning-parser: invalid choice: 'glm45' (choose from qwen3)\n",
        ),
        (
            "tool-parser-unknown",
            raised(
                "KeyError: 'invalid tool call parser: glm99 (chose from { hermes,llama3_json,mistral })'",
                ("vllm/entrypoints/openai/api_server.py", "run_server"),
                prefix=API_SERVER,
            ),
        ),
        (
            "tool-parser-unknown",
            "engine-1  | usage: vllm serve <model_tag> [options]\n"
            "engine-1  | vllm: error: argument --tool-call-parser: invalid choice: 'pythonic' (choose from 'a')\n",
        ),
        ("tool-parser-required", raised("TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser")),
        ("sleep-mode-unsupported", refused("ModelConfig", "Sleep mode is not supported on current platform.")),
        ("sleep-mode-unsupported", raised("ValueError: Sleep mode is only supported on CUDA devices.", ARGUMENTS)),
        (
            "spec-num-tokens-missing",
            refused(
                "SpeculativeConfig", "A speculative model was provided, but `num_speculative_tokens` was not provided"
            ),
        ),
        (
            "spec-num-tokens-missing",
            raised(
                "ValueError: num_speculative_tokens must be provided with speculative_model unless the draft model "
                "config contains an n_predict parameter.",
                ("vllm/config.py", "maybe_create_spec_config"),
            ),
        ),
        (
            "spec-config-invalid",
            refused("SpeculativeConfig", "num_speculative_tokens was provided but without speculative model."),
        ),
        (
            "spec-config-invalid",
            raised(
                "ValueError: Speculative decoding and chunked prefill are currently mutually exclusive "
                "(enable_chunked_prefill=True).",
                ("vllm/config.py", "maybe_create_spec_config"),
            ),
        ),
        (
            "spec-config-invalid",
            raised(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n"
                "num_spec_tokens\n"
                "  Unexpected keyword argument [type=unexpected_keyword_argument, input_value=3, input_type=int]",
                ARGUMENTS,
            ),
        ),
        (
            # a plain model named as the heads of a method
            "spec-config-invalid",
            "(Worker pid=8) ERROR 11-29 22:36:34 [multiproc_executor.py:953] WorkerProc failed to start.\n"
            + raised(
                "ValueError: Duplicate layer name: model.layers.0.self_attn.attn",
                ("vllm/v1/worker/gpu_model_runner.py", "load_model"),
                ("vllm/v1/spec_decode/medusa.py", "load_model"),
                ("vllm/model_executor/layers/attention.py", "__init__"),
                prefix="(Worker pid=8) ERROR 11-29 22:36:34 [multiproc_executor.py:953] ",
            ),
        ),
        (
            "spec-draft-vocab-mismatch",
            refused(
                "SpeculativeConfig",
                "Target and draft model should have the same vocabulary size. Target model vocab_size=152064. "
                "Draft model vocab_size=151936. Using models with different tokenizers can cause out-of-bounds errors.",
            ),
        ),
        (
            "spec-draft-vocab-mismatch",
            "INFO 07-25 19:58:30 model_runner.py:890] Loading model weights took 0.9276 GB\n"
            + raised(
                "AssertionError",
                ("vllm/spec_decode/spec_decode_worker.py", "init_device"),
                ("vllm/spec_decode/spec_decode_worker.py", "_vocab_size"),
                prefix="[rank0]: ",
            ),
        ),
        (
            "runner-task-mismatch",
            refused("ModelConfig", "This model does not support `--runner pooling`. You can pass `--convert embed`."),
        ),
        (
            "runner-task-mismatch",
            raised(
                "ValueError: This model does not support the 'embed' task. Supported tasks: {'generate'}",
                ("vllm/config.py", "_resolve_task"),
            ),
        ),
        (
            "v1-engine-unsupported-feature",
            raised(
                "NotImplementedError: VLLM_USE_V1=1 is not supported with --kv-cache-dtype.",
                ("vllm/engine/arg_utils.py", "_raise_or_fallback"),
            ),
        ),
        (
            "request-crashes-engine",
            served("0.11.2", engine_dies("AssertionError", ("vllm/v1/core/sched/scheduler.py", "schedule"))),
        ),
        (
            "request-crashes-engine",
            served(
                "0.11.2",
                engine_dies(
                    "IndexError: list index out of range",
                    ("vllm/v1/engine/core.py", "_process_engine_step"),
                    ("vllm/v1/worker/gpu_model_runner.py", "execute_model"),
                    ("vllm/v1/sample/logits_processor.py", "apply"),
                ),
            ),
        ),
        (
            # the last lines only
            "request-crashes-engine",
            engine_dies(
                "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'",
                ("vllm/v1/engine/core.py", "_process_engine_step"),
                ("vllm/v1/engine/core.py", "step"),
                ("vllm/v1/worker/gpu_model_runner.py", "execute_model"),
            ),
        ),
        (
            # a worker of two says it first; the engine only repeats it
            "request-crashes-engine",
            served("0.11.2")
            + "(Worker_TP1 pid=9) ERROR 03-02 10:15:00 [multiproc_executor.py:671] WorkerProc hit an exception.\n"
            + raised(
                "IndexError: list index out of range",
                ("vllm/v1/executor/multiproc_executor.py", "worker_busy_loop"),
                ("vllm/v1/worker/gpu_worker.py", "execute_model"),
                prefix="(Worker_TP1 pid=9) ERROR 03-02 10:15:00 [multiproc_executor.py:671] ",
            )
            + engine_dies(
                "RuntimeError: Worker failed with error 'list index out of range', please check the stack trace above "
                "for the root cause",
                ("vllm/v1/executor/multiproc_executor.py", "get_response"),
            ),
        ),
        (
            # 0.7: the engine core has neither a prefix nor a message of its own
            "request-crashes-engine",
            served("0.7.3")
            + "ERROR 03-02 10:15:00 core.py:291] EngineCore hit an exception: Traceback (most recent call last):\n"
            + raised(
                "KeyError: 'cmpl-1'",
                ("vllm/v1/engine/core.py", "run_engine_core"),
                ("vllm/v1/engine/core.py", "run_busy_loop"),
                ("vllm/v1/engine/core.py", "step"),
                ("vllm/v1/worker/gpu_model_runner.py", "_prepare_inputs"),
                prefix="ERROR 03-02 10:15:00 core.py:291] ",
            )
            + "CRITICAL 03-02 10:15:00 core_client.py:191] Got fatal signal from worker processes, shutting down.\n",
        ),
        (
            "multi-stage-config-missing",
            "(EngineCore pid=5) ERROR 01-26 13:35:40 [core.py:1006] EngineCore failed to start.\n"
            + raised(
                "ValueError: There is no module or parameter named 'code2wav' in Qwen2ForCausalLM",
                ("vllm/model_executor/models/utils.py", "_load_module"),
                prefix="(EngineCore pid=5) ERROR 01-26 13:35:40 [core.py:1006] ",
            ),
        ),
    ],
)
def test_causes_of_logs(library: tuple[Loaded, ...], wanted: str, log: str) -> None:
    assert causes(library, log)[:1] == [wanted]


@pytest.mark.parametrize(
    ("unwanted", "log"),
    ids=short,
    argvalues=[
        # the limit was overridden: a warning of a load that comes up
        (
            "max-model-len-above-model-limit",
            served("0.11.2", f"WARNING 03-02 10:11:13 [model.py:1] {LENGTH.format(dot='')}\n"),
        ),
        ("spec-config-invalid", refused("SpeculativeConfig", "Model architectures ['Foo'] are not supported for now.")),
        (
            "spec-config-invalid",
            refused("SpeculativeConfig", "num_speculative_tokens must be provided with speculative model unless"),
        ),
        ("reasoning-parser-unknown", raised("KeyError: 'invalid tool call parser: x (chose from { hermes })'")),
        ("tool-parser-unknown", raised("KeyError: 'invalid reasoning parser: x (chose from { qwen3 })'")),
        # a warning of good loads, before another failure
        (
            "spec-config-invalid",
            "WARNING 03-02 10:11:13 [vllm.py:1500] max_num_scheduled_tokens is set to 2048 based on the speculative "
            "decoding settings. This may lead to suboptimal performance.\n"
            + raised("ValueError: something else", ("vllm/v1/worker/gpu_worker.py", "load_model")),
        ),
        # the device died, not by a request's fault
        (
            "request-crashes-engine",
            served("0.11.2", engine_dies("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")),
        ),
        # a start that fails has no requests yet
        (
            "request-crashes-engine",
            "(EngineCore_DP0 pid=7) ERROR 03-02 10:15:00 [core.py:710] EngineCore failed to start.\n"
            + raised(
                "KeyError: 'x'", ("vllm/v1/engine/core.py", "run_engine_core"), ("vllm/v1/engine/core.py", "__init__")
            ),
        ),
        # refused with status 400, and the engine lives
        (
            "request-crashes-engine",
            served(
                "0.11.2", raised("ValueError: Token id 9 is out of vocabulary", ("vllm/v1/engine/processor.py", "x"))
            ),
        ),
        (
            "ssl-file-missing",
            raised("FileNotFoundError: [Errno 2] No such file or directory: '/m'", ("vllm/config.py", "load")),
        ),
        (
            "v1-engine-unsupported-feature",
            "WARNING 05-01 10:00:00 [arg_utils.py:1745] --quantization bitsandbytes is not supported by the V1 Engine. "
            "Falling back to V0.\n",
        ),
    ],
)
def test_not_the_causes_of_logs(library: tuple[Loaded, ...], unwanted: str, log: str) -> None:
    assert unwanted not in causes(library, log)


BIND = "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use\n"


def test_the_launch_decides_whether_vllm_port_is_at_fault(library: tuple[Loaded, ...]) -> None:
    same = causes(library, served("0.5.0") + BIND, f"VLLM_PORT=8000 {SERVE}")
    other = causes(library, served("0.5.0") + BIND, f"VLLM_PORT=9000 {SERVE}")
    assert "vllm-port-env-same-as-api-port" in same
    assert "vllm-port-env-same-as-api-port" not in other


def test_files_of_tls_are_known_by_the_frames(library: tuple[Loaded, ...]) -> None:
    frames = (("uvicorn/config.py", "load"), ("uvicorn/config.py", "create_ssl_context"))
    log = raised("FileNotFoundError: [Errno 2] No such file or directory", *frames, prefix=API_SERVER)
    assert causes(library, log)[:1] == ["ssl-file-missing"]
    mismatch = "ssl.SSLError: [X509: KEY_VALUES_MISMATCH] key values mismatch (_ssl.c:4149)"
    assert causes(library, raised(mismatch, *frames))[:1] == ["ssl-file-missing"]


def fact(name: str, captured: Mapping[str, Value], launch: Launch | None = None) -> Value | str:
    """The value, or the reason why it is unknown."""
    facts: dict[str, Fact] = {key: Known(value, "parsed", "log") for key, value in captured.items()}
    answer = lookup_for(launch, facts)(name)
    return answer.value if isinstance(answer, Known) else answer.reason if isinstance(answer, Unknown) else "unset"


def test_the_longest_length_is_the_larger_of_both() -> None:
    assert fact("config.longest_model_len", {"model_len": 2048}) == 2048
    assert fact("config.longest_model_len", {"model_len": 2048, "tokenizer_len": 32768}) == 32768
    assert "model_len" in str(fact("config.longest_model_len", {}))


def test_the_nearest_of_the_listed_names() -> None:
    listed = {"parser": "qwen33", "allowed": "'deepseek_r1', 'qwen3'"}
    assert fact("config.nearest_choice", listed) == "qwen3"
    assert fact("config.nearest_choice", {"parser": "zzzz", "allowed": "hermes,mistral"}) == (
        "no name of this release looks like zzzz"
    )
    assert fact("config.nearest_choice", {"parser": "zzzz"}) == "no message says which names there are"


def test_the_usual_tool_parser_of_a_model() -> None:
    assert fact("config.tool_parser_of_model", {"model.type": "llama"}) == "llama3_json"
    assert fact("config.tool_parser_of_model", {"model.type": "mamba"}) == (
        "no usual parser is known for model_type mamba"
    )


def test_the_missing_number_is_added_to_the_speculative_config() -> None:
    name = "config.speculative_config_with_tokens"
    launch = Launch("m", "/m", {"speculative-config": '{"method": "ngram"}'})
    assert fact(name, {}, launch) == '{"method": "ngram", "num_speculative_tokens": 3}'
    assert "no JSON" in str(fact(name, {}, Launch("m", "/m", {"speculative-config": "{method"})))
    assert fact(name, {}, Launch("m", "/m", {"speculative-config": "[1]"})) == (
        "speculative-config of the launch is no JSON object"
    )
    assert fact(name, {}, Launch("m", "/m", {})) == "the launch has no speculative-config"


def test_speculation_without_a_draft_is_json_that_vllm_takes() -> None:
    text = fact("config.prompt_lookup_speculation", {})
    assert json.loads(str(text)) == {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}


def test_vllm_port_is_compared_with_the_port_of_the_api() -> None:
    name = "config.vllm_port_is_api_port"
    assert fact(name, {}, Launch("m", "/m", {}, {"VLLM_PORT": "8000"})) is True
    assert fact(name, {}, Launch("m", "/m", {"port": 8500}, {"VLLM_PORT": "8000"})) is False
    assert fact(name, {}, Launch("m", "/m", {})) == "unset"


def test_a_taken_port_is_the_apis_before_it_is_vllm_ports(library: tuple[Loaded, ...]) -> None:
    """Without the launch nobody knows VLLM_PORT: it may be asked for, and is not the first cause."""
    assert causes(library, "OSError: [Errno 98] Address already in use\n")[0] == "port-in-use"
