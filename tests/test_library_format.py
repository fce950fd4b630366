"""Playbooks of the family format on logs of their own making, and the facts they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from engine_probe.command_line import parse_command
from engine_probe.facts import Fact, Known, Unknown, Value
from engine_probe.launch import Launch
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from engine_probe.model_files.siblings import lacking
from playbooks.diagnosis import Given, diagnose
from playbooks.evidence import Evidence
from playbooks.evidence_files import file_facts
from playbooks.facts import lookup_for
from playbooks.lab.tiny_model import write_tiny_llama
from playbooks.library import load_library

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.logs.covers import Wrappers
    from playbooks.library import Loaded


def fact(name: str, known: dict[str, Value], model: str = "", **args: object) -> object:
    """The value of `name`, or the reason why it is unknown. `model` empty: the launch is not known."""
    launch = Launch("chat", model, args) if model else None  # type: ignore[arg-type]
    facts: dict[str, Fact] = {key: Known(value, "parsed", "a test") for key, value in known.items()}
    answer = lookup_for(launch, facts)(name)
    return answer.value if isinstance(answer, Known) else answer.reason if isinstance(answer, Unknown) else "unset"


@pytest.mark.parametrize(
    ("trouble", "pointers", "is_text"),
    [
        ("model.safetensors is a git-lfs pointer: its content was never downloaded", 1, True),
        ("model.safetensors is a web page, such as a login or error page, saved under this name", 0, True),
        ("model.safetensors is cut: 12 of its 128 bytes of tensors are missing", 0, False),
        ("config.json is not there", 2, True),
        ("none found", 0, False),
    ],
)
def test_text_instead_of_weights(trouble: str, pointers: int, *, is_text: bool) -> None:
    known: dict[str, Value] = {"files.trouble": trouble, "files.lfs_pointers": pointers}
    assert fact("files.are_pointers_or_pages", known) is is_text


def test_text_instead_of_weights_is_unknown_where_nobody_looked() -> None:
    assert "unknown" in str(fact("files.are_pointers_or_pages", {}))


def test_layers_in_the_files() -> None:
    more: dict[str, Value] = {"files.trouble": "the files hold 28 layers and config.json says only 24"}
    assert fact("files.layers_differ", more) is True
    assert fact("files.layers_on_disk", more) == 28
    assert fact("files.sizes_differ", more) == f"the audit stopped at another trouble: {more['files.trouble']}"
    assert fact("files.layers_differ", {"files.trouble": "none found"}) is False
    size: dict[str, Value] = {"files.trouble": "lm_head.weight is 8 × 4 and config.json makes it 9 × 4"}
    assert fact("files.sizes_differ", size) is True


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("files.found_not_finite", {"files.not_finite": 2}, True),
        ("files.found_not_finite", {"files.not_finite": 0}, False),
        ("files.found_not_finite", {}, False),
        ("files.found_tensors_missing", {"files.trouble": "a.safetensors lacks 3 tensors that i says it has"}, True),
        ("files.found_tensors_missing", {"files.missing_tensors": 1}, True),
        ("files.found_tensors_missing", {}, False),
        ("files.found_plain_integers", {"files.tensor_types": "BF16 I8"}, True),
        ("files.found_plain_integers", {"files.tensor_types": "F8_E4M3", "model.quant_method": "fp8"}, False),
        ("files.found_plain_integers", {"files.tensor_types": "BF16 I64"}, False),
        ("files.found_plain_integers", {}, False),
    ],
)
def test_what_a_look_at_the_files_found(name: str, known: dict[str, Value], *, found: bool) -> None:
    assert fact(name, known) is found


@pytest.mark.parametrize(
    ("model", "is_path", "is_gguf"),
    [
        ("/models/chat", True, False),
        ("./chat", True, False),
        ("acme/chat", False, False),
        ("models/llama/chat", True, False),
        ("/models/chat-q4_k_m.gguf", True, True),
        ("acme/chat-GGUF:Q4_K_M", False, True),
    ],
)
def test_how_the_model_is_named(model: str, *, is_path: bool, is_gguf: bool) -> None:
    assert fact("files.model_is_a_path", {}, model) is is_path
    assert fact("files.model_is_gguf", {}, model) is is_gguf


def test_another_tokenizer() -> None:
    name = "files.tokenizer_is_another"
    assert fact(name, {}, "/models/qwen", tokenizer="/models/llama") is True
    assert fact(name, {}, "/models/qwen", tokenizer="/models/qwen/") is False
    assert fact(name, {}, "/models/qwen.gguf", tokenizer="acme/qwen") is False
    assert fact(name, {}, "/models/qwen") is False
    # an AWQ version with the tokenizer of the original is no other model
    assert fact(name, {}, "/models/Qwen2-7B-AWQ", tokenizer="Qwen/Qwen2-7B") is False


def test_the_path_of_the_tokenizer() -> None:
    name = "files.tokenizer_was_refused"
    assert fact(name, {"asked_model": "/no/tokenizer"}, "/models/qwen", tokenizer="/no/tokenizer") is True
    assert fact(name, {"asked_model": "/models/qwen"}, "/models/qwen", tokenizer="/no/tokenizer") is False
    assert fact(name, {"asked_model": "/models/qwen"}, "/models/qwen") is False
    assert fact(name, {"asked_model": "/models/qwen"}) is False


def test_formats_that_read_one_kind_of_file() -> None:
    name = "files.load_format_narrows"
    assert fact(name, {}, "/models/chat", **{"load-format": "pt"}) is True
    assert fact(name, {}, "/models/chat", **{"load-format": "auto"}) is False
    assert fact(name, {}, "/models/chat") is False
    assert fact(name, {}) == "the launch is not known"


def test_names_in_a_message() -> None:
    assert fact("files.names_have_a_foreign_prefix", {"tensor": "module.model.layers.0"}) is True
    assert fact("files.names_have_a_foreign_prefix", {"tensor": "layers.0.self_attn.foo"}) is False
    assert fact("files.names_a_head", {"tensors": "'lm_head.weight'"}) is True
    assert fact("files.names_a_head", {}) == "no message names a tensor"


LAYER = (
    "self_attn.q_proj.weight", "self_attn.o_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight",
    "input_layernorm.weight",
)  # fmt: skip


def _names(layers: int, *without: str) -> list[str]:
    every = [f"model.layers.{number}.{part}" for number in range(layers) for part in LAYER]
    return [name for name in ("lm_head.weight", *every) if name not in without]


@pytest.mark.parametrize("name", ["model.layers.1.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight"])
def test_what_a_layer_lacks_and_its_neighbours_have(name: str) -> None:
    assert list(lacking(_names(2, name))) == [name]
    assert list(lacking(_names(2))) == []


def test_layers_that_were_made_so_lack_nothing() -> None:
    experts = [
        f"model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight"
        for layer in range(3, 40)
        for expert in range(4)
        for part in ("up", "down")
    ]
    dense = [name for name in _names(40) if ".mlp." not in name or int(name.split(".")[2]) < 3]
    assert list(lacking([*dense, *experts])) == []
    lost = experts.pop(9)
    assert list(lacking([*dense, *experts])) == [lost]
    shared = [f"model.layers.{number}.self_attn.o_proj.weight" for number in range(10, 16)]
    assert list(lacking(_names(40, *shared))) == []


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole model; its tests break it and mend it again."""
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "qwen")


def _rewritten(model: Path, old: bytes, new: bytes) -> None:
    """Both of one length, so that every offset stays."""
    assert len(old) == len(new)
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes().replace(old, new))


def test_facts_of_a_folder(model: Path) -> None:
    facts = file_facts(Launch("chat", str(model), {}), model)
    types, free = facts["files.tensor_types"], facts["files.free_gib"]
    assert isinstance(types, Known)
    assert types.value == "BF16"
    assert isinstance(free, Known)
    assert isinstance(facts["files.missing_tensors"], Unknown)


@pytest.fixture(scope="module")
def library() -> tuple[Loaded, ...]:
    return load_library()


@pytest.fixture(scope="module")
def covers() -> Wrappers:
    return read_wrappers()


Ids = Callable[..., list[str]]


@pytest.fixture
def ids(library: tuple[Loaded, ...], covers: Wrappers) -> Ids:
    """The causes of a log, the likeliest first."""

    def run(log: str, command: str = "") -> list[str]:
        launch = parse_command(command) if command else None
        found = diagnose(read_text([log.encode()]), library, covers, Given("engine.log", Evidence(launch)))
        return [one.cause.id for one in found.causes]

    return run


HEADER = "Error while deserializing header: "
LAYERS_LEFT = (
    "ValueError: Following weights were not initialized from checkpoint:"
    " {'model.layers.2.input_layernorm.weight', 'model.layers.2.post_attention_layernorm.weight'}"
)
REPO_ID = "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
ALONE = [
    ("safetensors_rust.SafetensorError", "safetensors-file-corrupt"),
    ("SafetensorError", "safetensors-file-corrupt"),
    (f"safetensors_rust.SafetensorError: {HEADER}MetadataIncompleteBuffer", "safetensors-file-corrupt"),
    (f"safetensors_rust.SafetensorError: {HEADER}InvalidHeaderDeserialization", "safetensors-file-corrupt"),
    (f"safetensors._safetensors_rust.SafetensorError: {HEADER}header too small", "safetensors-file-corrupt"),
    (f"safetensors._safetensors_rust.SafetensorError: {HEADER}incomplete metadata, file not fully covered",
     "safetensors-file-corrupt"),
    (f"safetensors_rust.SafetensorError: {HEADER}invalid JSON in header: EOF while parsing a value",
     "safetensors-file-corrupt"),
    (f"safetensors_rust.SafetensorError: {HEADER}HeaderTooLarge", "git-lfs-pointer"),
    (f"safetensors._safetensors_rust.SafetensorError: {HEADER}header too large", "git-lfs-pointer"),
    ("_pickle.UnpicklingError: invalid load key, 'v'.", "git-lfs-pointer"),
    ("_pickle.UnpicklingError: invalid load key, '\\xef'.", "pickle-checkpoint-refused"),
    ("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
     "pickle-checkpoint-refused"),
    ("RuntimeError: Cannot find any model weights with `/models/chat`", "weights-missing"),
    ("FileNotFoundError: Weight files referenced in index but missing: {'/m/model-00002-of-00002.safetensors'}",
     "checkpoint-shard-missing"),
    ("FileNotFoundError: No such file or directory: \"/m/model-00002-of-00004.safetensors\"",
     "checkpoint-shard-missing"),
    (f"{REPO_ID}'/models/chat'. Use `repo_type` argument if needed.", "model-path-not-found"),
    (f"{REPO_ID}'/models/chat.Q4_K_M.gguf'. Use `repo_type` argument if needed.", "gguf-file-not-recognised"),
    ("OSError: acme/chta is not a local folder and is not a valid model identifier listed on 'https://hf.co/models'",
     "model-path-not-found"),
    ("OSError: It looks like the config file at '/models/chat/config.json' is not a valid JSON file.",
     "model-config-invalid"),
    ("OSError: It looks like the config file at '/models/chat.gguf' is not a valid JSON file.",
     "gguf-file-not-recognised"),
    ("ValueError: Unrecognized model in /models/chat. Should have a `model_type` key in its config.json.",
     "model-config-invalid"),
    ("ValueError: GGUF model with architecture lumina2moe is not supported yet.", "gguf-arch-unsupported"),
    ("ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: ['X']",
     "arch-unsupported-in-this-vllm"),
    ("ValueError: Load format `gguf` is not supported", "load-format-removed"),
    ("ValueError: Load format `bitsandbytes` is not supported", "load-format-removed"),
    ("ValueError: Load format `bogus` is not supported", "argument-value-invalid"),
    ("ValueError: Couldn't instantiate the backend tokenizer from one of:", "tokenizer-missing"),
    ("ValueError: No tokenizer file found.", "tokenizer-mode-vs-files"),
    ("Exception: EOF while parsing a string at line 1 column 39", "tokenizer-file-corrupt"),
    ("ValueError: Unknown RoPE scaling type foo", "rope-scaling-type-unknown"),
    ("KeyError: 'lm_head.weight'", "checkpoint-names-unknown"),
    ("KeyError: 'layers.32.input_layernorm.weight'", "checkpoint-layer-count-mismatch"),
    ("KeyError: 'layers.0.attention.wk.weight'", "hf-and-consolidated-weights-mixed"),
    ("ValueError: There is no module or parameter named 'layers.1' in LlamaModel.", "checkpoint-layer-count-mismatch"),
    ("ValueError: There is no module or parameter named 'module' in LlamaForCausalLM.", "checkpoint-names-unknown"),
    (LAYERS_LEFT, "checkpoint-layer-count-mismatch"),
    ("AssertionError: Attempted to load weight (torch.Size([32064, 64])) into parameter (torch.Size([32000, 64]))",
     "checkpoint-shape-mismatch"),
    ("RuntimeError: start (0) + length (256) exceeds dimension size (128).", "checkpoint-shape-mismatch"),
    ("ImportError: This modeling file requires the following packages that were not found in your environment: x1.",
     "remote-code-unusable"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "cause"), ALONE)
def test_a_message_alone_in_a_file(ids: Ids, line: str, cause: str) -> None:
    assert ids(line + "\n")[:1] == [cause]


def _engine_log(error: str, *frames: str, before: str = "") -> str:
    """A V1 log of two workers, as docker compose shows it."""
    prefix = "vllm-1  | (Worker_TP1 pid=411) ERROR 03-02 10:11:13 [multiproc_executor.py:671] "
    lines = ["WorkerProc failed to start.", "Traceback (most recent call last):"]
    lines += [f'  File "/opt/venv/lib/python3.12/site-packages/{frame}' for frame in frames]
    lines += error.split("\n")
    tail = (
        "vllm-1  | (APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above."
        " Failed core proc(s): {}\n"
    )
    return before + "".join(prefix + line + "\n" for line in lines) + tail


def _server_log(error: str, *frames: str) -> str:
    """A front end that stops before any engine, as kubectl shows it."""
    prefix = "2026-03-02T10:11:13.123456789Z stderr F (APIServer pid=1) "
    lines = ["Traceback (most recent call last):"]
    lines += [f'  File "/opt/venv/lib/python3.12/site-packages/{frame}' for frame in frames]
    return "".join(prefix + line + "\n" for line in [*lines, *error.split("\n")])


LOADER = 'vllm/model_executor/model_loader/default_loader.py", line 291, in load_weights'
WEIGHTS = 'vllm/model_executor/model_loader/weight_utils.py", line 652, in safetensors_weights_iterator'
INDEX = 'vllm/model_executor/model_loader/weight_utils.py", line 520, in filter_duplicate_safetensors_files'
JSON = 'json/decoder.py", line 355, in raw_decode'
TOKENIZER = 'transformers/tokenization_utils_base.py", line 2092, in from_pretrained'
CONFIG = 'transformers/configuration_utils.py", line 750, in _get_config_dict'
VOCABULARY = 'vllm/model_executor/layers/vocab_parallel_embedding.py", line 400, in weight_loader'
LINEAR = 'vllm/model_executor/layers/linear.py", line 1391, in weight_loader'
LORA = 'vllm/lora/lora_model.py", line 180, in from_local_checkpoint'
REMOTE = 'transformers_modules/chat/modeling_chat.py", line 12, in <module>'
UNPICKLE = 'torch/serialization.py", line 1529, in load'
NO_JSON = "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
ENGINE_LINE = (
    "vllm-1  | (EngineCore_DP0 pid=300) INFO 03-02 10:11:12 [core.py:58] Initializing a V1 LLM engine (v0.11.2) with"
    " config: model='/models/chat', tokenizer='/models/chat', dtype=torch.bfloat16, load_format={format},"
    " quantization={quantization}\n"
)
NO_WEIGHTS = "RuntimeError: Cannot find any model weights with `/models/chat`"
OPERAND = (
    "_pickle.UnpicklingError: Weights only load failed. In PyTorch 2.6 we changed the default value of weights_only\n"
    "Please file an issue with the following so that we can make `weights_only=True` compatible with your use case:"
    " WeightsUnpickler error: Unsupported operand {operand}\n"
)


@pytest.mark.parametrize(
    ("log", "command", "cause"),
    [
        (_engine_log(NO_JSON, INDEX, JSON), "", "weight-index-corrupt"),
        (_server_log(NO_JSON, TOKENIZER, JSON), "", "tokenizer-file-corrupt"),
        (_server_log(NO_JSON, CONFIG, JSON), "", "model-config-invalid"),
        (_engine_log("AssertionError", LOADER, VOCABULARY), "", "checkpoint-shape-mismatch"),
        (_engine_log("AssertionError", LOADER, LINEAR), "", "checkpoint-shape-mismatch"),
        (
            _engine_log("RuntimeError: The size of tensor a (64) must match the size of tensor b (9)", LOADER, LINEAR),
            "",
            "checkpoint-shape-mismatch",
        ),
        (_engine_log(NO_WEIGHTS, LOADER), "vllm serve /models/chat", "weights-missing"),
        (_engine_log(NO_WEIGHTS, LOADER), "vllm serve /models/chat --load-format pt", "load-format-vs-files"),
        (
            _engine_log(NO_WEIGHTS, LOADER, before=ENGINE_LINE.format(format="pt", quantization="None")),
            "",
            "load-format-vs-files",
        ),
        (
            _engine_log(NO_WEIGHTS, LOADER, before=ENGINE_LINE.format(format="auto", quantization="None")),
            "",
            "weights-missing",
        ),
        (
            _engine_log(
                "KeyError: 'layers.5.mlp.gate_up_proj.weight'",
                LOADER,
                before=ENGINE_LINE.format(format="bitsandbytes", quantization="bitsandbytes"),
            ),
            "",
            "hf-and-consolidated-weights-mixed",
        ),
        (_engine_log(OPERAND.format(operand=118), UNPICKLE), "", "git-lfs-pointer"),
        (_engine_log(OPERAND.format(operand=149), UNPICKLE), "", "pickle-checkpoint-refused"),
        (_server_log("TypeError: not a string", TOKENIZER), "", "tokenizer-missing"),
        (
            _engine_log("ImportError: cannot import name 'Foo' from 'transformers.bar' (/x/bar.py)", REMOTE),
            "vllm serve m --trust-remote-code",
            "remote-code-unusable",
        ),
        (
            _engine_log("AttributeError: 'ChatConfig' object has no attribute 'rope_theta'", REMOTE),
            "vllm serve m --trust-remote-code",
            "remote-code-unusable",
        ),
        (_engine_log(f"safetensors_rust.SafetensorError: {HEADER}HeaderTooLarge", WEIGHTS), "", "git-lfs-pointer"),
        (
            _engine_log(f"safetensors_rust.SafetensorError: {HEADER}MetadataIncompleteBuffer", WEIGHTS),
            "",
            "safetensors-file-corrupt",
        ),
    ],
)
def test_a_real_looking_log(ids: Ids, log: str, command: str, cause: str) -> None:
    assert ids(log, command)[:1] == [cause]


def test_the_last_lines_of_a_log_alone(ids: Ids) -> None:
    log = _engine_log(f"safetensors_rust.SafetensorError: {HEADER}MetadataIncompleteBuffer", LOADER, WEIGHTS)
    assert ids("".join(log.splitlines(keepends=True)[-4:]))[:1] == ["safetensors-file-corrupt"]


def test_errors_inside_pydantics(ids: Ids) -> None:
    frame = "(APIServer pid=7) "
    for text, cause in (
        ("The repository /m contains custom code which must be executed to correctly load the model.",
         "trust-remote-code-needed"),
        ("Invalid repository ID or local directory specified: '/models/chat'.", "model-config-invalid"),
        ("Unrecognized model in /m. Should have a `model_type` key in its config.json.", "model-config-invalid"),
        ("GGUF model with architecture foo is not supported yet.", "gguf-arch-unsupported"),
    ):  # fmt: skip
        log = (
            f"{frame}pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            f"{frame}  Value error, {text} [type=value_error, input_value=ArgsKwargs(()), input_type=ArgsKwargs]\n"
            f"{frame}    For further information visit https://errors.pydantic.dev/2.12/v/value_error\n"
        )
        assert ids(log)[:1] == [cause]


def test_a_path_that_is_not_there_is_the_models_or_the_tokenizers(ids: Ids) -> None:
    log = f"{REPO_ID}'/no/such'. Use `repo_type` argument if needed.\n"
    assert ids(log, "vllm serve /no/such --tokenizer /models/llama")[:1] == ["model-path-not-found"]
    assert ids(log, "vllm serve /models/llama --tokenizer /no/such") == ["tokenizer-missing"]


def test_both_causes_of_a_header_that_is_too_large(ids: Ids) -> None:
    found = ids(f"safetensors_rust.SafetensorError: {HEADER}HeaderTooLarge\n")
    assert found[:2] == ["git-lfs-pointer", "safetensors-file-corrupt"]


FORMAT = "format"


@pytest.mark.parametrize(
    "log",
    [
        _engine_log(f"safetensors_rust.SafetensorError: {HEADER}HeaderTooLarge", LORA),
        "KeyError: 'layers.0.mlp.down_proj.weight.absmax'\n",
        "KeyError: 'layers.0.mlp.down_proj.weight_scale'\n",
        "ValueError: There is no module or parameter named 'layers.0.mlp.down_proj.g_idx' in LlamaModel.\n",
        "ValueError: There is no module or parameter named 'acoustic_head' in MistralForCausalLM.\n",
        "KeyError: 'invalid tool call parser: nope (chose from { hermes })'\n",
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files.\n",
        "AssertionError: 28 is not divisible by 3\n",
        "FileNotFoundError: [Errno 2] No such file or directory: '/adapters/sql/adapter_config.json'\n",
        "ValueError: No available memory for the cache blocks.\n",
    ],
)
def test_what_other_illnesses_print(library: tuple[Loaded, ...], ids: Ids, log: str) -> None:
    family = {one.id: one.spec.family for one in library}
    assert [one for one in ids(log) if family.get(one) == FORMAT] == []


HEALTHY = (
    "INFO 03-02 10:11:12 [core.py:58] Initializing a V1 LLM engine (v0.11.2) with config: model='/models/qwen',"
    " tokenizer='{tokenizer}', load_format=auto\n"
    "INFO 03-02 10:11:14 [default_loader.py:267] Loading weights took 1.21 seconds\n"
    "INFO 03-02 10:11:19 [gpu_worker.py:298] Available KV cache memory: 3.21 GiB\n"
    "INFO:     Application startup complete.\n"
)


def test_a_good_start_names_nothing(ids: Ids) -> None:
    assert ids(HEALTHY.format(tokenizer="/models/qwen"), "vllm serve /models/qwen") == []
    relative = "vllm serve /models/Qwen2-7B-AWQ --tokenizer Qwen/Qwen2-7B"
    assert ids(HEALTHY.format(tokenizer="Qwen/Qwen2-7B"), relative) == []


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        (b"model.layers.1.mlp.down_proj", b"other.things.1.mlp.down_proj", "checkpoint-tensor-missing-silent"),
        (b'"BF16", "shape": [512, 128]', b'"I8",   "shape": [512, 256]', "weights-wrong-number-format"),
        (b"\x80\x3f" * 128, b"\xc0\x7f" * 128, "weights-not-finite"),  # ones and NaN in bfloat16
    ],
)
def test_a_good_start_with_files_that_are_not(
    model: Path, library: tuple[Loaded, ...], covers: Wrappers, old: bytes, new: bytes, cause: str
) -> None:
    _rewritten(model, old, new)
    log = HEALTHY.format(tokenizer=model).replace("/models/qwen", str(model))
    given = Given("engine.log", Evidence(parse_command(f"vllm serve {model}")))
    found = diagnose(read_text([log.encode()]), library, covers, given)
    _rewritten(model, new, old)
    assert [one.cause.id for one in found.causes] == [cause]
    assert found.symptom == "answers-are-wrong"


def test_a_good_start_with_the_tokenizer_of_another_model(ids: Ids) -> None:
    command = "vllm serve /models/qwen --tokenizer /models/llama"
    assert ids(HEALTHY.format(tokenizer="/models/llama"), command) == ["tokenizer-mismatch"]
