"""Exceptions: cover messages are never the root, and the layer is that of the frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_probe.logs.covers import read_wrappers
from engine_probe.strict_yaml import InputError
from playbooks.exceptions import exception_line, layer_of_exception, make_evidence, root_exception
from playbooks.releases import release_fits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace.",
        "EngineCore failed to start.",
        "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
        "Worker proc VllmWorker-0 died unexpectedly, shutting down executor.",
    ],
)
def test_cover_messages(message: str) -> None:
    assert read_wrappers().covers(message)


def test_causes_are_not_covered() -> None:
    wrappers = read_wrappers()
    assert not wrappers.covers("ValueError: No available memory for the cache blocks.")
    assert not wrappers.covers("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")


def test_the_root_is_the_innermost_that_is_no_cover() -> None:
    cover = {"type": "RuntimeError", "message": "Engine core initialization failed. See root cause above."}
    cause = {"type": "safetensors_rust.SafetensorError", "message": "header too large"}
    assert root_exception([cover], read_wrappers()) is None
    assert root_exception([cover, cause], read_wrappers()) is cause
    assert exception_line(cause) == "SafetensorError: header too large"
    assert exception_line({"type": "KeyError", "message": ""}) == "KeyError"


def test_layer_of_an_exception() -> None:
    frames = [{"file": "/x/site-packages/vllm/v1/core/kv_cache_utils.py"}]
    assert layer_of_exception({"frames": frames}) == "engine"
    assert layer_of_exception({"frames": []}) is None
    assert layer_of_exception({}) is None


def test_a_sample_that_a_cover_pattern_misses_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "wrappers.tsv"
    path.write_text("# covers\nabc\n\txabc\n\tabd\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"wrappers\.tsv:4"):
        read_wrappers(path)


def test_evidence_is_bounded() -> None:
    assert len(make_evidence("a.log", 1, "x" * 10_000).text) < 2_010


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("0.32.0", ">=0.2.7", True),
        ("0.2.6", ">=0.2.7", False),
        ("0.8.5.post1", ">=0.8.5,<0.11", True),
        ("0.11.0", ">=0.8.5,<0.11", False),
        ("0.10.2", "==0.10.2", True),
        ("0.10.2", "", True),
        ("0.16.0rc1", "<=0.16", True),
    ],
)
def test_release_ranges(version: str, wanted: str, fits: bool) -> None:
    assert release_fits(version, wanted) is fits
