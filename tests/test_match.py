"""What playbooks see in messages; cover messages are never a cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.lines import read_line
from engine_probe.strict_yaml import InputError
from playbooks.library import Loaded, load_library
from playbooks.match import (
    Sighting,
    evidence_of,
    exception_line,
    layer_of_exception,
    make_evidence,
    matched,
    root_exception,
    sightings,
)
from playbooks.releases import release_fits
from playbooks.session import Evidence

DATA = Path(__file__).parent / "data"
V0_WORDING = "The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in KV cache"
KV = "kv-cache-too-small-for-max-model-len"


@pytest.fixture(scope="module")
def library() -> tuple[Loaded, ...]:
    """One playbook: how the others share its texts is their own tests' matter."""
    return tuple(one for one in load_library() if one.id == KV)


def seen_in(library: tuple[Loaded, ...], name: str) -> list[Sighting]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    found: list[Sighting] = []
    for number, text in enumerate(lines, 1):
        found += sightings(library, read_line(text).message, make_evidence(name, number, text))
    return found


def test_a_real_log_that_failed(library: tuple[Loaded, ...]) -> None:
    groups = matched(seen_in(library, "vllm-0.32.0-cpu-kv-too-small.log"))
    assert list(groups) == [KV]
    first = groups[KV][0]
    assert first.facts == {"asked_len": 4096, "needed_gib": 0.25, "available_gib": 0.09, "estimated_len": 1408}
    assert first.evidence.line is not None
    text = (DATA / "vllm-0.32.0-cpu-kv-too-small.log").read_text(encoding="utf-8").splitlines()
    assert "To serve at least one request" in text[first.evidence.line - 1]


def test_a_real_log_without_failure(library: tuple[Loaded, ...]) -> None:
    assert seen_in(library, "vllm-0.32.0-cpu-ready.log") == []


def test_the_same_text_is_evidence_once_and_keeps_its_line(library: tuple[Loaded, ...]) -> None:
    message = f"{V0_WORDING} (3664)."
    seen = [
        Sighting(KV, {}, Evidence("load-1.log", None, f"ValueError: {message}")),
        Sighting(KV, {}, Evidence("load-1.log", 65, message)),
        Sighting(KV, {}, Evidence("load-1.log", 90, f"ValueError: {message}")),
    ]
    assert evidence_of(seen) == (Evidence("load-1.log", 65, message),)


def test_another_illness_rules_the_playbook_out(library: tuple[Loaded, ...]) -> None:
    evidence = Evidence("a.log", 1, "")
    known = (
        "The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in KV cache (9)."
    )
    other = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
    assert list(matched(sightings(library, known, evidence))) == [KV]
    assert matched([*sightings(library, known, evidence), *sightings(library, other, evidence)]) == {}


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
def test_cover_messages(library: tuple[Loaded, ...], message: str) -> None:
    assert read_wrappers().covers(message)
    assert sightings(library, message, Evidence("a.log", 1, message)) == []


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


def test_every_wording_that_fits_is_seen_with_what_narrows_it() -> None:
    text = "ValueError: No available memory for the cache blocks."
    seen = [one for one in sightings(load_library(), text, Evidence("a.log", 1, text)) if not one.is_other]
    too_low = [one for one in seen if one.playbook == "utilization-too-low-for-weights"]
    assert {one.certainty for one in too_low} == {"certain", "likely", "possible"}
    assert all("memory.pool_is_fixed is false" in one.when for one in too_low)
