"""Reads a command that starts vLLM into a Launch: `vllm serve …`, the API server's module, `docker run … IMAGE …`.

What a shell would do around it is left alone: variables stay as written, redirections and other commands are dropped.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from engine_probe.arg_values import canonical_name, canonical_value, is_negative_number
from engine_probe.errors import InputError
from engine_probe.flags import check_flags, flag_for, flag_table
from engine_probe.launch import EngineSpec, Launch, Piece, Written
from engine_probe.lora_modules import split_lora
from engine_probe.places import snippet
from engine_probe.shell_words import Word, place_at, split

if TYPE_CHECKING:
    from collections.abc import Sequence

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_IMAGE = re.compile(r"(?=[^@]*vllm)[a-z0-9][\w./:-]*(?:@sha256:[0-9a-f]+)?", re.IGNORECASE)
_API_SERVER = "vllm.entrypoints.openai.api_server"
# Options of `docker run` whose value could look like an image.
_DOCKER_VALUES = frozenset(
    ("--name", "--hostname", "-h", "-v", "--volume", "-e", "--env", "--network", "--net", "-w", "-u", "--user", "-l")
)
_ATTACHED = re.compile(r"-([a-zA-Z])(=?)(.+)", re.DOTALL)


def parse_command(
    text_or_argv: str | Sequence[str],
    name: str | None = None,
    source: str = "command line",
    vllm_version: str | None = None,
    engine_flags: frozenset[str] | None = None,
) -> Launch:
    """The launch that a command starts; with a version, flags that this vLLM lacks are errors. Errors: InputError."""
    if isinstance(text_or_argv, str):
        text: str | None = text_or_argv
        command = _serving_command(split(text_or_argv, source), text_or_argv, source)
    else:
        text, command = None, [Word(word, number, number + 1) for number, word in enumerate(text_or_argv)]
    reader = _Reader(command, text, source)
    launch = reader.launch(name)
    for problem in check_flags(launch, vllm_version, engine_flags) if vllm_version or engine_flags else []:
        if problem.severity == "error":
            reader.fail(problem.text, reader.word_of(problem.name), nearest=problem.nearest)
    return launch


def _serving_command(words: list[Word], text: str, source: str) -> list[Word]:
    """Of several commands in a text, the one that serves, behind what was exported before it."""
    exported: list[Word] = []
    for command in _commands(words):
        if command[0].text == "export":
            exported += command[1:]
        elif _entry_length([word.text for word in command if not _ASSIGNMENT.fullmatch(word.text)]):
            return exported + command
    if all(word.operator for word in words):
        raise InputError("no command", file=source)
    place = place_at(text, words[0].start, words[0].end)
    message = "no command that starts vLLM: `vllm serve MODEL …` is wanted"
    raise InputError(message, file=source, line=place.line, snippet=snippet(text, place))


def _commands(words: list[Word]) -> list[list[Word]]:
    commands: list[list[Word]] = [[]]
    redirected = False
    for word in words:
        if not word.operator:
            if not redirected:
                commands[-1].append(word)
            redirected = False
        elif word.text[0] in "<>" or word.text == "&>":
            redirected = True
            if commands[-1] and commands[-1][-1].end == word.start and commands[-1][-1].text.isdigit():
                commands[-1].pop()
        else:
            commands.append([])
    return [command for command in commands if command]


def _entry_length(words: list[str]) -> int:
    """How many words come before vLLM's own arguments; 0: this starts no server."""
    for number, word in enumerate(words):
        if word == "serve" and number and words[number - 1].rpartition("/")[2] == "vllm":
            return number + 1
        if word in (_API_SERVER, "vllm.entrypoints.cli.main") and number and words[number - 1] == "-m":
            return number + 1 if word == _API_SERVER else number + 2
        if word.endswith("/entrypoints/openai/api_server.py"):
            return number + 1
    return _docker_length(words)


def _docker_length(words: list[str]) -> int:
    if "run" not in words or (words[0] == "sudo" and len(words) < 3) or not _runs_images(words):
        return 0
    for number in range(words.index("run") + 1, len(words)):
        if _IMAGE.fullmatch(words[number]) and words[number - 1] not in _DOCKER_VALUES:
            return number + 1
    return 0


def _runs_images(words: list[str]) -> bool:
    tool = words[1] if words[0] == "sudo" else words[0]
    return tool.rpartition("/")[2] in ("docker", "podman", "nerdctl")


class _Reader:
    def __init__(self, command: list[Word], text: str | None, source: str) -> None:
        self.command = command
        self.text = text
        self.source = source
        self.pieces: list[Piece] = []
        self.raw: dict[str, Any] = {}
        self.words_by_name: dict[str, Word] = {}

    def launch(self, name: str | None) -> Launch:
        env, words = self.environment()
        length = _entry_length([word.text for word in words])
        if not length:
            self.fail("this starts no vLLM: `vllm serve MODEL …` is wanted", self.command[0] if self.command else None)
        self.arguments(words[length:])
        model = self.raw.pop("model", None)
        if not isinstance(model, str) or not model:
            self.fail("no model: `vllm serve MODEL …` is wanted", words[length - 1])
        args = {key: canonical_value(key, raw) for key, raw in self.raw.items()}
        args, lora = split_lora(args)
        gpus = _gpus(env)
        launch = Launch(
            name=name or _name_of(model, args.get("served-model-name")),
            model=model,
            args=args,
            env=env,
            gpus=gpus,
            engine=_engine_of([word.text for word in words[:length]]),
            lora=lora,
            entrypoint=tuple(word.text for word in words[:length]),
        )
        return replace(launch, written=Written(tuple(self.pieces), launch.values()))

    def environment(self) -> tuple[dict[str, str], list[Word]]:
        """Assignments in front (`A=b`, `env A=b`), and the words after them."""
        env: dict[str, str] = {}
        words = list(self.command)
        while words and (match := _ASSIGNMENT.fullmatch(words[0].text)):
            env[match[1]] = match[2]
            words.pop(0)
            if words and words[0].text == "env" and len(words) > 1 and _ASSIGNMENT.fullmatch(words[1].text):
                words.pop(0)
        if not env and len(words) > 1 and words[0].text == "env" and _ASSIGNMENT.fullmatch(words[1].text):
            self.command = words[1:]
            return self.environment()
        return env, words

    def arguments(self, words: list[Word]) -> None:
        at = 0
        while at < len(words):
            word = words[at].text
            if word == "--" and at == len(words) - 1:
                self.pieces.append(Piece("", (word,)))
                at += 1
            elif word.startswith("-") and len(word) > 1 and not is_negative_number(word):
                at = self.option(words, at)
            else:
                self.positional(words[at])
                at += 1

    def positional(self, word: Word) -> None:
        if "model" in self.raw:
            self.fail(f'the word "{word.text}" belongs to no flag, and the model is given already', word)
        self.raw["model"] = word.text
        self.pieces.append(Piece("model", (word.text,)))

    def option(self, words: list[Word], at: int) -> int:
        """Reads one flag with its values; returns where the next begins."""
        word = words[at]
        head, attached = _split_option(word.text)
        name, negated = canonical_name(head)
        if attached is None and not negated and (compact := _compact(word.text)):
            name, attached = compact
        values = [attached] if attached is not None else []
        end = at + 1
        if attached is None and not negated:
            end = self.values_end(name, words, at)
            values = [one.text for one in words[at + 1 : end]]
        if head == "-O" and values and values[0].startswith("{"):
            name = "compilation-config"
        if name == "model" and "model" in self.raw:
            self.fail("the model is given twice", word)
        self.set(name, negated, values, word)
        self.pieces.append(Piece(name, tuple(one.text for one in words[at:end])))
        return end

    def values_end(self, name: str, words: list[Word], at: int) -> int:
        flag = flag_for(name)
        end = at + 1
        kind = "1" if "." in name else flag.values if flag else "?"
        if kind in ("switch", "on"):
            return end + 1 if end < len(words) and words[end].text.lower() in ("true", "false") else end
        while end < len(words) and _is_value(words[end].text) and (kind == "+" or end == at + 1):
            end += 1
        if end == at + 1 and kind in ("1", "+", "append") and "." not in name:
            self.fail(f'the flag "{words[at].text}" needs a value', words[at])
        return end

    def set(self, name: str, negated: bool, values: list[str], word: Word) -> None:
        flag = flag_for(name)
        self.words_by_name.setdefault(name.partition(".")[0], word)
        if (flag is not None and flag.values == "append") or name.endswith("+"):
            self.raw[name] = (*self.raw.get(name, ()), *values)
        elif not values:
            self.raw[name] = not negated
        else:
            self.raw[name] = values[0] if len(values) == 1 else tuple(values)

    def word_of(self, name: str) -> Word | None:
        return self.words_by_name.get(name)

    def fail(self, message: str, word: Word | None, nearest: str | None = None) -> NoReturn:
        if self.text is None or word is None:
            at = f" (word {word.start + 1} of the command)" if word is not None else ""
            raise InputError(message + at, file=self.source, nearest=nearest)
        place = place_at(self.text, word.start, word.end)
        at = f" (at character {word.start + 1})"
        raise InputError(
            message + at, file=self.source, line=place.line, snippet=snippet(self.text, place), nearest=nearest
        )


def _is_value(word: str) -> bool:
    return not word.startswith("-") or word == "-" or is_negative_number(word)


def _split_option(word: str) -> tuple[str, str | None]:
    head, equals, attached = word.partition("=")
    return head, attached if equals else None


def _compact(word: str) -> tuple[str, str] | None:
    """-O3, -O.mode=3 (vllm/utils/argparse_utils.py) and short flags of one letter with their value, -qawq."""
    match = _ATTACHED.fullmatch(word)
    if match is None or (canonical_name(word.partition(".")[0])[0] in flag_table().flags and match[1] != "O"):
        return None
    name = canonical_name(match[1])[0]
    if name not in flag_table().flags or word.startswith("--") or match[3].startswith("."):
        return None
    return name, match[3]


def _gpus(env: dict[str, str]) -> tuple[int, ...] | None:
    """Takes CUDA_VISIBLE_DEVICES out of `env` where it is a list of indices; a UUID stays there."""
    visible = env.get("CUDA_VISIBLE_DEVICES", "")
    if not re.fullmatch(r"\d{1,3}(,\d{1,3})*", visible):
        return None
    del env["CUDA_VISIBLE_DEVICES"]
    if env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        del env["CUDA_DEVICE_ORDER"]
    return tuple(int(index) for index in visible.split(","))


def _engine_of(entry: list[str]) -> EngineSpec | None:
    if entry and _docker_length(entry) and _runs_images(entry):
        image = next((word for word in reversed(entry) if _IMAGE.fullmatch(word)), None)
        return EngineSpec(image=image, run=entry[1] if entry[0] == "sudo" else entry[0])
    return None


def _name_of(model: str, served: Any) -> str:
    first = served[0] if isinstance(served, tuple) and served else served
    return str(first) if first else model.rstrip("/").rpartition("/")[2] or model
