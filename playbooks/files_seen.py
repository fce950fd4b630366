"""A look at a launch's files before its answers are judged: what the class wants, numbers, adapters, chat template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_probe.errors import InputError
from engine_probe.memory.model_folder import model_folder
from engine_probe.model_files.adapters import doubt_about
from engine_probe.model_files.audit import Audit, audit
from engine_probe.model_files.finite import not_finite
from engine_probe.model_files.siblings import lacking
from engine_probe.model_files.wanted import compare
from playbooks.effects import FilesSeen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine_probe.launch import Deployment, Launch

_CHAT_MARKS = ("<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "[INST]", "<|user|>", "<|assistant|>")
"""Special tokens that only models trained for chat have."""
_POOLING_RUNNERS = ("pooling",)
_POOLING_TASKS = ("embed", "embedding", "classify", "score", "reward", "token_embed", "token_classify")
_POOLING_CLASSES = ("ForSequenceClassification", "RewardModel", "BertModel", "RobertaModel", "ForMaskedLM")
_LARGEST_JSON_BYTES = 64 << 20
_MOST_NAMES = 20


def look_at_files(launch: Launch, deployment: Deployment, *, is_local: bool) -> FilesSeen:
    """`is_local` false: the engine, and the model's files, are on another host."""
    config = {} if not is_local else _json_in(_folder(launch, deployment), "config.json")
    pools = _pools(launch, config)
    if not is_local:
        return FilesSeen(launch.name, why_not="the engine runs elsewhere, and so do the model's files", pools=pools)
    folder = _folder(launch, deployment)
    if folder is None:
        return FilesSeen(launch.name, why_not=f"there is no folder of {launch.model} on this host", pools=pools)
    try:
        found = audit(folder)
    except OSError as error:
        return FilesSeen(launch.name, why_not=f"{folder} cannot be read: {error.strerror or error}", pools=pools)
    return _seen(launch, deployment, found, pools=pools)


def _seen(launch: Launch, deployment: Deployment, found: Audit, *, pools: bool) -> FilesSeen:
    tensors = {name for header in found.headers.values() for name in header.tensors}
    missing, unknown = _missing(launch, found, tensors)
    base = deployment.path.parent if deployment.path is not None else Path()
    shapes = {name: place.shape for header in found.headers.values() for name, place in header.tensors.items()}
    adapters = {name: doubt_about(base / Path(path).expanduser(), shapes) for name, path in launch.lora.items()}
    bad = [f"{one.tensor} in {one.file}" for one in not_finite(found.folder, found.headers)]
    return FilesSeen(
        launch.name,
        tensors=len(tensors),
        missing=missing[:_MOST_NAMES],
        missing_count=len(missing),
        unknown_class=unknown,
        not_finite=tuple(bad[:_MOST_NAMES]),
        not_finite_count=len(bad),
        adapters={name: why for name, why in adapters.items() if why is not None},
        template=_template(launch, found.folder),
        pools=pools,
    )


def _missing(launch: Launch, found: Audit, tensors: set[str]) -> tuple[tuple[str, ...], str | None]:
    """Names of tensors that are in no file, or why it cannot be said that none is missing."""
    if not tensors:
        return (), "no safetensors file could be read"
    overridden = _overridden(launch).get("architectures")
    named = str(overridden[0]) if isinstance(overridden, list) and overridden else None
    compared = compare(found.config or {}, tensors, named)
    missing = compared.missing or tuple(lacking(tensors))
    return missing, None if missing else compared.unknown


def _overridden(launch: Launch) -> Mapping[str, Any]:
    given = launch.arg("hf-overrides")
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _pools(launch: Launch, config: Mapping[str, Any]) -> bool:
    """Whether it gives embeddings, scores or classes instead of text: by its arguments, else by its class."""
    runner, task, convert = (str(launch.arg(name) or "") for name in ("runner", "task", "convert"))
    if runner in ("generate", *_POOLING_RUNNERS):
        return runner in _POOLING_RUNNERS
    if task not in ("", "auto") or convert not in ("", "auto", "none"):
        return task in _POOLING_TASKS or convert in _POOLING_TASKS
    names = _overridden(launch).get("architectures") or config.get("architectures")
    return isinstance(names, list) and any(str(one).endswith(_POOLING_CLASSES) for one in names)


def _template(launch: Launch, folder: Path) -> str:
    """`given`, or `none`, or `lost`: none, though the tokenizer has the marks of a chat."""
    if launch.arg("chat-template") is not None or any(folder.glob("chat_template*")):
        return "given"
    if _json_in(folder, "tokenizer_config.json").get("chat_template"):
        return "given"
    return "lost" if _special_words(folder).intersection(_CHAT_MARKS) else "none"


def _special_words(folder: Path) -> set[str]:
    added = _json_in(folder, "tokenizer.json").get("added_tokens")
    more = _json_in(folder, "tokenizer_config.json").get("additional_special_tokens")
    found = [*(added if isinstance(added, list) else ()), *(more if isinstance(more, list) else ())]
    return {str(one.get("content") if isinstance(one, dict) else one) for one in found}


def _folder(launch: Launch, deployment: Deployment) -> Path | None:
    base = deployment.path.parent if deployment.path is not None else Path()
    folder = base / Path(launch.model).expanduser()
    if folder.is_dir():
        return folder
    try:
        found = model_folder(launch)
    except InputError:
        return None
    return found if found.is_dir() else None


def _json_in(folder: Path | None, name: str) -> Mapping[str, Any]:
    """Empty where there is no such file, or it holds no object."""
    path = None if folder is None else folder / name
    try:
        if path is None or path.stat().st_size > _LARGEST_JSON_BYTES:
            return {}
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
