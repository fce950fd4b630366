"""Evidence beside the log: which launch a log is of, its neighbours, a saved state of the host."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from engine_probe.launch import Deployment, Launch
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from playbooks.diagnosis import Given, diagnose
from playbooks.evidence import Evidence
from playbooks.evidence_host import HostState, host_facts, read_host_state
from playbooks.library import load_library
from playbooks.neighbours import gpus_used, neighbour_facts
from tests.test_diagnosis import BANNER, traceback
from tests.test_diagnosis import ENGINE as ENGINE_LINE

CHAT = Launch("chat-70b", "/models/Llama-3-70B", {"tensor-parallel-size": 4, "gpu-memory-utilization": 0.9})
CODE = Launch("code-13b", "acme/code-13b", {})
BOTH = Deployment(models=(CHAT, CODE))


def values(facts: dict[str, Any], *names: str) -> list[Any]:
    return [facts[name].value if isinstance(facts[name], Known) else None for name in names]


def test_without_gpus_a_launch_takes_the_first_ones_that_its_ranks_need() -> None:
    assert gpus_used(CHAT) == (0, 1, 2, 3)
    assert gpus_used(replace(CODE, gpus=(5,))) == (5,)


def test_neighbours_share_a_gpu_and_add_up() -> None:
    facts = neighbour_facts(CODE, BOTH, "0.11.2", range(8))
    names = ("neighbours.count", "neighbours.names", "neighbours.utilization_sum", "deployment.free_gpus")
    assert values(facts, *names) == [1, "chat-70b", 1.8, "4"]
    apart = Deployment(models=(CHAT, replace(CODE, gpus=(4,))))
    assert values(neighbour_facts(apart.models[1], apart, "0.11.2"), "neighbours.count", "neighbours.names") == [
        0,
        None,
    ]


def test_a_default_utilization_needs_the_release() -> None:
    assert values(neighbour_facts(CODE, BOTH, "0.20.2"), "neighbours.utilization_sum") == [1.82]
    assert values(neighbour_facts(CODE, BOTH, None), "neighbours.utilization_sum") == [None]


def test_as_many_free_gpus_as_the_launch_needs_or_none() -> None:
    assert values(neighbour_facts(CHAT, BOTH, None, range(7)), "deployment.free_gpus") == [None]
    assert values(neighbour_facts(CHAT, BOTH, None, range(8)), "deployment.free_gpus") == ["4,5,6,7"]


def test_without_a_deployment_nothing_is_known_of_neighbours() -> None:
    fact = Evidence(CODE).facts(CODE, None)["neighbours.count"]
    assert fact == Unknown("no deployment was given")


@pytest.mark.parametrize(
    ("model", "name"),
    [("acme/code-13b", "code-13b"), ("/models/Llama-3-70B", "chat-70b"), ("code-13b", "code-13b"), ("other", None)],
)
def test_the_launch_whose_log_it_is(model: str, name: str | None) -> None:
    found = Evidence(deployment=BOTH).launch_of(model)
    assert (found.name if found else None) == name


def test_of_a_single_launch_any_log_is() -> None:
    assert Evidence(deployment=Deployment(models=(CODE,))).launch_of(None) == CODE
    assert Evidence(launch=CHAT).launch_of(None) == CHAT


@pytest.mark.parametrize(
    "model",
    ["code-13b", "/srv/Code-13B/", "/root/.cache/huggingface/hub/models--acme--code-13b/snapshots/0f3a", "coder"],
)
def test_a_launch_goes_by_several_names(model: str) -> None:
    launch = replace(CODE, args={"served-model-name": ("coder", "x")})
    assert Evidence(launch).launch_of(model) == launch


@pytest.mark.parametrize(
    "evidence", [Evidence(CHAT), Evidence(deployment=BOTH), Evidence(deployment=Deployment((CHAT,)))]
)
def test_a_launch_of_another_model_is_not_used(evidence: Evidence) -> None:
    assert evidence.launch_of("acme/other") is None
    (note,) = evidence.notes(None, "acme/other", None)
    assert note.startswith("the log tells of the model acme/other, the ")
    assert note.endswith(" is not used")


STATE = {
    "schema": 1,
    "driver_version": "580.65",
    "gpus": [
        {"index": 0, "name": "A100", "total_gib": 79.25, "used_gib": 71.8, "processes": [
            {"pid": 7, "name": "VLLM::Worker_TP0", "used_gib": 71.0}, {"pid": 9, "name": "x", "used_gib": 0.8}]},
        {"index": 4, "name": "A100", "total_gib": 79.25, "used_gib": 0.5, "free_gib": 78.0, "processes": None},
    ],
    "host": {"ram_total_gib": 503, "shm_total_gib": 0.0625, "shm_free_gib": "?"},
    "servers": [{"name": "chat-70b", "pid": 5, "is_orphan": True, "processes": [{"pid": 7}]}],
}  # fmt: skip


def test_a_saved_state_tells_of_the_launchs_fullest_gpu() -> None:
    facts = host_facts(HostState(STATE, "host.json"), CODE)
    names = ("gpu.total_gib", "gpu.used_by_others_gib", "gpu.largest_other_pid", "gpu.orphan_pid", "gpu.neighbours_gib")
    assert values(facts, *names) == [79.25, 71.8, 7, 7, 71.0]
    free = facts["gpu.free_before_launch_gib"]
    assert isinstance(free, Known)
    assert round(float(free.value), 2) == 7.45
    assert (free.source, free.origin) == ("measured", "host.json, GPU 0")
    assert values(facts, "host.total_gib", "host.shm_total_gib", "host.shm_free_gib") == [503, 0.0625, None]
    assert values(host_facts(HostState(STATE, "s"), replace(CODE, gpus=(4,))), "gpu.free_before_launch_gib") == [78.0]


def test_no_state_is_unknown_with_why() -> None:
    assert Evidence(CODE).facts(CODE, None)["gpu.total_gib"] == Unknown("no state of the host was given")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"gpus": 3}', "{" * 9])
def test_what_is_no_saved_state_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="--host-state"):
        read_host_state(path)


@pytest.mark.parametrize(
    ("odd", "place"),
    [
        ({"gpus": [None]}, "gpus[0]: an object"),
        ({"gpus": [{"index": 0}, {"index": "x"}]}, "gpus[1].index: a whole number"),
        ({"gpus": [{"total_gib": 3}]}, "gpus[0].index: a whole number"),
        ({"gpus": [{"index": 0, "total_gib": "80 GB"}]}, "gpus[0].total_gib: a number of GiB"),
        ({"gpus": [{"index": 0, "used_gib": -1}]}, "gpus[0].used_gib: a number of GiB from 0 on"),
        ({"gpus": [{"index": 0, "free_gib": float("nan")}]}, "gpus[0].free_gib: a number"),
        ({"gpus": [{"index": 0, "processes": 3}]}, "gpus[0].processes: a list"),
        ({"gpus": [{"index": 0, "processes": [3]}]}, "gpus[0].processes[0]: an object"),
        ({"gpus": [{"index": 0, "processes": [{"used_gib": True}]}]}, "gpus[0].processes[0].used_gib: a number"),
        ({"gpus": [], "host": 4}, "host: an object"),
        ({"gpus": [], "host": {"shm_total_gib": "?"}}, "host.shm_total_gib: a number"),
        ({"gpus": [], "servers": [{"pid": "7"}]}, "servers[0].pid: a whole number"),
        ({"gpus": [], "servers": [{"name": 7}]}, "servers[0].name: text"),
        ({"gpus": [], "servers": [{"is_orphan": "yes"}]}, "servers[0].is_orphan: true or false"),
        ({"gpus": [{"index": 0, "total_gib": 0}]}, "gpus[0].total_gib: a number of GiB above 0"),
        ({"gpus": [{"index": 0, "total_gib": 10**400}]}, "gpus[0].total_gib: a number of GiB"),
        ({"gpus": [{"index": 10**400}]}, "gpus[0].index: a whole number"),
        ({"gpus": [{"index": 0, "compute_capability": 10**400}]}, "gpus[0].compute_capability: a number"),
        ({"gpus": [{"index": 0, "processes": [{"used_gib": 10**400}]}]}, "gpus[0].processes[0].used_gib: a number"),
        ({"gpus": [], "host": {"ram_total_gib": 0.0}}, "host.ram_total_gib: a number of GiB above 0"),
        ({"gpus": [], "host": {"open_files_limit": -(10**400)}}, "host.open_files_limit: a number"),
    ],
    ids=lambda value: str(value)[:80],
)
def test_a_wrong_value_in_a_state_is_named(tmp_path: Path, odd: dict[str, Any], place: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps(odd), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(f"{path}\n{place}")):
        read_host_state(path)


def test_what_is_missing_or_null_in_a_state_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text('{"gpus": [{"index": 0, "total_gib": null, "processes": [{}]}], "host": null}', encoding="utf-8")
    facts = host_facts(read_host_state(path), None)
    assert isinstance(facts["gpu.total_gib"], Unknown)


ENGINE = {"pid": 4711, "name": "VLLM::EngineCore", "used_gib": 70.1}


def told(gpu: dict[str, Any], servers: list[dict[str, Any]] | None = None) -> list[Any]:
    """What is used, held by models, and by an orphan with its pid; None: unknown."""
    state: dict[str, Any] = {"gpus": [{"index": 0, **gpu}]} | ({} if servers is None else {"servers": servers})
    names = ("gpu.used_by_others_gib", "gpu.neighbours_gib", "gpu.orphan_gib", "gpu.orphan_pid")
    return values(host_facts(HostState(state, "host.json"), None), *names)


def test_an_engine_of_no_listed_server_is_an_orphan() -> None:
    holding = {"total_gib": 79.2, "used_gib": 70.5, "processes": [ENGINE]}
    assert told(holding, []) == [70.5, 0, 70.1, 4711]
    assert told(holding, [{"pid": 1}]) == [70.5, 0, 70.1, 4711]
    assert told(holding, [{"pid": 1, "processes": [{"pid": 4711}]}]) == [70.5, 70.1, 0, None]
    assert told(holding, [{"pid": 4711, "is_orphan": True}]) == [70.5, 70.1, 70.1, 4711]
    assert told({**holding, "processes": [{**ENGINE, "is_orphan": True}]}) == [70.5, None, 70.1, 4711]
    assert told({**holding, "processes": [{**ENGINE, "name": "python3"}]}, []) == [70.5, 0, 0, None]


def test_a_key_that_is_missing_is_never_nothing() -> None:
    assert told({"totl_gib": 3}) == [None, None, None, None]
    assert told({"total_gib": 79.2, "processes": [ENGINE]}) == [70.1, None, None, None]
    assert told({"processes": []}) == [0, 0, 0, None]
    assert told({"processes": [], "processes_unavailable": "no permission"}) == [None, None, None, None]
    assert told({"total_gib": 79.2, "free_gib": 70.0}) == [9.2, None, None, None]
    assert told({"processes": [ENGINE, {"pid": 5, "name": "x"}]}, []) == [None, 0, 70.1, 4711]
    assert told({"processes": [{**ENGINE, "is_visible": False}]}, []) == [70.1, 0, None, None]


def test_a_key_that_nobody_reads_is_said_with_the_one_that_was_meant() -> None:
    state = {"gpus": [{"index": 0, "totl_gib": 3, "processes": [{"pid": 3, "usd_gib": 3}]}], "server": []}
    notes = Evidence(host_state=HostState(state, "host.json")).notes(None, None, None)
    assert notes == (
        "host.json: server is not read; did you mean servers?",
        "host.json: gpus[0].totl_gib is not read; did you mean total_gib?",
        "host.json: gpus[0].processes[0].usd_gib is not read; did you mean used_gib?",
    )
    assert Evidence(host_state=HostState({"schema": 1, "gpus": [{"index": 0, "fan": 3}]}, "m")).notes(*[None] * 3) == ()


def test_only_a_regular_file_of_some_size_is_a_state(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/zero"), tmp_path):
        with pytest.raises(InputError, match="no regular file"):
            read_host_state(path)
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(16 * 1024 * 1024 + 1)
    with pytest.raises(InputError, match="larger than 16 MiB"):
        read_host_state(large)


def test_the_example_in_the_readme_is_a_state(tmp_path: Path) -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    example = readme.partition("```json\n")[2].partition("```")[0]
    path = tmp_path / "state.json"
    path.write_text(example, encoding="utf-8")
    facts = host_facts(read_host_state(path), None)
    assert values(facts, "gpu.largest_other_name", "host.total_gib") == ["VLLM::EngineCore", 503.0]


FREE = (
    "ValueError: Free memory on device (9.06/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, "
    "71.19 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)


def confidences(evidence: Evidence) -> dict[str, float]:
    records = read_text([BANNER + ENGINE_LINE + traceback(FREE)])
    found = diagnose(records, load_library(), read_wrappers(), Given("vllm.log", evidence))
    return {one.cause.id: one.cause.confidence for one in found.causes}


@pytest.mark.parametrize("gpu", [{}, {"totl_gib": 3}, {"total_gib": 79.1}, {"total_gib": 79.1, "processes": None}])
def test_a_gap_in_the_state_makes_nobody_surer(gpu: dict[str, Any]) -> None:
    without = confidences(Evidence())
    state = HostState({"gpus": [{"index": 0, **gpu}]}, "host.json")
    assert confidences(Evidence(host_state=state)) == without


def test_a_launch_of_another_model_makes_nobody_surer() -> None:
    assert confidences(Evidence(replace(CODE, args={"gpu-memory-utilization": 0.3}))) == confidences(Evidence())


def test_an_orphan_in_the_state_is_the_cause() -> None:
    gpu = {"index": 0, "total_gib": 79.1, "used_gib": 70.0, "processes": [ENGINE]}
    found = confidences(Evidence(host_state=HostState({"gpus": [gpu], "servers": []}, "host.json")))
    assert next(iter(found)) == "orphan-engine-holds-gpu"
