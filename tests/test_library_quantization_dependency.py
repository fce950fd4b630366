"""Playbooks of the families quantization and dependency on logs of their own making, and the facts they compute."""

from __future__ import annotations

from collections.abc import Callable
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
    from engine_probe.logs.covers import Wrappers
    from playbooks.library import Loaded


def fact(name: str, args: dict[str, object] | None, known: dict[str, Value]) -> object:
    """The value of `name`, or the reason why it is unknown. `args` None: the launch is not known."""
    launch = None if args is None else Launch("chat", "/models/chat", args)  # type: ignore[arg-type]
    facts: dict[str, Fact] = {key: Known(value, "parsed", "a test") for key, value in known.items()}
    answer = lookup_for(launch, facts)(name)
    return answer.value if isinstance(answer, Known) else answer.reason if isinstance(answer, Unknown) else "unset"


FITS = "parallel.tensor_size_that_fits"
EIGHT: dict[str, object] = {"tensor-parallel-size": 8}


@pytest.mark.parametrize(
    ("args", "known", "size"),
    [
        # 768 = 96 x 8 and blocks of 128: 6, 3, 2 and 1 divide it, but 32 heads only leave 2
        (EIGHT, {"shard_width": 96, "shard_multiple": 128, "model.num_attention_heads": 32}, 2),
        # heads unknown: only what divides the present size is safe
        (EIGHT, {"shard_width": 96, "shard_multiple": 128}, 2),
        (EIGHT, {"shard_width": 192, "shard_multiple": 128}, 4),
        # 29,568 / 4 is no multiple of 128, nor are its halves: 29,568 = 231 x 128
        ({"tensor-parallel-size": 4}, {"shard_width": 7392, "shard_multiple": 128}, 1),
        # config.json alone: 28 heads, 4 KV heads
        ({"tensor-parallel-size": 3}, {"model.num_attention_heads": 28, "model.num_kv_heads": 4}, 2),
        ({"tensor-parallel-size": 6}, {"model.num_attention_heads": 32}, 4),
        # KV heads are copied where there are more ranks than heads
        (EIGHT, {"model.num_attention_heads": 32, "model.num_kv_heads": 2}, 8),
        (EIGHT, {"model.num_attention_heads": 48, "model.num_kv_heads": 6}, 6),
        # groups of 128 in 18,944: 148 groups
        (EIGHT, {"model.num_attention_heads": 32, "model.intermediate_size": 18944, "model.quant_group_size": 128}, 4),
        # channel-wise: no groups
        (EIGHT, {"model.num_attention_heads": 32, "model.intermediate_size": 18944, "model.quant_group_size": -1}, 8),
        # no more than there are GPUs
        (EIGHT, {"model.num_attention_heads": 32, "gpu.count": 4}, 4),
    ],
)
def test_the_largest_tensor_parallel_size_that_fits(
    args: dict[str, object], known: dict[str, Value], size: int
) -> None:
    assert fact(FITS, args, known) == size


def test_no_tensor_parallel_size_is_made_up() -> None:
    assert fact(FITS, {}, {}) == "neither config.json nor the message says what must be divided"
    wanted = "no tensor-parallel size divides width of the layer in the message 10944 into 128s, not even 1"
    assert fact(FITS, {}, {"shard_width": 10944, "shard_multiple": 128}) == wanted
    assert "launch.tensor_parallel_size is unknown" in str(fact("parallel.tensor_size_now", None, {}))


def test_half_the_tensor_parallel_size() -> None:
    assert fact("parallel.half_tensor_size", EIGHT, {}) == 4
    assert fact("parallel.half_tensor_size", {"tensor-parallel-size": 3}, {}) == 1
    assert fact("parallel.half_tensor_size", {}, {}) == "tensor-parallel-size is 1, which has no half"


def test_gpus_of_a_launch() -> None:
    assert fact("parallel.gpus_of_launch", {"tensor-parallel-size": 4, "pipeline-parallel-size": 2}, {}) == 8
    assert fact("parallel.gpus_of_launch", {}, {}) == 1


@pytest.mark.parametrize(("version", "number"), [("0.32.0", 32), ("0.6.6.post1", 6), ("v0.5.5", 5), ("1.2.0", 102)])
def test_the_release_as_a_number(version: str, number: int) -> None:
    assert fact("engine.release_number", {}, {"engine.vllm_version": version}) == number


def test_an_unknown_release_has_no_number() -> None:
    assert str(fact("engine.release_number", {}, {})).startswith("vLLM's release is unknown")
    assert fact("engine.release_number", {}, {"engine.vllm_version": "dev"}) == "vLLM's release is not known"


@pytest.mark.parametrize(
    ("supported", "own", "works"),
    [
        ("torch.float16", "bfloat16", "float16"),
        ("torch.float16, torch.bfloat16", "float32", "float16"),
        ("torch.float16, torch.bfloat16", "bfloat16", "bfloat16"),
        ("torch.bfloat16", "", "bfloat16"),
        ("half", "bfloat16", "float16"),
        ("BF16", "float16", "bfloat16"),
        ("torch.int8", "", "the message names no type that vLLM can compute in: torch.int8"),
    ],
)
def test_the_type_that_a_method_takes(supported: str, own: str, works: str) -> None:
    known: dict[str, Value] = {"supported_dtypes": supported, "model.dtype": own}
    assert fact("quantization.dtype_that_works", {}, known) == works


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


ALONE = [
    ("ValueError: Unsupported quantization", "quantization-method-unknown"),
    ("ValueError: Unsupported quantization: exl2", "quantization-method-unknown"),
    ("ValueError: Unsupported quantization method 'exl2'", "quantization-method-unknown"),
    ("ValueError: Unknown quantization method: superquant. Must be one of ['awq'].", "quantization-method-unknown"),
    ("ValueError: Unsupported quantization config: bits=3, sym=True", "quantization-config-invalid"),
    ("ModuleNotFoundError", "python-package-missing"),
    ("ModuleNotFoundError: No module named 'compressed_tensors'", "python-package-missing"),
    ("ModuleNotFoundError: No module named 'cv2'", "python-package-missing"),
    ("ModuleNotFoundError: No module named 'transformers.models.gemma4'", "transformers-too-old"),
    ("ModuleNotFoundError: No module named 'flashinfer'", "flashinfer-missing-or-wrong-version"),
    ("ModuleNotFoundError: No module named 'triton.ops'", "triton-torch-mismatch"),
    ("ModuleNotFoundError: No module named 'numpy._core'", "numpy-2-incompatible"),
    ("OSError", "python-package-missing"),
    (
        "OSError: libnuma.so.1: cannot open shared object file: No such file or directory",
        "python-package-missing",
    ),
    (
        "OSError: libcudart.so.12: cannot open shared object file: No such file or directory",
        "cuda-runtime-major-mismatch",
    ),
    (
        "ImportError: libcublasLt.so.13: cannot open shared object file: No such file or directory",
        "cuda-runtime-major-mismatch",
    ),
    (
        "OSError: libtorch_global_deps.so: cannot open shared object file: No such file or directory",
        "torch-abi-mismatch",
    ),
    ("RuntimeError: CUDA version mismatch", "cuda-runtime-major-mismatch"),
    (
        "RuntimeError: The detected CUDA version (13.0) mismatches the version that was used to compile PyTorch (12.8)",
        "cuda-runtime-major-mismatch",
    ),
    (
        "RuntimeError: Detected that PyTorch and torchvision were compiled with different CUDA major versions.",
        "torch-torchvision-mismatch",
    ),
]


@pytest.mark.parametrize(("line", "cause"), ALONE)
def test_a_message_alone_in_a_file(ids: Ids, line: str, cause: str) -> None:
    assert ids(line + "\n")[:1] == [cause]


def _engine_log(error: str, *frames: str) -> str:
    """A V1 log of two workers, as docker compose shows it."""
    prefix = "vllm-1  | (Worker_TP1 pid=411) ERROR 03-02 10:11:13 [multiproc_executor.py:671] "
    lines = ["WorkerProc failed to start.", "Traceback (most recent call last):"]
    lines += [f'  File "/opt/venv/lib/python3.12/site-packages/{frame}' for frame in frames]
    lines += error.split("\n")
    tail = (
        "vllm-1  | (EngineCore_DP0 pid=300) RuntimeError: Worker failed with error 'see above', please check the stack"
        " trace above for the root cause\n"
        "vllm-1  | (APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above."
        " Failed core proc(s): {}\n"
    )
    return "".join(prefix + line + "\n" for line in lines) + tail


FP8E4NV = (
    "triton.compiler.errors.CompilationError: at 1:0:\ndef kernel(x):\n^\n"
    "ValueError(\"type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e5',)\")"
)
KERNELS = (
    "ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons:\n"
    " MacheteLinearKernel requires capability 90, current compute capability is 75\n"
    " MarlinLinearKernel requires capability 80, current compute capability is 75"
)
CPU_KERNELS = (
    "ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons:\n"
    " Machete only supported on CUDA\n Marlin only supported on CUDA"
)
BLOCK = "ValueError: Weight input_size_per_partition = 1184 is not divisible by weight quantization block_k = 128."
GCC = "subprocess.CalledProcessError: Command '['/usr/bin/gcc', 'main.c', '-o', 'cuda_utils.so']' returned 1"
NO_PLACE = (
    "ValueError: There is no module or parameter named 'layers.0.mlp.down_proj.weight' in LlamaModel. The available"
    " parameters belonging to layers.0.mlp.down_proj (RowParallelLinear) are: {'layers.0.mlp.down_proj.qweight'}"
)
BNB_PLAIN = "bnb-load-format-not-set"
REASONS = (
    "ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons:\n"
    " MacheteLinearKernel requires capability 90, current compute capability is 86\n"
    " MarlinLinearKernel cannot implement due to: Weight output_size_per_partition = 48 is not divisible by"
    " min_thread_n = 64. Consider reducing tensor_parallel_size or running with --quantization gptq.\n"
    " ExllamaLinearKernel cannot implement due to: Exllama only supports float16 activations"
)
NINJA = (
    "RuntimeError: Ninja build failed. Ninja output:\nninja: Entering directory '/x/cached_ops'\n"
    "/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found\nninja: build stopped: subcommand failed."
)
LOADING = 'vllm/model_executor/model_loader/base_loader.py", line 49, in load_model'
ATTENTION = 'vllm/v1/attention/backends/triton_attn.py", line 390, in forward'
FP8_LINEAR = 'vllm/model_executor/layers/quantization/utils/fp8_utils.py", line 200, in apply'
BNB = 'vllm/model_executor/model_loader/bitsandbytes_loader.py", line 487, in load_weights'
QKV = 'vllm/model_executor/parameter.py", line 188, in load_qkv_weight'


LOGS = [
    (_engine_log(NO_PLACE, LOADING), "", "quant-weights-vs-config"),
    (_engine_log(REASONS, LOADING), "", "marlin-shape-not-multiple"),
    (_engine_log(NINJA), "", "flashinfer-jit-needs-nvcc"),
    (_engine_log("KeyError: 'layers.0.self_attn.attn.k_scale'", LOADING), "", "quant-weights-vs-config"),
    (_engine_log("RuntimeError: mat1 and mat2 shapes cannot be multiplied (512x4096 and 8388608x1)"), "", BNB_PLAIN),
    (_engine_log(FP8E4NV, ATTENTION), "vllm serve m --kv-cache-dtype fp8", "fp8-kv-cache-unsupported-on-gpu"),
    (_engine_log(FP8E4NV, FP8_LINEAR), "vllm serve m", "quant-unsupported-on-gpu"),
    (_engine_log(KERNELS, LOADING), "vllm serve m", "quant-unsupported-on-gpu"),
    (_engine_log(CPU_KERNELS, LOADING), "vllm serve m", "quant-kernel-missing-on-platform"),
    (
        _engine_log("RuntimeError: size_n = 5472 is not divisible by tile_n_size = 64", LOADING),
        "vllm serve m -tp 4",
        "marlin-shape-not-multiple",
    ),
    (
        _engine_log(
            "ValueError: Weight input_size_per_partition=2368 of down_proj is not divisible by group_size=128.",
            LOADING,
        ),
        "vllm serve m -tp 8",
        "quant-group-not-aligned-with-tp",
    ),
    (
        _engine_log(BLOCK),
        "vllm serve m -tp 8",
        "fp8-block-not-aligned-with-tp",
    ),
    (_engine_log("KeyError: 'layers.0.mlp.down_proj.weight.absmax'", LOADING), "", "bnb-load-format-not-set"),
    (_engine_log("KeyError: 'layers.0.mlp.down_proj.weight_scale'", LOADING), "", "quant-weights-vs-config"),
    (_engine_log("KeyError: 'layers.0.mlp.down_proj.g_idx'", LOADING), "", "quant-weights-vs-config"),
    (
        "vllm-1  | INFO 03-02 10:11:12 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: model='m',"
        " load_format=LoadFormat.BITSANDBYTES, quantization=bitsandbytes\n" + _engine_log("AssertionError", BNB, QKV),
        "",
        "bnb-dynamic-quant-unsupported",
    ),
    (
        "vllm-1  | INFO 03-02 10:11:12 [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: model='m',"
        " load_format=LoadFormat.AUTO, quantization=gptq_marlin\n" + _engine_log("AssertionError", LOADING, QKV),
        "",
        "quant-weights-vs-config",
    ),
    (
        _engine_log("AttributeError: '_OpNamespace' '_C' object has no attribute 'cpu_gemm_wna16'"),
        "",
        "quant-kernel-missing-on-platform",
    ),
    (
        _engine_log("AttributeError: '_OpNamespace' '_C' object has no attribute 'silu_and_mul'"),
        "",
        "torch-abi-mismatch",
    ),
    (
        _engine_log("AttributeError: Qwen2Tokenizer has no attribute all_special_tokens_extended."),
        "",
        "transformers-too-new",
    ),
    (
        _engine_log("ImportError: cannot import name 'Gemma4Config' from 'transformers' (/x/transformers/__init__.py)"),
        "",
        "transformers-too-old",
    ),
    (
        _engine_log("ImportError: cannot import name 'LogitsWarper' from 'transformers.generation.logits_process'"),
        "",
        "transformers-too-new",
    ),
    (_engine_log("ImportError: Numba needs NumPy 2.2 or less. Got NumPy 2.3."), "", "numba-numpy-incompatible"),
    (
        _engine_log("ImportError: Requires Flash-Attention version >=2.7.1,<=2.8.2 but got 2.8.3."),
        "",
        "xformers-flash-attn-range",
    ),
    (
        _engine_log("ImportError: /x/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommShrink"),
        "",
        "nccl-version-bug",
    ),
    (
        _engine_log("RuntimeError: Failed to find C compiler. Please specify via CC environment variable."),
        "",
        "c-compiler-missing",
    ),
    (
        "vllm-1  | /tmp/x/main.c:5:10: fatal error: Python.h: No such file or directory\n" + _engine_log(GCC),
        "",
        "python-headers-missing",
    ),
    (
        _engine_log("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."),
        "",
        "flashinfer-jit-needs-nvcc",
    ),
]


@pytest.mark.parametrize(("log", "command", "cause"), LOGS, ids=[cause for _, _, cause in LOGS])
def test_a_real_looking_log(ids: Ids, log: str, command: str, cause: str) -> None:
    assert ids(log, command)[:1] == [cause]


def test_an_error_inside_pydantics(ids: Ids) -> None:
    log = (
        "(APIServer pid=7) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "(APIServer pid=7)   Value error, Quantization method specified in the model config (gptq) does not match the"
        " quantization method specified in the `quantization` argument (awq). [type=value_error]\n"
        "(APIServer pid=7)     For further information visit https://errors.pydantic.dev/2.12/v/value_error\n"
    )
    assert ids(log)[:1] == ["quantization-arg-config-mismatch"]


@pytest.mark.parametrize(
    ("line", "other"),
    [
        (
            "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
            "python-package-missing",
        ),
        ("OSError: [Errno 98] Address already in use", "python-package-missing"),
        ("/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found", "c-compiler-missing"),
        ("OSError: [Errno 28] No space left on device", "python-package-missing"),
        (
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
            "quant-unsupported-on-gpu",
        ),
        (
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
            "quant-needs-float16",
        ),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "quant-unsupported-on-gpu",
        ),
        (
            "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (3).",
            "quant-group-not-aligned-with-tp",
        ),
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",
            "cuda-runtime-major-mismatch",
        ),
        ("KeyError: 'invalid tool call parser: nope (chose from { hermes })'", "quant-weights-vs-config"),
        ("KeyError: 'invalid tool call parser: nope (chose from { hermes })'", "transformers-too-old"),
        (
            "ImportError: Ray is required for multi-node inference, please install Ray with `pip install ray`.",
            "python-package-missing",
        ),
    ],
)
def test_what_other_illnesses_print(ids: Ids, line: str, other: str) -> None:
    assert other not in ids(line + "\n")


def test_the_tensor_parallel_size_of_a_message(library: tuple[Loaded, ...], covers: Wrappers) -> None:
    text = "ValueError: The input_size of down's weight = 192 is not divisible by weight quantization block_k = 128."
    given = Given("engine.log", Evidence(parse_command("vllm serve m --tensor-parallel-size 8")))
    cause = diagnose(read_text([_engine_log(text).encode()]), library, covers, given).causes[0]
    assert cause.cause.id == "fp8-block-not-aligned-with-tp"
    answer = cause.lookup(FITS)
    assert isinstance(answer, Known)
    assert answer.value == 4
