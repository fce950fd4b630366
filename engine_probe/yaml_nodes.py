"""Plain values from a YAML text, with the place of each: no tags, no repeated keys, no unbounded aliases.

ruamel.yaml (YAML 1.2) composes the nodes; values are made here, so that a file can never make an object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from engine_probe.errors import InputError
from engine_probe.places import Place, snippet
from engine_probe.redact import mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ruamel.yaml.nodes import Node

MAX_VALUES = 200_000
"""Of one file, aliases counted each time they are used."""
MAX_DEPTH = 60
_CORE = "tag:yaml.org,2002:"

YamlPath = tuple[str | int, ...]


@dataclass
class Lines:
    """Where each key and item of a decoded file is written. Paths are keys and item numbers from the top."""

    file: str
    text: str
    places: dict[YamlPath, Place] = field(default_factory=dict)
    texts: dict[YamlPath, str] = field(default_factory=dict)

    def line_of(self, path: YamlPath) -> int | None:
        """The line of a key or an item, else of the nearest thing around it; None only without any."""
        place = self.place_of(path)
        return place.line if place else None

    def place_of(self, path: YamlPath) -> Place | None:
        """As `line_of`, with column and width."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path)

    def text_of(self, path: YamlPath) -> str | None:
        """A scalar as it is written, without quotes: `123e4567` where the value is a float."""
        return self.texts.get(path)

    def error(
        self, message: str, path: YamlPath, *, allowed: tuple[str, ...] = (), nearest: str | None = None
    ) -> InputError:
        """An error that shows the line of `path`."""
        return self.error_at(message, self.place_of(path), allowed=allowed, nearest=nearest)

    def error_at(
        self, message: str, place: Place | None, *, allowed: tuple[str, ...] = (), nearest: str | None = None
    ) -> InputError:
        return InputError(
            message,
            file=self.file,
            line=place.line if place else None,
            snippet=snippet(self.text, place) if place else None,
            allowed=allowed,
            nearest=nearest,
        )


def compose(text: str, name: str) -> Node | None:
    """The node tree of one YAML document; None for an empty one. Errors: InputError with line and snippet."""
    lines = Lines(name, text)
    try:
        node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(mark.line + 1, mark.column) if mark else None
        raise lines.error_at(f"not valid YAML: {_problem(error)}", place) from None
    except RecursionError:
        raise InputError("not usable: nested too deeply", file=name) from None
    except (YAMLError, ValueError) as error:
        raise InputError(f"not valid YAML: {mask(str(error).splitlines()[0])}", file=name) from None
    return node


def _problem(error: MarkedYAMLError) -> str:
    problem = str(error.problem or "")
    if "character '\t'" in problem or r"character '\t'" in problem:
        return "a tab stands where blanks must; YAML is indented with blanks only"
    return mask(f"{error.context}: {problem}" if error.context else problem)


def build(node: Node, lines: Lines) -> Any:
    """The node's plain value; `lines` is filled on the way."""
    return _Builder(lines).value(node, (), 0)


@dataclass
class _Builder:
    lines: Lines
    made: int = 0
    open_nodes: set[int] = field(default_factory=set)

    def value(self, node: Node, path: YamlPath, depth: int) -> Any:
        self.count(node)
        self.lines.places.setdefault(path, _place(node))
        if depth > MAX_DEPTH:
            raise self.lines.error(f"nested more than {MAX_DEPTH} deep", path)
        if id(node) in self.open_nodes:
            raise self.lines.error("an alias to something that contains it", path)
        self.open_nodes.add(id(node))
        try:
            return self.content(node, path, depth)
        finally:
            self.open_nodes.discard(id(node))

    def content(self, node: Node, path: YamlPath, depth: int) -> Any:
        kind = str(node.tag)
        if isinstance(node, ScalarNode):
            self.lines.texts[path] = str(node.value)
            return self.scalar(node, path)
        if isinstance(node, SequenceNode) and kind == _CORE + "seq":
            return [self.value(item, (*path, number), depth + 1) for number, item in enumerate(node.value)]
        if isinstance(node, MappingNode) and kind == _CORE + "map":
            return self.mapping(node, path, depth)
        return self.refuse_tag(node)

    def mapping(self, node: MappingNode, path: YamlPath, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        own = True
        for key_node, value_node, level in self.pairs(node, depth):
            key = self.key(key_node)
            here = (*path, key)
            own = own and level == depth
            if key not in result:
                self.lines.places[here] = _place(key_node)
                result[key] = self.value(value_node, here, depth + 1)
            elif own:
                first = self.lines.line_of(here)
                message = f'the key "{_short(key)}" is here twice, first in line {first}'
                raise self.lines.error_at(message, _place(key_node))
        return result

    def pairs(self, node: MappingNode, depth: int) -> Iterator[tuple[Node, Node, int]]:
        """Its own keys, then those that `<<: *other` brings; the level tells them apart."""
        sources: list[Node] = []
        for key_node, value_node in node.value:
            if str(key_node.tag) == _CORE + "merge":
                sources += value_node.value if isinstance(value_node, SequenceNode) else [value_node]
            else:
                self.count(node)
                yield key_node, value_node, depth
        for source in sources:
            self.count(source)
            if not isinstance(source, MappingNode) or depth > MAX_DEPTH:
                raise self.lines.error_at("only other mappings can be merged with <<", _place(source))
            yield from self.pairs(source, depth + 1)

    def key(self, node: Node) -> str:
        if not isinstance(node, ScalarNode) or not str(node.tag).startswith(_CORE):
            raise self.lines.error_at("a key must be a word", _place(node))
        return str(node.value)

    def count(self, node: Node) -> None:
        self.made += 1
        if self.made > MAX_VALUES:
            raise self.lines.error_at(f"more than {MAX_VALUES:,} values, aliases expanded", _place(node))

    def scalar(self, node: ScalarNode, path: YamlPath) -> Any:
        kind, text = str(node.tag).removeprefix(_CORE), str(node.value)
        if kind in ("str", "timestamp"):
            return text
        try:
            if kind == "null":
                return None
            if kind == "bool":
                return text.lower() == "true"
            if kind == "int":
                return _integer(text)
            if kind == "float":
                return _float(text)
        except ValueError:
            raise self.lines.error(f'"{_short(text)}" is no number that can be used', path) from None
        return self.refuse_tag(node)

    def refuse_tag(self, node: Node) -> NoReturn:
        raise self.lines.error_at(
            f"the tag {_short(str(node.tag))} is not allowed here: plain values only", _place(node)
        )


def _integer(text: str) -> int:
    digits = text.replace("_", "").lower()
    if len(digits) > 40:
        raise ValueError(text)
    base = {"0o": 8, "0x": 16, "0b": 2}.get(digits.lstrip("+-")[:2], 10)
    return int(digits, base)


def _float(text: str) -> float:
    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))


def _place(node: Node) -> Place:
    start, end = node.start_mark, node.end_mark
    width = end.column - start.column if end.line == start.line else 1
    return Place(start.line + 1, start.column, max(1, width))


def _short(text: str) -> str:
    printable = "".join(char if char.isprintable() else "?" for char in mask(text))
    return printable if len(printable) <= 80 else printable[:77] + "…"
