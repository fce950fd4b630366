"""Packed logs are read as if they were not; units and containers that there are not are errors with a reason."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from typing import TYPE_CHECKING

import pytest

from engine_probe.errors import InputError
from engine_probe.logs.follow import Watch
from engine_probe.logs.opening import open_file
from engine_probe.logs.unpacking import packing_of, unpacked
from tests.test_diagnosis import BANNER, COVER, ENGINE, traceback
from tests.test_log_sources import program
from tui.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = BANNER + ENGINE + traceback("ValueError: never heard of") + COVER


def ended(*argv: str) -> int:
    with pytest.raises(SystemExit) as found:
        main(argv)
    return int(found.value.code or 0)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_packed_log_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "vllm.log.1.packed"
    path.write_bytes(pack(LOG.encode()))
    assert ended("diagnose", str(path)) == 3
    assert "acme/small does not start" in capsys.readouterr().out
    assert ended("logs", str(path)) == 0
    assert "ValueError: never heard of" in capsys.readouterr().out


def test_a_packed_log_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log.gz"
    path.write_bytes(gzip.compress(LOG.encode()))
    file = open_file(path)
    try:
        assert Watch(path, file).look(len(LOG)) is None
    finally:
        os.close(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gzip.compress(LOG.encode())[:-20], "cannot unpack"),
        (gzip.compress(LOG.encode())[:20] + b"?" * 90, "cannot unpack"),
        (b"\xfd7zXZ\x00" + b"?" * 90, "cannot unpack"),
    ],
)
def test_a_damaged_one_is_an_error(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "vllm.log.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        open_file(path)


def test_only_so_much_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log.gz"
    path.write_bytes(gzip.compress(b"\0" * 3_000_000))
    file = os.open(path, os.O_RDONLY)
    packing = packing_of(file)
    assert packing is not None
    with pytest.raises(InputError, match=r"holds more than .*; pipe it in: zcat .* \| vllm-console diagnose -"):
        unpacked(file, path, packing, most_bytes=2_000_000)


@pytest.mark.parametrize("command", ["diagnose", "logs"])
def test_a_unit_that_there_is_not_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program(tmp_path, "journalctl", "exit 0")
    assert ended(command, "unit:foo") == 2
    assert "there is no unit foo" in capsys.readouterr().err


def test_a_container_that_there_is_not_is_said_in_the_tools_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program(tmp_path, "docker", "echo 'Error response from daemon: No such container: foo' >&2; exit 1")
    assert ended("diagnose", "docker:foo") == 2
    assert "ended with exit code 1: Error response from daemon: No such container: foo" in capsys.readouterr().err
