"""`vllm-console plan` of folders that are damaged or made to harm: one clear error, exit code 2, little memory."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import resource
import struct
from typing import TYPE_CHECKING, Any

import pytest

from tests.memory_configs import LLAMA_8B
from tests.memory_folders import write_config
from tui.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Make = Callable[[Path], object]

pytestmark = pytest.mark.timeout(60)
HARDWARE = ("--gpus", "8xA100-80GB", "--vllm", "0.19.0")
MIB = 1 << 20
LARGEST_GROWTH_KIB = 512 << 10


@pytest.fixture(autouse=True)
def no_gigabytes() -> Iterator[None]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < LARGEST_GROWTH_KIB


def plan(capsys: pytest.CaptureFixture[str], folder: Path, more: str = "", model: str = "m") -> tuple[int, str, str]:
    path = folder / "deployment.yaml"
    path.write_text(f"models:\n  - {{name: one, model: {model}{more}}}\n", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(path), *HARDWARE, "--json"])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> None:
    code, out, err = plan(capsys, folder)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert len(err) < 1000
    assert str(folder) in err
    for word in words:
        assert word in err


def sparse(path: Path, size: int, beginning: bytes = b"") -> None:
    with path.open("wb") as file:
        file.write(beginning)
        file.truncate(size)


def header(tensors: object) -> bytes:
    text = tensors if isinstance(tensors, bytes) else json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def one_tensor(**changes: Any) -> bytes:
    return header({"model.norm.weight": {"dtype": "BF16", "shape": [4096], "data_offsets": [0, 8192], **changes}})


CONFIGS: dict[str, tuple[Make, str]] = {
    "a pipe": (os.mkfifo, "no regular file"),
    "a folder": (lambda path: path.mkdir(), "no regular file"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "no config.json"),
    "a link to a device without end": (lambda path: path.symlink_to("/dev/zero"), "no regular file"),
    "1 GiB of nothing": (lambda path: sparse(path, 1024 * MIB), "too large"),
    "1 GiB of one text": (lambda path: sparse(path, 1024 * MIB, b'{"a":"'), "too large"),
    "deep": (lambda path: path.write_text('{"a":' * 200_000), "too deeply"),
    "deep lists": (lambda path: path.write_text("[" * 200_000), "too deeply"),
    "a size that is deep": (
        lambda path: path.write_text('{"hidden_size":' + "[" * 900 + "]" * 900 + "}"),
        "hidden_size",
    ),
    "a thousand million layers": (
        lambda path: path.write_text(json.dumps({**LLAMA_8B, "num_hidden_layers": 10**9})),
        "num_hidden_layers is 1000000000",
    ),
    "ten thousand layers": (
        lambda path: path.write_text(json.dumps({**LLAMA_8B, "num_hidden_layers": 10**4})),
        "num_hidden_layers is 10000",
    ),
    "a number of many digits": (
        lambda path: path.write_text('{"hidden_size":' + "9" * 100_000 + "}"),
        "cannot be read",
    ),
    "a hundred thousand kinds of layers": (
        lambda path: path.write_text(json.dumps({**LLAMA_8B, "layer_types": ["full_attention"] * 10**5})),
        "layer_types",
    ),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_config_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    make, word = CONFIGS[kind]
    (tmp_path / "m").mkdir()
    make(tmp_path / "m" / "config.json")
    refused(capsys, tmp_path, word)


WEIGHTS: dict[str, bytes] = {
    "a length of 2^60": struct.pack("<Q", 1 << 60) + b"{}",
    "a length of 2^64 - 1": b"\xff" * 8 + b"{}",
    "a length behind its end": struct.pack("<Q", 4096) + b"{}",
    "deep": header(b'{"a":' * 100_000),
    "deep lists": header(b'{"a":' + b"[" * 200_000),
    "a negative shape": one_tensor(shape=[-1, 4096]),
    "a negative place": one_tensor(data_offsets=[8192, 0]),
    "other bytes than its shape": one_tensor(shape=[4097]),
    "more than any model": one_tensor(shape=[1 << 62, 1 << 62], data_offsets=[0, 1 << 125]),
    "a hundred thousand dimensions": one_tensor(shape=[9_999_999_999] * 100_000),
    "a shape without end": header(b'{"a":{"dtype":"BF16","shape":[1e999],"data_offsets":[0,NaN]}}'),
    "a number of many digits": header(b'{"a":{"dtype":"BF16","shape":[' + b"9" * 100_000 + b'],"data_offsets":[0,2]}}'),
    "millions of names": header(b"{" + b",".join(b'"%d":1' % number for number in range(3_000_000)) + b"}"),
    "millions of lists": header(b'{"a":[' + b"[]," * 5_000_000 + b"1]}"),
    "no object": header([1, 2, 3]),
    "no tensors": header({"a": 1}),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_headers_of_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    (write_config(tmp_path / "m", LLAMA_8B) / "model.safetensors").write_bytes(WEIGHTS[kind])
    refused(capsys, tmp_path)


PLACES: dict[str, Make] = {
    "a pipe": os.mkfifo,
    "a folder": lambda path: path.mkdir(),
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a long header of nothing": lambda path: sparse(path, 90 * MIB, struct.pack("<Q", 80 * MIB)),
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("name", ["model.safetensors", "w.safetensors"])
def test_what_stands_where_weights_should(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, name: str
) -> None:
    folder = write_config(tmp_path / "m", LLAMA_8B)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}), encoding="utf-8")
    PLACES[kind](folder / name)
    refused(capsys, tmp_path, name)


@pytest.mark.parametrize(
    "make", [lambda path: sparse(path, 1024 * MIB), lambda path: path.write_text("[" * 200_000), os.mkfifo]
)
def test_an_index_of_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Make) -> None:
    make(write_config(tmp_path / "m", LLAMA_8B) / "model.safetensors.index.json")
    refused(capsys, tmp_path, "model.safetensors.index.json")


def test_a_pipe_instead_of_gguf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m").mkdir()
    os.mkfifo(tmp_path / "m" / "model.gguf")
    refused(capsys, tmp_path, "model.gguf")


def test_a_folder_that_is_a_link_to_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m").symlink_to("m")
    code, out, err = plan(capsys, tmp_path, model="./m")
    assert (code, out) == (2, "")
    assert f"there is no model at {tmp_path / 'm'}" in err


def test_a_config_that_may_not_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read everything, so the system's answer is given in its place."""

    read = pathlib.Path.read_bytes

    def denied(path: Path) -> bytes:
        if path.name != "config.json":
            return read(path)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    write_config(tmp_path / "m", LLAMA_8B)
    monkeypatch.setattr(pathlib.Path, "read_bytes", denied)
    refused(capsys, tmp_path, "config.json", "Permission denied")


def test_a_ref_of_the_cache_that_is_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refs = tmp_path / "hub" / "models--acme--m" / "refs"
    refs.mkdir(parents=True)
    os.mkfifo(refs / "main")
    code, out, err = plan(capsys, tmp_path, f", env: {{HF_HOME: {tmp_path}}}", "acme/m")
    assert (code, out) == (2, "")
    assert "acme/m is no folder here" in err


SIDES = ("quantize_config.json", "hf_quant_config.json", "generation_config.json", "params.json", "tokenizer.json")


@pytest.mark.parametrize("name", SIDES)
def test_a_pipe_beside_a_good_config_holds_nothing_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    os.mkfifo(write_config(tmp_path / "m", LLAMA_8B) / name)
    assert plan(capsys, tmp_path)[0] in (0, 2)


ADAPTERS: dict[str, Make] = {
    "a pipe": os.mkfifo,
    "a folder": lambda path: path.mkdir(),
    "1 GiB of nothing": lambda path: sparse(path, 1024 * MIB),
    "deep": lambda path: path.write_text('{"a":' * 200_000),
}


@pytest.mark.parametrize("kind", ADAPTERS)
def test_an_adapter_that_cannot_be_read_holds_nothing_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    write_config(tmp_path / "m", LLAMA_8B)
    (tmp_path / "adapter").mkdir()
    ADAPTERS[kind](tmp_path / "adapter" / "adapter_config.json")
    assert plan(capsys, tmp_path, ", lora: {a: adapter}")[0] in (0, 2)
