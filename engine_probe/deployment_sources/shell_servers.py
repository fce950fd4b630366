"""The words of one command that starts vLLM → a server: on this host, in a container, behind nohup, screen or tmux."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.command_line import parse_command
from engine_probe.deployment import FILE_ARGS, placed_arg, placed_path
from engine_probe.deployment_sources.containers import (
    check_flags_known,
    launch_of,
    placed,
    shell_text_of,
    starts_vllm,
    words_of,
)
from engine_probe.deployment_sources.docker_run import TOOLS, read_run
from engine_probe.deployment_sources.places import shown
from engine_probe.deployment_sources.shell_found import SERVES, Server
from engine_probe.errors import InputError
from engine_probe.redact import names_a_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine_probe.deployment_sources.containers import Container
    from engine_probe.deployment_sources.shell_expand import Scope
    from engine_probe.deployment_sources.shell_found import Context, Found
    from engine_probe.launch import Launch

_PREFIXES = frozenset(
    """
    nohup exec setsid time command stdbuf nice ionice numactl taskset timeout sudo env uv conda mamba micromamba poetry
    pipenv nsys ncu chrt prlimit unbuffer
    """.split()  # noqa: SIM905 - a list of words
)
_SCREENS = frozenset(("screen", "tmux", "byobu"))
_MATTERS = re.compile(r"(?:VLLM|CUDA|HF|NCCL|NVIDIA|TORCH|PYTORCH)_")
_MOST_SERVERS = 200


class Starter:
    """`folder`: where relative paths lie now. `inner` reads the text that another shell is given."""

    def __init__(self, context: Context, found: Found, inner: Callable[[str, Scope, bool], None]) -> None:
        self.context = context
        self.folder = context.folder
        self.found = found
        self.inner = inner

    def start(self, words: Sequence[str], scope: Scope, unknown: tuple[str, ...], is_in_background: bool) -> None:
        """`unknown`: parts of the words that are computed."""
        first = posixpath.basename(words[0])
        texts = [word for word in words[1:] if " " in word and SERVES.search(word)]
        at = next((number for number in range(len(words)) if _begins(words[number:])), None)
        if (first in _SCREENS or first == "eval") and at is None and texts:
            self.inner(texts[0].replace("\\n", "\n"), scope, is_in_background or first in _SCREENS)
        elif at is None or (at and first not in _PREFIXES | _SCREENS):
            self.found.note(f"not understood: {shown(' '.join(words))}")
        else:
            _set_by_prefix(words[:at], scope)
            self.begin(words[at:], scope, unknown, is_in_background or first in _SCREENS)

    def begin(self, words: Sequence[str], scope: Scope, unknown: tuple[str, ...], is_in_background: bool) -> None:
        if (text := shell_text_of(words)) is not None:
            self.inner(text, scope, is_in_background)
            return
        try:
            if posixpath.basename(words[0]) in TOOLS:
                self.container(words, scope, unknown, is_in_background)
            else:
                env = self.environment(scope)
                launch = parse_command([*(f"{name}={value}" for name, value in env.items()), *words])
                self.add(self.on_host(launch), unknown, is_in_background)
        except InputError as error:
            if error.line is not None:
                raise
            if unknown:
                self.found.note(f"not understood, for {shown(unknown[0])} is computed: {shown(' '.join(words))}")
                return
            message, source = error.message, self.context.source
            raise InputError(message, file=source, line=self.found.line, nearest=error.nearest) from None

    def container(self, words: Sequence[str], scope: Scope, unknown: tuple[str, ...], is_in_background: bool) -> None:
        run = read_run(words, {**scope.env, **scope.exported_values()[0]}, self.folder)
        inside = words_of(run.container)
        text = shell_text_of(inside)
        if text is not None:
            launch, notes = self.in_shell(run.container, text)
        elif starts_vllm(inside):
            launch, notes = launch_of(run.container, inside, self.context.source)
        else:
            self.found.note(f"what the image {shown(run.container.image or '')} runs is not known")
            return
        for one in (*run.notes, *notes):
            self.found.note(one)
        self.add(launch, unknown, is_in_background or run.is_detached)

    def in_shell(self, container: Container, text: str) -> tuple[Launch, list[str]]:
        from engine_probe.deployment_sources.shell_commands import read_text_of_shell  # noqa: PLC0415 - it uses this

        context = self.context._replace(folder=Path(container.working_dir), env=container.env)
        found = read_text_of_shell(text, context, first_line=self.found.line, depth=1)
        if len(found.servers) != 1:
            raise InputError(f"the shell in the container starts {len(found.servers)} servers; one is wanted")
        launch = found.servers[0].launch
        made, notes = placed(container, replace(launch, name=container.name or launch.name))
        self.found.notes += found.notes
        return made, notes

    def environment(self, scope: Scope) -> dict[str, str]:
        """What the server is given, without secrets."""
        known, unknown = scope.exported_values()
        for name in unknown:
            if _MATTERS.match(name) and not names_a_secret(name):
                self.found.note_once(name, "it is computed; its value is not known")
        for name in known:
            if names_a_secret(name):
                self.found.note_once(name, "a secret is left where it is; the launch does not hold it")
        return {name: value for name, value in known.items() if not names_a_secret(name) and name != "PATH"}

    def on_host(self, launch: Launch) -> Launch:
        """Relative paths as the script would find them from where it stands."""
        files = {name: placed_arg(name, value, self.folder) for name, value in launch.args.items() if name in FILE_ARGS}
        lora = {name: placed_path(path, self.folder) for name, path in launch.lora.items()}
        model = placed_path(launch.model, self.folder)
        return replace(launch, model=model, args={**launch.args, **files}, lora=lora)

    def add(self, launch: Launch, unknown: tuple[str, ...], is_in_background: bool) -> None:
        computed = [part for part in dict.fromkeys(unknown) if part]
        if any(part in launch.model for part in computed):
            self.found.note(
                f"its model is computed, so this server is not part of the deployment: {shown(launch.model)}"
            )
            return
        check_flags_known(launch, self.context.engine_flags)
        for part in computed:
            self.found.note(f"computed, and left as it is written: {shown(part)}")
        if len(self.found.servers) >= _MOST_SERVERS:
            message = f"starts more than {_MOST_SERVERS} servers"
            raise InputError(message, file=self.context.source, line=self.found.line)
        self.found.servers.append(Server(launch, self.found.place, is_in_background))


def _begins(words: Sequence[str]) -> bool:
    """Whether a server's command begins here."""
    if posixpath.basename(words[0]) in TOOLS:
        return "run" in words[:4] and SERVES.search(" ".join(words)) is not None
    return starts_vllm(words)


def _set_by_prefix(words: Sequence[str], scope: Scope) -> None:
    """`env A=b`, `sudo A=b`."""
    for word in words:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            scope.own[name] = (value,)
            scope.exported.add(name)
