"""A value that a person puts in place of the proposed one: checked by what the key takes, kept as a number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine_probe.changes import change
from engine_probe.errors import InputError
from playbooks.fix_values import checked_value, shown_value, wanted
from playbooks.fixing import with_value
from playbooks.patterns import to_value
from tests.tui_samples import FP8, LAB, LOWER, RAISE, TESTED

UTILIZATION = replace(LOWER, id="more", key="args.gpu-memory-utilization", new_value="0.95")
SPACE = replace(LOWER, id="space", key="env.VLLM_CPU_KVCACHE_SPACE", new_value="1")


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (RAISE, "264MiB", 276824064),
        (RAISE, "264 MiB", 276824064),
        (RAISE, "276,824,064", 276824064),
        (RAISE, "0.5GiB", 2**29),
        (LOWER, "1,024", 1024),
        (LOWER, "2k", 2000),
        (UTILIZATION, "0.9", 0.9),
        (UTILIZATION, "1", 1),
        (SPACE, "2", 2),
        (FP8, "fp8_e4m3", "fp8_e4m3"),
    ],
)
def test_value_is_read_as_the_key_takes_it(option, text, value):
    assert checked_value(option, text) == value
    assert type(checked_value(option, text)) is type(value)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (RAISE, "12x"), (RAISE, "0"), (RAISE, "-5"), (RAISE, "many"), (LOWER, "12x"), (LOWER, "1.5"), (LOWER, "150MiB"),
        (LOWER, "0"), (UTILIZATION, "high"), (SPACE, "1GiB"), (FP8, ""), (FP8, " "),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_what_is_wanted(option, text):
    with pytest.raises(InputError) as error:
        checked_value(option, text)
    assert wanted(option) in str(error.value)


def test_what_is_wanted_has_a_unit_and_an_example():
    assert wanted(RAISE) == "bytes, or 288MiB"
    assert "1408" in wanted(LOWER)
    assert shown_value(RAISE, "100663296") == "96 MiB (100,663,296 bytes)"


def test_edited_fix_keeps_the_proposal_and_becomes_a_number():
    edited = with_value(RAISE, TESTED, "264MiB")
    assert (edited.new_value, edited.proposed) == ("276824064", "301989888")
    assert with_value(edited, TESTED, "128MiB").proposed == "301989888"
    assert with_value(edited, TESTED, "301989888").proposed is None
    after = change(LAB, "tiny", edited.key, to_value(edited.new_value))
    assert after.models[0].args["kv-cache-memory-bytes"] == 276824064


def test_a_wrong_value_greys_the_fix():
    assert "bytes" in (with_value(RAISE, TESTED, "12x").unavailable or "")
