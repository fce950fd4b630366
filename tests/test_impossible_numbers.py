"""Numbers that cannot be, in logs and launches: what follows from them is unknown, and nothing breaks."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from engine_probe.command_line import parse_command
from engine_probe.facts import Known, Unknown
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from engine_probe.numbers import is_credible, number_in
from playbooks.computed import COMPUTED
from playbooks.conditions import evaluate, parse
from playbooks.diagnosis import Given, diagnose
from playbooks.diagnosis_json import as_object
from playbooks.diagnosis_report import markdown
from playbooks.evidence import Evidence
from playbooks.facts import lookup_for, number_or_text
from playbooks.library import load_library
from playbooks.missing import roots_of
from playbooks.patterns import to_value
from tests.test_library_samples import as_printed

if TYPE_CHECKING:
    from playbooks.library import Loaded

NUMBER = re.compile(r"\d+(?:\.\d+)?")
HOSTILE = ("0", "0.0", "9" * 400, "9" * 5000, "-5", "1e5", "nan", "inf", "1000000000000000000")
KV_CACHE = (
    "ValueError: To serve at least one request with the model's max seq len ({length}), ({needed} GiB KV cache is "
    "needed, which is larger than the available KV cache memory ({available} GiB)."
)
FREE = (
    "ValueError: Free memory on device (0.0/0.0 GiB) on startup is less than desired GPU memory utilization (0.9, 0.0 "
    "GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)


@pytest.fixture(scope="module")
def library() -> tuple[Loaded, ...]:
    return load_library()


@pytest.mark.parametrize("text", ["9" * 400, "9" * 5000, "9" * 400 + ".5", "-" + "9" * 30, "nan", "inf", "", "1e5"])
def test_what_cannot_be_a_number_stays_text(text):
    assert number_in(text) is None
    assert to_value(text) == text
    assert number_or_text(text) == text


def test_numbers_are_numbers():
    assert [to_value(text) for text in ("1,408", "0.25", "-1.3", "0")] == [1408, 0.25, -1.3, 0]
    assert number_or_text("96M") == 96 * 2**20
    assert not any(map(is_credible, (float("nan"), float("inf"), 10**400, -1e19)))


def test_a_condition_over_an_impossible_number_is_unknown():
    lookup = lookup_for(parse_command(f"vllm serve m --max-model-len {'9' * 25}"), {})
    assert evaluate(parse("launch.max_model_len > 4096"), lookup).holds is None


def test_a_computed_fact_of_impossible_numbers_is_unknown_and_says_so():
    sizes = {"total_gib": 0.0, "free_gib": 0.0, "capacity_size": "0 GiB", "free_size": "0 GiB", "tried_size": "0 GiB"}
    sizes |= dict.fromkeys(("allocated_size", "reserved_size", "unallocated_size"), "0 GiB")
    lookup = lookup_for(None, {name: Known(size, "parsed", "log") for name, size in sizes.items()})
    names = [one.name for one in COMPUTED if one.name in ("gpu.taken_share_at_start", "oom.others_share")]
    assert len(names) == 2
    for name in names:
        answer = lookup(name)
        assert isinstance(answer, Unknown)
        assert "its numbers cannot be" in answer.reason
        assert roots_of(name, lookup)


@pytest.mark.parametrize("value", [0, 0.0, -1, 10**18, 10**400, float("inf"), float("nan"), "9" * 5000])
def test_no_computed_fact_breaks(value):
    """Every fact that is asked for has the same impossible value."""
    for one in COMPUTED:
        answer = one.answer(lambda _: Known(value, "parsed", "log"))
        assert not (isinstance(answer, Known) and isinstance(answer.value, float) and not is_credible(answer.value))


@pytest.mark.parametrize(
    "line",
    [
        KV_CACHE.format(length=0, needed=0.25, available=0.09),
        KV_CACHE.format(length=4096, needed="9" * 400, available=0.09),
        KV_CACHE.format(length="9" * 5000, needed="9" * 400 + ".5", available="9" * 400),
        FREE,
    ],
    ids=["no length", "401 digits", "5000 digits", "no memory"],
)
def test_a_log_of_impossible_numbers_is_diagnosed(library, line):
    found = diagnose(read_text([line]), library, read_wrappers(), Given("a.log"))
    assert found.causes
    assert markdown(as_object(found))


def test_every_sample_with_other_numbers_is_diagnosed(library):
    """A sample's numbers are replaced, all of them or one, by what no vLLM prints."""
    chance = random.Random(7)
    covers = read_wrappers()
    broken = []
    for playbook in library:
        for sample in playbook.spec.samples.match:
            spots = list(NUMBER.finditer(sample.line))
            if not spots:
                continue
            spot, hostile = chance.choice(spots), chance.choice(HOSTILE)
            for line in (
                NUMBER.sub(chance.choice(HOSTILE), sample.line),
                sample.line[: spot.start()] + hostile + sample.line[spot.end() :],
            ):
                broken += _trouble_with(line, playbook, covers)
    assert broken == []


def _trouble_with(line, playbook, covers):
    try:
        as_object(diagnose(read_text([as_printed(line)]), (playbook,), covers, Given("a.log")))
    except Exception as error:  # which samples broke is the result
        return [f"{playbook.id}: {error!r:.100} of {line[:120]!r}"]
    return []


def test_a_launch_of_impossible_numbers_is_diagnosed(library):
    launch = parse_command(
        f"vllm serve m --max-model-len {'9' * 400} --tensor-parallel-size {'9' * 30} --kv-cache-memory-bytes {'9' * 99}"
    )
    line = KV_CACHE.format(length=4096, needed=0.25, available=0.09)
    found = diagnose(read_text([line]), library, read_wrappers(), Given("a.log", Evidence(launch)))
    assert found.causes
    assert markdown(as_object(found))


@pytest.mark.parametrize("available", ["-1.3", "nan", "inf", "-0.09"])
@pytest.mark.parametrize("needed", ["0.25", "-0.25", "nan", "inf"])
def test_the_sentence_about_the_kv_cache_keeps_its_cause(library, needed, available):
    line = KV_CACHE.format(length=4096, needed=needed, available=available)
    found = diagnose(read_text([line]), library, read_wrappers(), Given("a.log")).causes[0]
    assert found.cause.id == "kv-cache-too-small-for-max-model-len"
    assert found.captured["available_gib"].value == to_value(available)
    answer = found.lookup("memory.pool_needed_gib")
    assert isinstance(answer, Known) == (needed in {"0.25", "-0.25"})


def test_memory_that_is_negative_or_no_number_keeps_its_cause(library):
    for size in ("-0.5", "nan", "inf"):
        line = FREE.replace("(0.0/0.0 GiB)", f"({size}/79.2 GiB)")
        found = diagnose(read_text([line]), library, read_wrappers(), Given("a.log"))
        ids = [one.cause.id for one in found.causes]
        assert "utilization-exceeds-free-memory-at-startup" in ids
