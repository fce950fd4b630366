"""Stages and numbers from vLLM's own words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from vllm_lines import printed, rows

from engine_probe.events import StageEntered, StageLeft
from engine_probe.logs.lines import read_line
from engine_probe.logs.stage_tracker import StageTracker
from engine_probe.logs.stages import Wordings, read_wordings
from engine_probe.logs.versions import is_in
from engine_probe.strict_yaml import InputError

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def wordings() -> Wordings:
    return read_wordings()


def track(wordings: Wordings, name: str) -> tuple[list[str], dict[str, object]]:
    tracker = StageTracker(wordings, "m")
    entered: list[str] = []
    facts: dict[str, object] = {}
    for number, line in enumerate((DATA / name).read_text(encoding="utf-8").splitlines()):
        entered += [one.stage for one in tracker.feed(line, float(number)) if isinstance(one, StageEntered)]
        facts |= wordings.facts_in(read_line(line).message)
    return entered, facts


START = ["config", "engine_build", "worker_start", "distributed_init", "weight_load", "memory_planning"]


def test_a_start_that_succeeds(wordings: Wordings) -> None:
    entered, facts = track(wordings, "vllm-0.32.0-cpu-ready.log")
    assert entered == [*START, "warmup"]
    assert facts["kv.tokens"] == 1536
    assert facts["engine.max_model_len"] == 1408
    assert facts["kv.max_concurrency"] == 1.09
    assert facts["init.engine_s"] == 0.39
    assert facts["weights.load_s"] == 0.06
    assert facts["engine.vllm_version"] == "0.32.0"


def test_a_start_that_fails_stays_in_its_stage(wordings: Wordings) -> None:
    entered, facts = track(wordings, "vllm-0.32.0-cpu-kv-too-small.log")
    assert entered == START
    assert facts["kv.available_gib"] == 0.09
    assert "kv.tokens" not in facts


def test_a_stage_entered_again_goes_on_counting(wordings: Wordings) -> None:
    tracker = StageTracker(wordings, "m")
    tracker.enter("memory_planning", 0.0)
    tracker.feed("Dynamo bytecode transform time: 5.93 s", 2.0)  # compilation inside the profile run
    again = tracker.feed("Available KV cache memory: 2.87 GiB", 5.0)
    assert again == [
        StageLeft("m", 5.0, stage="warmup", seconds=3.0),
        StageEntered("m", 5.0, stage="memory_planning"),
    ]
    assert tracker.finish(6.0, completed=False) == [
        StageLeft("m", 6.0, stage="memory_planning", seconds=3.0, completed=False)
    ]
    assert tracker.finish(7.0, completed=True) == []


def test_the_first_message_begins_the_configuration(wordings: Wordings) -> None:
    tracker = StageTracker(wordings, "m")
    assert tracker.feed("anything", 1.0) == [StageEntered("m", 1.0, stage="config")]
    assert tracker.feed("anything else", 2.0) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("-|note|-|a|-|(|-|-\n\tx", "does not compile"),
        ("-|note|-|a|-|abc|-|-\n\tx", "does not match its sample"),
        ("-|note|-|a|-|abc|-|-", "has no sample"),
        ("-|note|-|a|-|abc|-|-\n-|note|-|a|-|abd|-|-\n\tabd", "has no sample"),
        ("nowhere|note|-|a|-|abc|-|-\n\tabc", "no such stage"),
        ("config|sometimes|-|a|-|abc|-|-\n\tabc", "no such role"),
        ("-|note|-|a|-|abc|kv.tokens=tokens|-\n\tabc", "has no group tokens"),
        ("-|note|-|a|-|(?P<n>\\d+)|kv.tokens=n|-\n\t7", "yields"),
        ("-|note|-|a|-|abc|-", "has 7 columns"),
        ("\tabc", "without a wording"),
    ],
)
def test_a_wrong_wording_is_told_with_its_line(tmp_path: Path, rows: str, said: str) -> None:
    path = tmp_path / "stages.tsv"
    path.write_text("# a comment\n" + rows.replace("|", "\t") + "\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_wordings(path)
    assert said in str(error.value)
    assert re.search(r"stages\.tsv:[23]", str(error.value))


@pytest.mark.parametrize("row", rows("markers.tsv"), ids=lambda row: f"{row[0]}-{row[6][:30]}")
def test_every_marker_of_14_releases_tells_its_stage(wordings: Wordings, row: list[str]) -> None:
    stage, role, first, last, file, layer, text = row
    for release in {first, last}:
        read = read_line(printed(release, file, 7, "INFO", text) if file != "-" else text)
        marker = wordings.marker_of(read.message)
        assert marker is not None
        assert marker.stage == stage
        assert is_in(first, marker.releases)
        assert is_in(last, marker.releases)
        assert (marker.role == "error") == (role == "error")
        assert role != "start" or marker.enters is not None
        assert marker.layer in (None, layer) or layer in ("unknown", "-") or role in ("progress", "end")


@pytest.mark.parametrize(
    ("message", "version", "means_nothing"),
    [
        ("Starting to load model acme/m-7b...", "0.10.2", False),
        ("Starting to load model acme/m-7b...", "0.11.0", True),
        ("Starting to load model acme/m-7b...", "0.11.2", True),
        ("Available KV cache memory: 2.87 GiB", "0.10.2", False),
        ("Available KV cache memory: 2.87 GiB", "0.20.2", True),
        ("Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]", "0.5.5", True),
        ("Using V2 Model Runner", "0.33.0", True),
        ("anything", "0.33.0", None),
        ("Starting to load model acme/m-7b...", None, None),
    ],
)
def test_what_silence_of_other_ranks_means(
    wordings: Wordings, message: str, version: str | None, means_nothing: bool | None
) -> None:
    assert wordings.means_nothing_of_other_ranks(message, version) is means_nothing


def test_numbers_that_are_names_stay_text(wordings: Wordings) -> None:
    assert wordings.facts_in("vLLM API server version 0.10") == {"engine.vllm_version": "0.10"}
    assert wordings.facts_in("GPU KV cache size: , tokens") == {}
