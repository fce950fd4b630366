"""Changes one key of a YAML text in place: every other character stays, comments and odd indentation included.

ruamel.yaml says where things are; the text is cut there, because no writer of YAML keeps what a person typed.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any

from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from engine_probe.errors import InputError
from engine_probe.yaml_nodes import compose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ruamel.yaml.nodes import Node

    from engine_probe.yaml_nodes import YamlPath

_PLAIN = re.compile(r"[A-Za-z_/][\w./@%+=-]*", re.ASCII)
# Words that some reader of YAML takes for something else than text.
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


def rendered(value: Any) -> str:
    """A value on one line, as it may stand anywhere in a YAML file."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, float):
        return (
            repr(value) if math.isfinite(value) else ".nan" if math.isnan(value) else f"{'-' if value < 0 else ''}.inf"
        )
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(rendered(item) for item in value) + "]"
    return _rendered_text(str(value))


def _rendered_text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=not text.isprintable())


def set_key(text: str, path: YamlPath, key: str, value: str | None, same: Callable[[str], bool] | None = None) -> str:
    """`text` with `key` of the mapping at `path` set to `value` (YAML on one line), or taken away by None.

    `same` tells which written key is meant, where a key has several forms. A missing mapping is made.
    Errors: InputError where the place is shared through an anchor or an alias, or cannot be found.
    """
    node = _find(text, path)
    if node is None or (isinstance(node, ScalarNode) and not node.value):
        if value is None:
            return text
        return set_key(text, path[:-1], str(path[-1]), f"{{{rendered(key)}: {value}}}")
    if not isinstance(node, MappingNode):
        raise InputError(f"{_dotted(path)} is no mapping")
    matches = same or key.__eq__
    for number, (key_node, _) in enumerate(node.value):
        if matches(str(key_node.value)):
            if value is None:
                return _removed(text, path, node, number)
            return _replaced(text, node.value[number], value, path)
    return text if value is None else _inserted(text, node, f"{rendered(key)}: {value}")


def reordered(text: str, path: YamlPath, order: Sequence[int]) -> str:
    """`text` with the items of the block list at `path` in another order, each with the comment lines above it."""
    node = _find(text, path)
    if not isinstance(node, SequenceNode) or node.flow_style:
        raise InputError(f"{_dotted(path)} is not written as a list with one `-` an item, so its order stays")
    starts = [_item_start(text, item, first=number == 0) for number, item in enumerate(node.value)]
    end = _line_end(text, _content_end(text, node))
    body = text[starts[0] : end]
    cuts = [start - starts[0] for start in starts] + [len(body)]
    spans = [body[a:b] for a, b in itertools.pairwise(cuts)]
    chunks = [span.rstrip("\r\n") for span in spans]
    gaps = [span[len(chunk) :] for span, chunk in zip(spans, chunks, strict=True)]
    moved = "".join(chunks[new] + gap for new, gap in zip(order, gaps, strict=True))
    return text[: starts[0]] + moved + text[end:]


def _find(text: str, path: YamlPath) -> Node | None:
    node = compose(text, "the file")
    for number, step in enumerate(path):
        child, after = _child(node, step)
        if child is None:
            return None
        if child.start_mark.index < after or (child.anchor and number < len(path)):
            raise InputError(
                f"{_dotted(path[: number + 1])} is shared through an anchor or an alias; write it out first"
            )
        node = child
    return node


def _child(node: Node | None, step: str | int) -> tuple[Node | None, int]:
    """The child, and the index that it must start behind if it is written here and is no alias."""
    if isinstance(node, MappingNode):
        for key_node, value_node in node.value:
            if str(key_node.value) == step:
                return value_node, key_node.end_mark.index
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.start_mark.index
    return None, 0


def _replaced(text: str, pair: tuple[Node, Node], value: str, path: YamlPath) -> str:
    key_node, node = pair
    colon = text.index(":", key_node.end_mark.index) + 1
    if node.start_mark.index < key_node.end_mark.index:
        alias = re.compile(r"\s*(\*[^\s,\]}]+)").match(text, colon)
        if alias is None:
            raise InputError(f"{_dotted((*path, str(key_node.value)))} cannot be found in the text")
        return text[: alias.start(1)] + value + text[alias.end(1) :]
    if node.anchor:
        raise InputError(f"{_dotted((*path, str(key_node.value)))} is shared through the anchor &{node.anchor}")
    start, end = node.start_mark.index, _content_end(text, node)
    if start == end:
        return f"{text[:colon]} {value}{text[colon:]}"
    if isinstance(node, (MappingNode, SequenceNode)) and not node.flow_style:
        after_colon = text[colon : _line_end(text, colon)].rstrip()
        return f"{text[:colon]} {value}{after_colon}{text[end:]}"
    return text[:start] + value + text[end:]


def _inserted(text: str, node: MappingNode, entry: str) -> str:
    if node.flow_style:
        close = node.end_mark.index - 1
        inside = text[node.start_mark.index + 1 : close].rstrip()
        at = node.start_mark.index + 1 + len(inside)
        separator = "" if not inside.strip() else " " if inside.endswith(",") else ", "
        return text[:at] + separator + entry + text[at:]
    indent = " " * node.value[0][0].start_mark.column
    at = _line_end(text, _content_end(text, node))
    return f"{text[:at]}{_newline(text)}{indent}{entry}{text[at:]}"


def _removed(text: str, path: YamlPath, node: MappingNode, number: int) -> str:
    key_node, value_node = node.value[number]
    start = key_node.start_mark.index
    if len(node.value) == 1 and path and isinstance(path[-1], str):
        return set_key(text, path[:-1], path[-1], None)
    if node.flow_style or not _first_on_line(text, start):
        if number + 1 < len(node.value):
            return text[:start] + text[node.value[number + 1][0].start_mark.index :]
        start = text.rfind(",", 0, start)
        return text[:start] + text[_pair_end(text, key_node, value_node) :]
    line_start = text.rfind("\n", 0, start) + 1
    end = _line_end(text, _pair_end(text, key_node, value_node))
    after = end + (2 if text.startswith("\r\n", end) else 1)
    return text[:line_start] + text[after:] if after <= len(text) else text[:line_start].rstrip("\r\n")


def _pair_end(text: str, key_node: Node, value_node: Node) -> int:
    if value_node.start_mark.index < key_node.end_mark.index:
        alias = re.compile(r"\s*:\s*\*[^\s,\]}]+").match(text, key_node.end_mark.index)
        return alias.end() if alias else key_node.end_mark.index
    return max(_content_end(text, value_node), text.index(":", key_node.end_mark.index) + 1)


def _content_end(text: str, node: Node) -> int:
    """Where the node's own text ends: a block is said to reach to the next token, over comments."""
    start, end = int(node.start_mark.index), int(node.end_mark.index)
    if isinstance(node, ScalarNode):
        return start + len(text[start:end].rstrip("\r\n")) if node.style in ("|", ">") else end
    if not isinstance(node, (MappingNode, SequenceNode)) or node.flow_style:
        return end
    lines = text[start:end].splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return start + len("".join(lines).rstrip())


def _item_start(text: str, item: Node, *, first: bool) -> int:
    dash = text.rfind("-", 0, item.start_mark.index)
    start = text.rfind("\n", 0, dash) + 1
    while not first and start:
        above = text.rfind("\n", 0, start - 1) + 1
        if not text[above:start].lstrip(" ").startswith("#"):
            break
        start = above
    return start


def _first_on_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if end > at and text[end - 1] == "\r" else end


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _dotted(path: YamlPath) -> str:
    return ".".join(str(step) for step in path) or "the file"
