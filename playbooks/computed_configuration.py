"""Facts about the arguments and variables of a launch that follow from others."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from engine_probe.errors import nearest_word
from engine_probe.facts import Known, Unknown
from playbooks.computing import MOST_RANKS, Computed, MissingInputError, known, number

if TYPE_CHECKING:
    from playbooks.conditions import Answer, Lookup

_ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_FIRST_INTERNAL_PORT, _PORTS_EACH, _INTERNAL_PORTS = 20_000, 100, 30_000
_API_PORT = 8000
_USUAL_BATCHED_TOKENS = 2048
_USUAL_SPECULATIVE_TOKENS = 3
# config/load.py and model_executor/model_loader, all releases
_LOAD_FORMATS = frozenset(
    {
        *(
            "auto",
            "bitsandbytes",
            "dummy",
            "fastsafetensors",
            "gguf",
            "hf",
            "instanttensor",
            "mistral",
            "npcache",
            "pt",
        ),
        *("pt", "runai_streamer", "runai_streamer_sharded", "safetensors", "sharded_state", "tensorizer"),
    }
)


def _segments_are_expandable(lookup: Lookup) -> Answer:
    for variable in _ALLOCATOR_VARIABLES:
        answer = lookup(f"launch.env.{variable}")
        if isinstance(answer, Unknown):
            return answer
        if isinstance(answer, Known):
            is_on = "expandable_segments:true" in str(answer.value).lower().replace(" ", "")
            return Known(is_on, "computed", f"{variable} of the launch")
    return Unknown("the launch does not set PYTORCH_CUDA_ALLOC_CONF; the container or shell may")


def _plain_segments(lookup: Lookup) -> Answer:
    answer = lookup("launch.env.PYTORCH_CUDA_ALLOC_CONF")
    if not isinstance(answer, Known):
        return answer if isinstance(answer, Unknown) else Unknown("the launch does not set PYTORCH_CUDA_ALLOC_CONF")
    text = re.sub(r"(expandable_segments\s*:\s*)true", r"\1False", str(answer.value), flags=re.IGNORECASE)
    return Known(text, "computed", "PYTORCH_CUDA_ALLOC_CONF of the launch")


def _compile_caches_are_off(lookup: Lookup) -> Answer:
    """Only what the launch says: an image may set the variable as well, and then it is unknown."""
    answer = lookup("launch.env.TORCHINDUCTOR_FORCE_DISABLE_CACHES")
    if isinstance(answer, Unknown):
        return answer
    is_on = isinstance(answer, Known) and str(answer.value).lower() not in ("0", "false", "")
    return Known(is_on, "computed", "TORCHINDUCTOR_FORCE_DISABLE_CACHES of the launch")


def _own_start_port(lookup: Lookup) -> tuple[float, str]:
    """Engines of one host have different API ports, so that what is made from them differs as well."""
    api_port = int(number(lookup, "launch.port", unset=_API_PORT))
    start = _FIRST_INTERNAL_PORT + api_port * _PORTS_EACH % _INTERNAL_PORTS
    return start, f"{_PORTS_EACH} ports for each port of an API, from the API's port {api_port}"


def _block_size_that_fits(lookup: Lookup) -> tuple[float, str]:
    """The next one up, so that fewer and larger blocks are made, never a size below the kernel's unit."""
    asked, unit = int(number(lookup, "block_size")), int(number(lookup, "block_multiple"))
    if unit <= 0:
        raise MissingInputError("the message names no size that the backend supports")
    return max(unit, -(-asked // unit) * unit), f"the next multiple of {unit}, which the backend wants"


def _batched_tokens_needed(lookup: Lookup) -> tuple[float, str]:
    """What both checks of vLLM's scheduler take: the longest prompt or item, and one token a sequence."""
    wanted: dict[str, float] = {}
    for name in ("model_len", "item_tokens", "num_seqs"):
        if isinstance(lookup(name), Known):
            wanted[name] = number(lookup, name)
    if not wanted:
        raise MissingInputError("no message says what a step must hold")
    largest = max(wanted, key=lambda name: wanted[name])
    if wanted[largest] < _USUAL_BATCHED_TOKENS:
        return _USUAL_BATCHED_TOKENS, f"vLLM's usual budget; {wanted[largest]:,.0f} would be the least"
    return int(wanted[largest]), f"{largest} of the message"


def _tensor_size_for_this_node(lookup: Lookup) -> tuple[float, str]:
    """A divisor of the present size cuts evenly whatever the present size cuts."""
    now, gpus = int(number(lookup, "parallel.tensor_size_now")), int(number(lookup, "gpus_here"))
    stages = int(number(lookup, "launch.pipeline_parallel_size", unset=1))
    most = min(gpus // stages, now)
    if most > MOST_RANKS:
        raise MissingInputError(f"that makes {most} ranks, more than any group of hosts has")
    size = next((size for size in range(most, 0, -1) if now % size == 0), None)
    if size is None:
        raise MissingInputError(f"{stages} pipeline stages need more than the {gpus} GPUs of this node")
    return size, f"the largest divisor of {now} for the {gpus} GPUs of this node"


def _architecture_is_another(lookup: Lookup) -> Answer:
    """Whether the class that the override names is none that config.json names."""
    overriding, own = lookup("overriding"), lookup("model.architectures")
    if not isinstance(overriding, Known):
        return Unknown("no message shows an override of the architecture")
    if not isinstance(own, Known):
        reason = own.reason if isinstance(own, Unknown) else "not set"
        return Unknown(f"the architectures of config.json are unknown: {reason}")
    is_another = str(overriding.value) not in str(own.value).split()
    return Known(is_another, "computed", f"config.json names {own.value}")


def _load_format_is_known(lookup: Lookup) -> Answer:
    """A known one that is refused is refused for what the folder or this build lacks, not for its spelling."""
    for name in ("value", "old_value"):
        answer = lookup(name)
        if isinstance(answer, Known):
            return Known(str(answer.value) in _LOAD_FORMATS, "computed", "the load formats of all releases")
    return Unknown("no message names a load format")


# vllm/tool_parsers of 0.32 and the tool-calling page of its documentation, by model_type of config.json
_TOOL_PARSERS = {
    "apertus": "apertus",
    "deepseek_v3": "deepseek_v3",
    "ernie4_5_moe": "ernie45",
    "gemma3": "pythonic",
    "gemma4": "gemma4",
    "glm4_moe": "glm45",
    "gpt_oss": "openai",
    "granite": "granite",
    "granitemoe": "granite",
    "internlm2": "internlm",
    "jamba": "jamba",
    "kimi_k2": "kimi_k2",
    "lfm2": "lfm2",
    "llama": "llama3_json",
    "llama4": "llama4_pythonic",
    "minimax_m2": "minimax_m2",
    "mistral": "mistral",
    "mistral3": "mistral",
    "mixtral": "mistral",
    "olmo3": "olmo3",
    "phi3": "phi4_mini_json",
    "qwen2": "hermes",
    "qwen2_moe": "hermes",
    "qwen3": "hermes",
    "qwen3_moe": "hermes",
    "seed_oss": "seed_oss",
}


def _longest_model_len(lookup: Lookup) -> tuple[float, str]:
    """vLLM takes a length up to the larger of both numbers that it prints."""
    lengths = [number(lookup, "model_len")]
    if isinstance(lookup("tokenizer_len"), Known):
        lengths.append(number(lookup, "tokenizer_len"))
    return int(max(lengths)), "the model's own maximum, as the message tells it"


def _nearest_choice(lookup: Lookup) -> Answer:
    asked, listed = lookup("parser"), lookup("allowed")
    if not isinstance(asked, Known) or not isinstance(listed, Known):
        return Unknown("no message says which names there are")
    nearest = nearest_word(str(asked.value), re.findall(r"[\w.-]+", str(listed.value)))
    if nearest is None:
        return Unknown(f"no name of this release looks like {asked.value}")
    return Known(nearest, "computed", "the list in the message, by spelling")


def _tool_parser_of_model(lookup: Lookup) -> Answer:
    answer = lookup("model.type")
    if not isinstance(answer, Known):
        return answer if isinstance(answer, Unknown) else Unknown("config.json has no model_type")
    parser = _TOOL_PARSERS.get(str(answer.value))
    if parser is None:
        return Unknown(f"no usual parser is known for model_type {answer.value}")
    return Known(parser, "computed", f"the usual parser of model_type {answer.value}")


def _speculative_config_with_tokens(lookup: Lookup) -> Answer:
    answer = lookup("launch.speculative_config")
    if not isinstance(answer, Known):
        return answer if isinstance(answer, Unknown) else Unknown("the launch has no speculative-config")
    try:
        config = json.loads(str(answer.value))
    except ValueError:
        return Unknown("speculative-config of the launch is no JSON")
    if not isinstance(config, dict):
        return Unknown("speculative-config of the launch is no JSON object")
    text = json.dumps(config | {"num_speculative_tokens": _USUAL_SPECULATIVE_TOKENS})
    return Known(text, "computed", "speculative-config of the launch, and the number that is missing")


def _prompt_lookup_speculation(_: Lookup) -> Answer:
    """A constant, as a fact because the braces of JSON mean a fact in a playbook."""
    config = {"method": "ngram", "num_speculative_tokens": _USUAL_SPECULATIVE_TOKENS, "prompt_lookup_max": 4}
    return Known(json.dumps(config), "computed", "the method that needs no draft")


def _vllm_port_is_api_port(lookup: Lookup) -> Answer:
    """Unset where the launch sets no VLLM_PORT: then only a shell or a container could."""
    internal, api = lookup("launch.env.VLLM_PORT"), lookup("launch.port")
    if not isinstance(internal, Known):
        return internal
    port = api.value if isinstance(api, Known) else _API_PORT
    return Known(internal.value == port, "computed", f"VLLM_PORT is {internal.value}, the API's port {port}")


COMPUTED: tuple[Computed, ...] = (
    Computed(
        "config.segments_are_expandable",
        "expandable segments",
        "",
        "the launch turns on expandable_segments of PyTorch's allocator",
        _segments_are_expandable,
    ),
    Computed(
        "config.plain_segments",
        "allocator without expandable segments",
        "",
        "PYTORCH_CUDA_ALLOC_CONF of the launch with expandable_segments off",
        _plain_segments,
    ),
    Computed(
        "config.compile_caches_are_off",
        "Inductor's caches are off",
        "",
        "the launch turns off the caches of torch's compiler",
        _compile_caches_are_off,
    ),
    Computed(
        "config.own_start_port",
        "first internal port for this engine",
        "",
        "a VLLM_PORT that no other engine of the host is given",
        known(_own_start_port),
    ),
    Computed(
        "config.block_size_that_fits",
        "block size that fits",
        "tokens",
        "next block size that the attention backend supports",
        known(_block_size_that_fits),
    ),
    Computed(
        "config.batched_tokens_needed",
        "token budget of a step that would do",
        "tokens",
        "max-num-batched-tokens that vLLM accepts, at least its usual one",
        known(_batched_tokens_needed),
    ),
    Computed(
        "config.tensor_size_for_this_node",
        "tensor-parallel size for this node",
        "GPUs",
        "tensor-parallel-size for the GPUs that the message says this node has",
        known(_tensor_size_for_this_node),
    ),
    Computed(
        "config.architecture_is_another",
        "override names another class",
        "",
        "hf-overrides names a class that config.json does not",
        _architecture_is_another,
    ),
    Computed(
        "config.load_format_is_known",
        "load format that some release has",
        "",
        "the refused load format is spelt like one of vLLM's",
        _load_format_is_known,
    ),
    Computed(
        "config.longest_model_len",
        "longest length of the model",
        "tokens",
        "the largest max-model-len that vLLM accepts for this model",
        known(_longest_model_len),
    ),
    Computed(
        "config.nearest_choice",
        "name that looks alike",
        "",
        "of the names that the message lists, the one spelt most alike",
        _nearest_choice,
    ),
    Computed(
        "config.tool_parser_of_model",
        "tool-call parser of this kind of model",
        "",
        "the tool-call parser that models of this model_type usually take",
        _tool_parser_of_model,
    ),
    Computed(
        "config.speculative_config_with_tokens",
        "speculative-config with a number of tokens",
        "",
        "speculative-config of the launch with num_speculative_tokens",
        _speculative_config_with_tokens,
    ),
    Computed(
        "config.prompt_lookup_speculation",
        "speculative-config without a draft",
        "",
        "a speculative-config that guesses from the prompt, which fits every model",
        _prompt_lookup_speculation,
    ),
    Computed(
        "config.vllm_port_is_api_port",
        "vLLM's own port is the API's port",
        "",
        "VLLM_PORT of the launch is the port of its API",
        _vllm_port_is_api_port,
    ),
)
