"""Where logs come from: words for them, the programs that print them, and pipes kept in a file."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from engine_probe.errors import InputError
from engine_probe.logs.source_child import Child
from engine_probe.logs.sources import Source, parse_source, short_names


def program(folder: Path, name: str, script: str) -> None:
    """A stand-in for `docker` and its like."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize(
    ("word", "source"),
    [
        ("-", Source("stdin", "-")),
        ("vllm.log", Source("file", "vllm.log")),
        ("./docker:x", Source("file", "./docker:x")),
        ("other:x", Source("file", "other:x")),
        ("docker:vllm", Source("docker", "vllm")),
        ("unit:vllm@1.service", Source("unit", "vllm@1.service")),
        ("pod:prod/vllm-0", Source("pod", "prod/vllm-0")),
        ("ssh:me@node7:/var/log/vllm.log", Source("ssh", "me@node7:/var/log/vllm.log")),
    ],
)
def test_words(word: str, source: Source) -> None:
    assert parse_source(word) == source
    assert source.label == word


@pytest.mark.parametrize(
    "word",
    ["docker:", "docker:--help", "pod:a/-n", "pod:/x", "unit:-x", "ssh:node7", "ssh:-o:x", "ssh::/x", "ssh:/a:b"],
)
def test_what_is_no_name_is_refused_and_never_becomes_an_option(word: str) -> None:
    with pytest.raises(InputError, match="is no name of a"):
        parse_source(word)


@pytest.mark.parametrize(
    ("word", "follow", "argv"),
    [
        ("docker:vllm", False, "docker logs vllm"),
        ("docker:vllm", True, "docker logs -f vllm"),
        ("unit:vllm", False, "journalctl --no-pager -q -o short -u vllm"),
        ("unit:vllm", True, "journalctl --no-pager -q -o short -f --no-tail -u vllm"),
        ("pod:vllm-0", False, "kubectl logs vllm-0"),
        ("pod:prod/vllm-0", True, "kubectl logs -f -n prod vllm-0"),
        ("ssh:n:/a b", False, "ssh -T -o BatchMode=yes -o ConnectTimeout=10 n cat -- '/a b'"),
        ("ssh:n:~/a", True, "ssh -T -o BatchMode=yes -o ConnectTimeout=10 n tail -n +1 -F -- ~/a"),
    ],
)
def test_commands(word: str, follow: bool, argv: str) -> None:
    assert " ".join(parse_source(word).argv(follow=follow)) == argv


def read_all(descriptor: int) -> bytes:
    blocks = []
    while block := os.read(descriptor, 4096):
        blocks.append(block)
    return b"".join(blocks)


def test_both_streams_of_a_program_are_the_log(bin_folder: Path) -> None:
    program(bin_folder, "docker", 'echo "$@"; echo traceback >&2')
    with Child(parse_source("docker:vllm"), follow=False) as child:
        assert read_all(child.output) == b"logs vllm\ntraceback\n"
        assert child.failure() is None


def test_a_program_that_fails_says_how(bin_folder: Path) -> None:
    program(bin_folder, "kubectl", "exit 3")
    with Child(parse_source("pod:vllm-0"), follow=False) as child:
        assert read_all(child.output) == b""
        assert child.failure() == "pod:vllm-0: kubectl logs vllm-0 ended with exit code 3"


def test_a_program_that_is_not_there_is_an_input_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="docker:vllm: docker is not on PATH"):
        Child(parse_source("docker:vllm"), follow=True)


def test_a_program_ends_with_its_block(bin_folder: Path) -> None:
    program(bin_folder, "docker", "echo $$; exec tail -f /dev/null")
    with Child(parse_source("docker:vllm"), follow=True) as child:
        pid = int(os.read(child.output, 100))
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal on the parent's death is Linux's")
def test_a_program_ends_when_we_are_killed(bin_folder: Path) -> None:
    program(bin_folder, "docker", "echo $$; exec tail -f /dev/null")
    code = (
        "import os, signal\n"
        "from engine_probe.logs.source_child import *\n"
        "from engine_probe.logs.sources import *\n"
        "with Child(parse_source('docker:x'), follow=True) as child:\n"
        "    print(os.read(child.output, 100).decode(), end='', flush=True)\n"
        "    signal.pause()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        process.wait()
        assert select.select([child], [], [], 30)[0], "the program outlived us"
        os.close(child)


def test_a_program_that_ignores_the_polite_signal_is_killed(bin_folder: Path) -> None:
    program(bin_folder, "docker", "trap '' TERM; echo $$; while :; do sleep 1; done")
    with Child(parse_source("docker:vllm"), follow=True) as child:
        pid = int(os.read(child.output, 100))
    assert not Path(f"/proc/{pid}").exists()


def test_short_names_tell_sources_apart() -> None:
    words = ["a.log", "x/b.log", "y/b.log", "docker:vllm", "unit:vllm", "-", "pod:prod/vllm-0"]
    assert short_names([parse_source(word) for word in words]) == [
        "a.log", "x/b.log", "y/b.log", "docker:vllm", "unit:vllm", "stdin", "vllm-0"
    ]  # fmt: skip


def test_a_program_that_cannot_run_is_an_input_error(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(bin_folder))
    (bin_folder / "docker").write_bytes(b"\x00\x01")
    (bin_folder / "docker").chmod(0o755)
    with pytest.raises(InputError, match="docker:vllm: cannot run docker"):
        Child(parse_source("docker:vllm"), follow=True).start()
