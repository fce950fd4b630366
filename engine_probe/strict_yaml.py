"""Reads a YAML file that a person wrote into a strict msgspec type; each mistake is one clear InputError.

Every unknown key of the file is reported at once. `Lines` answers later where a key is written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import inspect

from engine_probe.errors import InputError, nearest_word
from engine_probe.yaml_nodes import Lines, build, compose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine_probe.yaml_nodes import YamlPath

__all__ = ["MAX_BYTES", "InputError", "Lines", "decode_file", "decode_text", "nearest_word", "read_text"]

MAX_BYTES = 5_000_000
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
T = TypeVar("T")


def decode_file(path: Path, type: type[T]) -> tuple[T, Lines]:  # noqa: A002
    """The file's content as `type`, and where it is written. Errors: InputError, with file and line."""
    return decode_text(read_text(path), str(path), type)


def read_text(path: Path) -> str:
    """The file's text with its own line ends and without a byte order mark. Errors: InputError."""
    try:
        if path.is_dir():
            raise InputError("is a folder; a YAML file is wanted", file=str(path))
        if path.exists() and not path.is_file():
            raise InputError("is no regular file; a YAML file is wanted", file=str(path))
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
    return text_of_bytes(content, str(path))


def text_of_bytes(content: bytes, name: str) -> str:
    """UTF-8 text of a file of at most MAX_BYTES. Errors: InputError with the line that is not UTF-8."""
    if len(content) > MAX_BYTES:
        raise InputError(f"is larger than {MAX_BYTES // 1_000_000} MB; that is no file written by hand", file=name)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        byte = content[error.start]
        raise InputError(f"is not UTF-8 text: byte 0x{byte:02x}", file=name, line=line) from None


def decode_text(text: str, name: str, type: type[T]) -> tuple[T, Lines]:  # noqa: A002
    """As `decode_file`, for a text; `name` stands for the file in errors."""
    node = compose(text, name)
    lines = Lines(name, text)
    if node is None:
        raise InputError("is empty", file=name)
    value = build(node, lines)
    shape = inspect.type_info(type)
    unknown = list(_unknown_keys(value, shape, (), lines))
    if unknown:
        raise _joined(unknown)
    try:
        return msgspec.convert(value, type, strict=True), lines
    except msgspec.ValidationError as error:
        raise _explained(error, value, shape, lines) from None


def _joined(errors: list[InputError]) -> InputError:
    first, *rest = errors
    first.more = tuple(rest)
    return first


def _unknown_keys(value: Any, shape: inspect.Type, path: YamlPath, lines: Lines) -> Iterator[InputError]:
    shape = _shape_for(value, shape)
    if isinstance(shape, inspect.StructType) and isinstance(value, dict):
        fields = {field.encode_name: field for field in shape.fields}
        allowed = tuple(fields) + ((shape.tag_field,) if shape.tag_field else ())
        for key, item in value.items():
            if key in fields:
                yield from _unknown_keys(item, fields[key].type, (*path, key), lines)
            elif key not in allowed and shape.forbid_unknown_fields:
                message = f'unknown key "{_shown(key)}"'
                yield lines.error(message, (*path, key), allowed=allowed, nearest=nearest_word(key, allowed))
    elif isinstance(shape, inspect.DictType) and isinstance(value, dict):
        for key, item in value.items():
            yield from _unknown_keys(item, shape.value_type, (*path, key), lines)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _unknown_keys(item, _item_shape(shape, number), (*path, number), lines)


def _shape_for(value: Any, shape: inspect.Type) -> inspect.Type:
    """The one type of a union that `value` can be, as far as its kind tells."""
    if isinstance(shape, inspect.Metadata):
        return _shape_for(value, shape.type)
    if not isinstance(shape, inspect.UnionType):
        return shape
    mappings = (inspect.StructType, inspect.DictType)
    fitting = [_shape_for(value, one) for one in shape.types]
    if isinstance(value, dict):
        fitting = [one for one in fitting if isinstance(one, mappings) and _tag_fits(value, one)]
    elif isinstance(value, list):
        fitting = [one for one in fitting if hasattr(one, "item_type") or hasattr(one, "item_types")]
    return fitting[0] if len(fitting) == 1 else inspect.AnyType()


def _tag_fits(value: dict[str, Any], shape: inspect.Type) -> bool:
    if not isinstance(shape, inspect.StructType) or shape.tag_field is None:
        return True
    return bool(value.get(shape.tag_field) == shape.tag)


def _item_shape(shape: inspect.Type, number: int) -> inspect.Type:
    if isinstance(shape, inspect.TupleType):
        return shape.item_types[number] if number < len(shape.item_types) else inspect.AnyType()
    found = getattr(shape, "item_type", None)
    return found if isinstance(found, inspect.Type) else inspect.AnyType()


def _explained(error: msgspec.ValidationError, value: Any, shape: inspect.Type, lines: Lines) -> InputError:
    """msgspec says `Expected `int`, got `str` - at `$.models[0].gpus[1]``; this finds the line of that path."""
    message, _, where = str(error).rpartition(" - at ")
    message, where = (message, where) if message else (str(error), "")
    path = _path_of(where.strip("`"))
    at = ".".join(str(step) for step in path)
    return _with_allowed(_in_words(message), path, at, shape, value, lines)


def _path_of(where: str) -> YamlPath:
    path: YamlPath = ()
    for match in _STEP.finditer(where.removeprefix("key in ").strip("`")):
        if match[1] is None and match[2] is None:
            break
        path = (*path, match[1] if match[1] is not None else int(match[2]))
    return path


def _in_words(message: str) -> str:
    message = message.replace("`", '"')
    for said, meant in (
        ('"object"', "a mapping"),
        ('"array"', "a list"),
        ('"str"', "text"),
        ('"int"', "a whole number"),
        ('"float"', "a number"),
        ('"bool"', "true or false"),
        ('"null"', "nothing"),
    ):
        message = message.replace(said, meant)
    message = message.replace("Object missing required field", "missing key")
    return message[:1].lower() + message[1:]


def _with_allowed(message: str, path: YamlPath, at: str, shape: inspect.Type, value: Any, lines: Lines) -> InputError:
    for step in path:
        shape = _shape_for(value, shape)
        if isinstance(shape, inspect.StructType):
            shape = next((f.type for f in shape.fields if f.encode_name == step), inspect.AnyType())
        else:
            shape = getattr(shape, "value_type", None) or _item_shape(shape, step if isinstance(step, int) else 0)
        value = _inside(value, step)
    at, path, value = _deeper(at, path, value, shape)
    allowed = _choices(shape)
    nearest = nearest_word(value, allowed) if isinstance(value, str) else None
    return lines.error(f"{at}: {message}" if at else message, path, allowed=allowed, nearest=nearest)


def _inside(value: Any, step: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) else None


def _deeper(at: str, path: YamlPath, value: Any, shape: inspect.Type) -> tuple[str, YamlPath, Any]:
    """msgspec writes a mapping's value as `[...]`: finds which one it was by its kind."""
    shape = _shape_for(value, shape)
    if not isinstance(shape, inspect.DictType) or not isinstance(value, dict):
        return at, path, value
    for key, item in value.items():
        if not _kind_fits(item, shape.value_type):
            return f"{at}.{key}" if at else key, (*path, key), item
    return at, path, value


def _kind_fits(value: Any, shape: inspect.Type) -> bool:
    kinds: tuple[tuple[type, type[inspect.Type]], ...] = (
        (bool, inspect.BoolType),
        (int, inspect.IntType),
        (float, inspect.FloatType),
        (str, inspect.StrType),
        (dict, inspect.DictType),
        (list, inspect.ListType),
        (type(None), inspect.NoneType),
    )
    shapes = shape.types if isinstance(shape, inspect.UnionType) else (shape,)
    if any(isinstance(one, inspect.AnyType) for one in shapes):
        return True
    found = [wanted for kind, wanted in kinds if type(value) is kind]
    if type(value) is dict:
        found.append(inspect.StructType)
    if type(value) is int:
        found.append(inspect.FloatType)
    if type(value) is str:
        found += [inspect.LiteralType, inspect.EnumType]
    return any(isinstance(one, tuple(found)) for one in shapes)


def _choices(shape: inspect.Type) -> tuple[str, ...]:
    shapes = shape.types if isinstance(shape, inspect.UnionType) else (shape,)
    found: list[str] = []
    for one in shapes:
        if isinstance(one, inspect.LiteralType):
            found += [str(value) for value in one.values]
        elif isinstance(one, inspect.EnumType):
            found += [str(member.value) for member in one.cls]
    return tuple(found)


def _shown(key: str) -> str:
    printable = "".join(char if char.isprintable() else "?" for char in key)
    return printable if len(printable) <= 80 else printable[:77] + "…"
