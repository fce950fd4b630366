"""Facts about the model's files that follow from the audit of its folder and from the names in the launch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from engine_probe.quoting import quoted
from playbooks.computing import Computed, MissingInputError, known, number

if TYPE_CHECKING:
    from playbooks.conditions import Answer, Lookup

_LAYERS = re.compile(r"the files hold (?P<count>\d+) layers and config\.json says")
_SIZES = "and config.json makes it"
_LACKS = re.compile(r" lacks \d+ tensors that ")
_PAGE_OR_POINTER = re.compile(r" is a (?:git-lfs pointer|web page)\b")
_LOCAL = re.compile(r"(?:~|\.{0,2})/|[A-Za-z]:\\")
_FOREIGN_PREFIX = re.compile(r"'?(?:module|_orig_mod|base_model|transformer|policy|student|actor|_forward_module)\b")
_HEAD = re.compile(r"\b(?:lm_head|score|classifier|v_head|value_head|reward_head|embed_out|regression_head)\b")
_ORIGIN = "the audit of the model's files"


def _trouble(lookup: Lookup) -> str:
    """What the audit found first. Raises MissingInputError where there was nothing to look at."""
    answer = lookup("files.trouble")
    if isinstance(answer, Known):
        return str(answer.value)
    raise MissingInputError("the model's files are unknown: " + getattr(answer, "reason", "nobody looked"))


def _are_pointers_or_pages(lookup: Lookup) -> tuple[bool, str]:
    is_text = bool(_PAGE_OR_POINTER.search(_trouble(lookup)))
    return is_text or number(lookup, "files.lfs_pointers") > 0, _ORIGIN


def _found_not_finite(lookup: Lookup) -> Answer:
    """False as well where there was nothing to look at: the fact is about what was found."""
    answer = lookup("files.not_finite")
    found = isinstance(answer, Known) and isinstance(answer.value, int) and answer.value > 0
    return Known(found, "computed", _ORIGIN)


def _found_tensors_missing(lookup: Lookup) -> Answer:
    """False as well where there was nothing to look at."""
    missing, trouble = lookup("files.missing_tensors"), lookup("files.trouble")
    found = isinstance(missing, Known) and isinstance(missing.value, int) and missing.value > 0
    found = found or (isinstance(trouble, Known) and bool(_LACKS.search(str(trouble.value))))
    return Known(found, "computed", _ORIGIN)


def _found_plain_integers(lookup: Lookup) -> Answer:
    """Integer or 8-bit tensors without a quantization config. False as well where there was nothing to look at."""
    types, method = lookup("files.tensor_types"), lookup("model.quant_method")
    told = set(str(types.value).split()) if isinstance(types, Known) else set()
    odd = any(one.startswith(("I8", "U8", "F8")) for one in told)
    return Known(odd and not isinstance(method, Known), "computed", _ORIGIN)


def _layers_differ(lookup: Lookup) -> tuple[bool, str]:
    return _about(_trouble(lookup), is_it=bool(_LAYERS.search(_trouble(lookup))))


def _sizes_differ(lookup: Lookup) -> tuple[bool, str]:
    return _about(_trouble(lookup), is_it=_SIZES in _trouble(lookup))


def _about(trouble: str, *, is_it: bool) -> tuple[bool, str]:
    """The audit tells the first trouble alone: another one says nothing about this."""
    if not is_it and trouble != "none found":
        raise MissingInputError(f"the audit stopped at another trouble: {trouble}")
    return is_it, _ORIGIN


def _layers_on_disk(lookup: Lookup) -> tuple[float, str]:
    found = _LAYERS.search(_trouble(lookup))
    if found is None:
        raise MissingInputError("the audit found no other number of layers than config.json says")
    return int(found["count"]), _ORIGIN


def _layers_override(lookup: Lookup) -> Answer:
    """As --hf-overrides takes it."""
    count = known(_layers_on_disk)(lookup)
    if not isinstance(count, Known):
        return count
    return Known(f'{{"num_hidden_layers": {count.value}}}', "computed", count.origin)


def _names_have_a_foreign_prefix(lookup: Lookup) -> tuple[bool, str]:
    name = _named_tensor(lookup)
    return bool(_FOREIGN_PREFIX.match(name)), f"the message names {quoted(name, 80)}"


def _names_a_head(lookup: Lookup) -> tuple[bool, str]:
    name = _named_tensor(lookup)
    return bool(_HEAD.search(name)), f"the message names {quoted(name, 80)}"


def _named_tensor(lookup: Lookup) -> str:
    """Raises MissingInputError where no message names one."""
    for name in ("tensor", "tensors"):
        answer = lookup(name)
        if isinstance(answer, Known):
            return str(answer.value)
    raise MissingInputError("no message names a tensor")


def _model(lookup: Lookup) -> str:
    """As the message names it, else as the launch does. Raises MissingInputError."""
    for name in ("asked_model", "launch.model"):
        answer = lookup(name)
        if isinstance(answer, Known):
            return str(answer.value)
    raise MissingInputError("neither the log nor the launch names the model")


def _model_is_a_path(lookup: Lookup) -> tuple[bool, str]:
    model = _model(lookup)
    return bool(_LOCAL.match(model)) or model.count("/") > 1, f"the model is {model}"


def _model_is_gguf(lookup: Lookup) -> tuple[bool, str]:
    model = _model(lookup)
    return bool(re.search(r"\.gguf$|-GGUF(?::|$)|:I?Q\d\w*$", model, re.IGNORECASE)), f"the model is {model}"


def _load_format_narrows(lookup: Lookup) -> Answer:
    """`auto` and `hf` take safetensors, .bin and .pt; every other format reads one kind of file alone."""
    answer = lookup("launch.load_format")
    if isinstance(answer, Unknown):
        return answer
    told = str(answer.value) if isinstance(answer, Known) else "auto"
    return Known(told not in ("auto", "hf"), "computed", f"the load format is {told}")


def _tokenizer_was_refused(lookup: Lookup) -> Answer:
    """False as well where the launch is not known: most launches name no tokenizer."""
    wanted = lookup("launch.tokenizer")
    told = [lookup(name) for name in ("tokenizer_path", "asked_model")]
    values = [str(one.value) for one in told if isinstance(one, Known)]
    is_it = isinstance(wanted, Known) and str(wanted.value) in values
    return Known(is_it, "computed", "the path in the message and --tokenizer of the launch")


def _tokenizer_is_another(lookup: Lookup) -> Answer:
    """By the names in the launch alone: they share no word. A GGUF file often has the tokenizer of another."""
    model, tokenizer = lookup("launch.model"), lookup("launch.tokenizer")
    if not isinstance(model, Known) or not isinstance(tokenizer, Known):
        return Known(value=False, source="computed", origin="the launch names no tokenizer")
    names = [str(one.value).rstrip("/").lower() for one in (model, tokenizer)]
    words = [set(re.findall(r"[a-z]{3,}", name.rpartition("/")[2])) for name in names]
    is_alike = names[0] == names[1] or bool(words[0] & words[1]) or ".gguf" in names[0]
    return Known(not is_alike, "computed", f"model {model.value}, tokenizer {tokenizer.value}")


COMPUTED: tuple[Computed, ...] = (
    Computed(
        "files.are_pointers_or_pages",
        "text instead of weights",
        "",
        "some of the model's files are git-lfs pointers or web pages",
        known(_are_pointers_or_pages),
    ),
    Computed(
        "files.found_not_finite",
        "NaN or infinity was found",
        "",
        "a look at the model's files found values that are no numbers",
        _found_not_finite,
    ),
    Computed(
        "files.found_tensors_missing",
        "missing tensors were found",
        "",
        "a look at the model's files found tensors missing",
        _found_tensors_missing,
    ),
    Computed(
        "files.found_plain_integers",
        "integer tensors without a config",
        "",
        "a look at the model's files found integer or 8-bit tensors that no quantization config explains",
        _found_plain_integers,
    ),
    Computed(
        "files.layers_differ",
        "another number of layers",
        "",
        "the files hold another number of layers than config.json says",
        known(_layers_differ),
    ),
    Computed(
        "files.sizes_differ",
        "tensors of other sizes",
        "",
        "a tensor has another size than config.json makes it",
        known(_sizes_differ),
    ),
    Computed(
        "files.layers_on_disk",
        "layers in the files",
        "layers",
        "layers in the weight files, where config.json says another number",
        known(_layers_on_disk),
    ),
    Computed(
        "files.layers_override",
        "override with the layers in the files",
        "",
        "--hf-overrides that makes the number of layers that of the files",
        _layers_override,
    ),
    Computed(
        "files.names_have_a_foreign_prefix",
        "prefix of another tool",
        "",
        "the tensor in the message begins with a prefix of a wrapper, such as module.",
        known(_names_have_a_foreign_prefix),
    ),
    Computed(
        "files.names_a_head",
        "tensor of a head",
        "",
        "the tensor in the message belongs to a head, such as lm_head or score",
        known(_names_a_head),
    ),
    Computed(
        "files.model_is_a_path",
        "model is a path",
        "",
        "the model is named as a path and not as a repository",
        known(_model_is_a_path),
    ),
    Computed(
        "files.model_is_gguf",
        "model is a GGUF file",
        "",
        "the model is named as a GGUF file or quantization",
        known(_model_is_gguf),
    ),
    Computed(
        "files.load_format_narrows",
        "load format reads one kind of file",
        "",
        "--load-format of the launch reads one kind of weight file alone",
        _load_format_narrows,
    ),
    Computed(
        "files.tokenizer_was_refused",
        "the tokenizer was refused",
        "",
        "the path in the message is the one that --tokenizer of the launch names",
        _tokenizer_was_refused,
    ),
    Computed(
        "files.tokenizer_is_another",
        "tokenizer of another name",
        "",
        "the launch names a tokenizer that is not the model",
        _tokenizer_is_another,
    ),
)
