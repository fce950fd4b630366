"""Of causes that are as sure, that comes first which one would look at first."""

from __future__ import annotations

import itertools

import pytest

from playbooks.ranking import order_of_check
from tests.test_diagnosis import BANNER, ENGINE, diagnosed, ids, playbook, traceback

LOG = BANNER + ENGINE + traceback("ValueError: pool of 16 is too small")
TEXT = {"log": r"pool of (?P<limit>\d+) is too small"}
IN_ORDER = (
    playbook("a-memory", TEXT, family="memory", stage="memory_planning"),
    playbook("b-ranks", TEXT, family="environment", stage="distributed_init"),
    playbook("c-weights", TEXT, family="format", stage="weight_load"),
    playbook("d-sizes", TEXT, family="configuration", stage="config"),
    playbook("e-packages", TEXT, family="dependency", stage="config"),
)


@pytest.mark.parametrize("pair", list(itertools.combinations(IN_ORDER, 2)), ids=lambda pair: pair[0].id)
def test_equal_causes_come_in_the_order_of_checks(pair: tuple) -> None:  # type: ignore[type-arg]
    first, second = pair
    for library in (pair, pair[::-1]):
        found = diagnosed(LOG, *library)
        assert ids(found) == [first.id, second.id]
        assert found.causes[0].cause.confidence == found.causes[1].cause.confidence


def test_what_is_surer_comes_first_all_the_same() -> None:
    doubtful = playbook("memory", {**TEXT, "certainty": "possible"}, family="memory", stage="memory_planning")
    assert ids(diagnosed(LOG, doubtful, IN_ORDER[-1])) == ["e-packages", "memory"]


def test_whether_the_ranks_meet_is_a_matter_of_the_stage() -> None:
    assert order_of_check("distributed", "worker_start") == 1
    assert order_of_check("distributed", "config") == 3
    assert order_of_check("environment", "config") == 4
