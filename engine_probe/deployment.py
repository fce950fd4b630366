"""Reads and writes the deployment file: several models on one host, in start order."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from engine_probe.arg_values import canonical_name, canonical_value
from engine_probe.changes import change, diff, diff_launch, engine_line
from engine_probe.engine_file import EngineFile, engine_spec
from engine_probe.errors import InputError, nearest_word
from engine_probe.flags import flag_for, flag_table
from engine_probe.launch import Deployment, Launch
from engine_probe.lora_modules import split_lora
from engine_probe.paths import is_there
from engine_probe.strict_yaml import decode_text, text_of_bytes
from engine_probe.yaml_edit import rendered

if TYPE_CHECKING:
    from engine_probe.arg_values import ArgValue
    from engine_probe.yaml_nodes import Lines, YamlPath

__all__ = ["change", "deployment_text", "deployment_yaml", "diff", "diff_launch", "read_deployment"]

# Arguments that name a file: relative to the deployment file where such a file exists.
FILE_ARGS = frozenset(
    ("tokenizer", "chat-template", "hf-config-path", "tool-parser-plugin", "reasoning-parser-plugin", "config")
)

MOST_MODELS = 500
MOST_CHARACTERS = 256_000
"""Of a file that says what one host serves; YAML takes ten seconds for three times as many."""
JSON_ITEMS = frozenset(("lora-modules", "prompt-adapters"))
"""Lists whose items may be objects (vllm/entrypoints/openai/cli_args.py, LoRAParserAction)."""


class LaunchFile(msgspec.Struct, forbid_unknown_fields=True):
    """One item of `models:` as written."""

    name: str
    model: str
    gpus: list[int] | None = None
    args: dict[str, Any] | None = None
    env: dict[str, str | int | float | bool] | None = None
    lora: dict[str, str] | None = None
    engine: EngineFile | None = None


class DeploymentFile(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file as written."""

    models: list[LaunchFile]
    engine: EngineFile | None = None
    start: Literal["sequential", "parallel"] = "sequential"


def read_deployment(path: Path, engine_flags: frozenset[str] = frozenset()) -> Deployment:
    """The deployment in a file; `engine_flags` are allowed beside the flags of the table. Errors: InputError."""
    content = read_bytes(path)
    return deployment_text(text_of_bytes(content, str(path)), path, engine_flags, digest_of(content))


def read_bytes(path: Path) -> bytes:
    """The file's content. Errors: InputError."""
    try:
        if path.exists() and not path.is_file():
            raise InputError("is no file; a deployment file is wanted", file=str(path))
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=str(path)) from None


def digest_of(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def deployment_text(
    text: str, path: Path, engine_flags: frozenset[str] = frozenset(), digest: str | None = None
) -> Deployment:
    """As `read_deployment`, for a text; `path` is what relative paths are relative to."""
    _demand_size(text, path)
    content, lines = decode_text(text, str(path), DeploymentFile)
    if not content.models:
        raise lines.error("models: at least one is wanted", ("models",))
    if len(content.models) > MOST_MODELS:
        message = f"models: {len(content.models):,} are named, and at most {MOST_MODELS} are read"
        raise lines.error(message, ("models", MOST_MODELS))
    _check_arg_names(content, lines, engine_flags)
    models = tuple(_launch(item, number, lines, path.parent) for number, item in enumerate(content.models))
    for number, model in enumerate(models):
        same = [n for n, other in enumerate(models[:number]) if other.name == model.name]
        if same:
            first = lines.line_of(("models", same[0], "name"))
            message = f'the name "{model.name}" is taken already in line {first}'
            raise lines.error(message, ("models", number, "name"))
    return Deployment(models, engine_spec(content.engine, ("engine",), lines), content.start, path, digest)


def _demand_size(text: str, path: Path) -> None:
    """Raises InputError for what is no file about one host."""
    if len(text) > MOST_CHARACTERS:
        message = (
            f"has {len(text):,} characters, and at most {MOST_CHARACTERS:,} are read: room for {MOST_MODELS} models"
        )
        raise InputError(message, file=str(path))


def _check_arg_names(content: DeploymentFile, lines: Lines, engine_flags: frozenset[str]) -> None:
    """All unknown flags of the file at once."""
    errors: list[InputError] = []
    known = flag_table().flags.keys() | engine_flags
    for number, item in enumerate(content.models):
        for word in item.args or {}:
            base = canonical_name(word)[0].partition(".")[0]
            if base not in known:
                nearest = nearest_word(base, sorted(known))
                message = f'unknown key "{word}": vLLM has no such flag'
                errors.append(lines.error(message, ("models", number, "args", word), nearest=nearest))
    if errors:
        errors[0].more = tuple(errors[1:])
        raise errors[0]


def _launch(item: LaunchFile, number: int, lines: Lines, folder: Path) -> Launch:
    at: YamlPath = ("models", number)
    if not item.name.strip() or not item.name.isprintable():
        raise lines.error("name: a word is wanted", (*at, "name"))
    if not item.model.strip():
        raise lines.error("model: a folder or a hub id is wanted", (*at, "model"))
    args = _args(item.args or {}, (*at, "args"), lines, folder)
    args, lora = split_lora(args)
    if lora and item.lora:
        raise lines.error("lora: is given in args.lora-modules too; write it once", (*at, "lora"))
    lora = lora or {name: placed_path(adapter, folder) for name, adapter in (item.lora or {}).items()}
    return Launch(
        name=item.name,
        model=placed_path(item.model, folder),
        args=args,
        env={name: lines.text_of((*at, "env", name)) or str(value) for name, value in (item.env or {}).items()},
        gpus=_gpus(item.gpus, (*at, "gpus"), lines),
        engine=engine_spec(item.engine, (*at, "engine"), lines),
        lora=lora,
    )


def placed_path(written: str, folder: Path) -> str:
    """A path relative to the file; an existing one wins over a hub id of the same form."""
    if written.startswith("~/"):
        return str(Path(written).expanduser())
    placed = folder / written
    if is_there(placed) or written.startswith(("./", "../")) or written in (".", ".."):
        return str(Path(placed).absolute())
    return written


def _args(written: dict[str, Any], at: YamlPath, lines: Lines, folder: Path) -> dict[str, ArgValue]:
    args: dict[str, ArgValue] = {}
    forms: dict[str, str] = {}
    for word, value in written.items():
        name, negated = canonical_name(word)
        if name in forms:
            raise lines.error(f'"{word}" is "{forms[name]}" once more', (*at, word))
        if name == "model":
            raise lines.error("the model is written beside args, as `model:`", (*at, word))
        forms[name] = word
        args[name] = _arg(name, value, (*at, word), lines, negated=negated)
        args[name] = placed_arg(name, args[name], folder)
    return args


def placed_arg(name: str, value: ArgValue, folder: Path) -> ArgValue:
    """The value with a path made absolute, where the argument names a file that is there."""
    if name in FILE_ARGS and isinstance(value, str) and value and is_there(folder / value):
        return str((folder / value).absolute())
    return value


def _arg(name: str, value: Any, at: YamlPath, lines: Lines, *, negated: bool) -> ArgValue:
    flag = flag_for(name)
    if value is None:
        raise lines.error(f"{at[-1]}: a value is wanted (true for a flag that takes none)", at)
    if negated:
        if not isinstance(value, bool):
            raise lines.error(f"{at[-1]}: true or false is wanted", at)
        return not value
    if flag is not None and "." not in name:
        _check_kind(name, value, at, lines)
        # Text such as a revision 123e4567 would be a number to YAML: what counts is how it is written.
        written = lines.text_of(at)
        if flag.type == "text" and isinstance(value, (int, float)) and not isinstance(value, bool) and written:
            value = written
    return canonical_value(name, value)


def _check_kind(name: str, value: Any, at: YamlPath, lines: Lines) -> None:
    flag = flag_for(name)
    if flag is None:
        return
    if flag.type == "bool" and not isinstance(value, bool) and str(value).lower() not in ("true", "false"):
        raise lines.error(f"{at[-1]}: true or false is wanted", at)
    if flag.type != "bool" and isinstance(value, bool) and flag.values != "?" and flag.type in ("int", "float", "size"):
        raise lines.error(f"{at[-1]}: a number is wanted", at)
    takes_several = flag.values in ("+", "append")
    if isinstance(value, (list, dict)) and not takes_several and flag.type != "json":
        kind = "list" if isinstance(value, list) else "mapping"
        raise lines.error(f"{at[-1]}: one value is wanted, not a {kind}", at)
    items = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
    if takes_several and name not in JSON_ITEMS and any(isinstance(one, (dict, list)) for one in items):
        raise lines.error(f"{at[-1]}: words are wanted, one or a list of them", at)


def _gpus(gpus: list[int] | None, at: YamlPath, lines: Lines) -> tuple[int, ...] | None:
    for number, gpu in enumerate(gpus or []):
        if gpu < 0 or gpu in (gpus or [])[:number]:
            raise lines.error(f"gpus: {gpu} is {'no GPU index' if gpu < 0 else 'here twice'}", (*at, number))
    if gpus == []:
        raise lines.error("gpus: at least one is wanted; leave the key out for all", at)
    return None if gpus is None else tuple(gpus)


def deployment_yaml(deployment: Deployment) -> str:
    """The text of a new deployment file, one line for each value."""
    head = [f"engine: {engine_line(deployment.engine)}"] if deployment.engine else []
    lines = [*head, f"start: {deployment.start}", "models:"]
    for launch in deployment.models:
        lines += [f"  - name: {rendered(launch.name)}", f"    model: {rendered(launch.model)}"]
        if launch.engine:
            lines.append(f"    engine: {engine_line(launch.engine)}")
        if launch.gpus is not None:
            lines.append(f"    gpus: {rendered(launch.gpus)}")
        for key, values in (("args", launch.args), ("env", launch.env), ("lora", launch.lora)):
            if values:
                lines += [
                    f"    {key}:",
                    *(f"      {rendered(name)}: {rendered(value)}" for name, value in values.items()),
                ]
    return "\n".join(lines) + "\n"
