"""The object of `monitor --json`: its schema, what diagnosis reads of it, and that no reading makes it unreadable."""

from __future__ import annotations

import dataclasses
import json
import types
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readings import gpu, gpu_process, host, known, process, reading, server, with_gpus

import playbooks.monitor_json
from engine_probe.facts import Known, Unknown
from engine_probe.hardware import gpus as gpu_types
from engine_probe.hardware import host as host_types
from engine_probe.hardware import reading as reading_types
from engine_probe.hardware.gpus import GpuState, MigSlice
from engine_probe.hardware.reading import Reading
from engine_probe.stage_names import STAGES
from playbooks.alerts import find_alerts
from playbooks.evidence_host import HostState, host_facts, read_host_state
from playbooks.evidence_host_file import read_state
from playbooks.monitor_json import as_object

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = json.loads(Path(playbooks.monitor_json.__file__).with_name("monitor_schema.json").read_text())


def object_of(seen: Reading) -> dict[str, Any]:
    """As a strict reader gets it."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    found: dict[str, Any] = json.loads(
        json.dumps(as_object(seen, find_alerts(seen)), ensure_ascii=False), parse_constant=refuse
    )
    return found


def sliced() -> Reading:
    part = MigSlice(0, "MIG-1", "1g.10gb", known(9.8), known(4.2), known(5.6), (gpu_process(9, 4.2, slice_index=0),))
    stranger = gpu_process(812, None, "not visible here", is_visible=False)
    orphan = server("VLLM::EngineCore", 4711, state="orphan", pids=(4711, 4712))
    return with_gpus(
        gpu(0, used=40.126, total=79.256, slices=(part,), processes=(stranger, gpu_process(4711, 12.3456))),
        gpu(1, used=1e-5, xid=known(79), processes_unavailable="no permission"),
        servers=(orphan,),
        processes=(process(4711, rank=0, gpu_gib=((0, known(12.3456)),)), process(7, role="other")),
    )


class Checker:
    """The part of JSON Schema that the file uses. What it does not know is an error, and so is an undescribed key."""

    TYPES: ClassVar[dict[str, Any]] = {
        "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
        "null": type(None),
    }  # fmt: skip
    KNOWN = frozenset(
        ("type", "const", "enum", "minimum", "items", "properties", "required", "additionalProperties", "$ref",
         "description", "$schema", "title", "$defs")
    )  # fmt: skip

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def wrong(self, value: Any, schema: dict[str, Any], place: str = "$") -> Iterator[str]:
        assert set(schema) <= self.KNOWN, schema
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/$defs/")
            yield from self.wrong(value, SCHEMA["$defs"][name], place)
        if "const" in schema and value != schema["const"]:
            yield f"{place}: {value!r} is not {schema['const']!r}"
        if "enum" in schema and value not in schema["enum"]:
            yield f"{place}: {value!r} is not among {schema['enum']}"
        if not self._has_type(value, schema.get("type")):
            yield f"{place}: {value!r} is no {schema['type']}"
        elif "minimum" in schema and value is not None and value < schema["minimum"]:
            yield f"{place}: {value!r} is below {schema['minimum']}"
        elif isinstance(value, list) and "items" in schema:
            for number, one in enumerate(value):
                yield from self.wrong(one, schema["items"], f"{place}[{number}]")
        elif isinstance(value, dict) and schema.get("type") == "object":
            yield from self._wrong_keys(value, schema, place)

    def _has_type(self, value: Any, wanted: Any) -> bool:
        names = [] if wanted is None else [wanted] if isinstance(wanted, str) else wanted
        if isinstance(value, bool):
            return not names or "boolean" in names
        return not names or any(isinstance(value, self.TYPES[name]) for name in names)

    def _wrong_keys(self, value: dict[str, Any], schema: dict[str, Any], place: str) -> Iterator[str]:
        described, more = schema.get("properties", {}), schema.get("additionalProperties")
        for key in set(schema.get("required", ())) - set(value):
            yield f"{place}.{key}: is missing"
        for key, one in value.items():
            if key in described:
                self.seen.add(f"{id(described)}.{key}")
                yield from self.wrong(one, described[key], f"{place}.{key}")
            elif more is not None:
                yield from self.wrong(one, more, f"{place}.{key}")
            else:
                yield f"{place}.{key}: is not described"


def described_keys(schema: Any) -> Iterator[str]:
    for name in (None, *SCHEMA["$defs"]):
        properties = (schema if name is None else SCHEMA["$defs"][name]).get("properties", {})
        yield from (f"{id(properties)}.{key}" for key in properties)


SAMPLES = {
    "serving": reading(),
    "slices, an orphan, strangers": sliced(),
    "no GPUs": reading(gpus=GpuState(unavailable="no NVIDIA driver library"), servers=(), processes=()),
    "links": reading(gpus=GpuState((gpu(0), gpu(1)), links=(("self", "NVLink"), ("NVLink", "self")))),
    "no limit": reading(host=host(cgroup_limit_gib=None, cgroup_used_gib=None, disks=())),
}


@pytest.mark.parametrize("seen", SAMPLES.values(), ids=list(SAMPLES))
def test_what_is_printed_is_what_the_schema_describes(seen: Reading) -> None:
    assert list(Checker().wrong(object_of(seen), SCHEMA)) == []


def test_every_key_that_the_schema_describes_is_printed() -> None:
    checker = Checker()
    for seen in SAMPLES.values():
        assert list(checker.wrong(object_of(seen), SCHEMA)) == []
    assert checker.seen == set(described_keys(SCHEMA))


@pytest.mark.parametrize(
    ("key", "value"), [("time", "noon"), ("schema", 2), ("gpus", {}), ("alerts", [{"severity": "bad"}]), ("more", 1)]
)
def test_the_check_of_the_schema_itself_can_fail(key: str, value: object) -> None:
    assert list(Checker().wrong({**object_of(reading()), key: value}, SCHEMA))


def test_the_stages_of_the_schema_are_the_loads_stages() -> None:
    words = SCHEMA["$defs"]["server"]["properties"]["stage"]["description"]
    assert words == f"One of: {', '.join(STAGES)}."


def test_numbers_are_rounded_and_unknown_ones_have_their_reason() -> None:
    first, second = object_of(sliced())["gpus"]
    assert (first["total_gib"], first["used_gib"], second["used_gib"]) == (79.26, 40.13, 0.0)
    stranger, mine = first["processes"]
    assert (stranger["used_gib"], stranger["unknown"]) == (None, {"used_gib": "nobody said it"})
    assert (stranger["is_visible"], stranger["model"]) == (False, None)
    assert (mine["used_gib"], mine["model"]) == (12.35, "VLLM::EngineCore")
    assert first["power_watts"] is None
    assert first["unknown"]["power_watts"] == "it was not asked for"
    assert first["slices"][0]["processes"][0]["slice"] == 0
    assert second["xid"] == 79


def test_a_server_has_its_processes_and_the_rest_stands_apart() -> None:
    found = object_of(sliced())
    (orphan,) = found["servers"]
    assert (orphan["is_orphan"], orphan["state"], orphan["pid"]) == (True, "orphan", 4711)
    assert [one["pid"] for one in orphan["processes"]] == [4711, 4712]
    assert orphan["processes"][0]["gpus"] == [{"gpu": 0, "used_gib": 12.35, "unknown": {}}]
    assert orphan["processes"][1] == {"pid": 4712}
    assert [one["pid"] for one in found["processes"]] == [7]
    assert "orphan-engine-holds-gpu" in [one["playbook"] for one in found["alerts"]]


def test_no_limit_is_no_unknown_value() -> None:
    found = object_of(SAMPLES["no limit"])["host"]
    assert found["ram_limit_gib"] is None
    assert "ram_limit_gib" not in found["unknown"]
    assert found["unknown"]["cache_free_gib"] == "no folder of caches was looked at"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, "text", True, 10**400])
def test_what_makes_no_sense_is_said_and_never_a_number(value: Any) -> None:
    found = object_of(with_gpus(gpu(0, used_gib=known(value))))["gpus"][0]
    assert found["used_gib"] is None
    assert found["unknown"]["used_gib"].startswith("what was read makes no sense: ")


def test_a_title_of_broken_bytes_can_be_written() -> None:
    odd = process(7, title="caf\udce9", role="other")
    assert object_of(with_gpus(gpu(0), processes=(odd,)))["processes"][0]["title"] == "caf?"


def test_a_saved_object_is_a_state_that_diagnosis_reads(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    caches = host_types.Disk("/home/ann/.cache", "caches", known(100.0), known(33.3), known(0.0))
    seen = replace(sliced(), host=host(disks=(caches,)))
    path.write_text(json.dumps(as_object(seen, find_alerts(seen))))
    facts = host_facts(read_host_state(path), None)
    values = {name: fact.value for name, fact in facts.items() if isinstance(fact, Known)}
    assert values["gpu.count"] == 2
    assert (values["gpu.total_gib"], values["gpu.orphan_pid"], values["gpu.orphan_gib"]) == (79.26, 4711, 12.35)
    assert (values["gpu.driver_version"], values["host.total_gib"]) == ("580.65.06", 503.0)
    assert (values["host.cache_free_gib"], values["host.open_files_limit"]) == (33.3, 65536)
    assert (values["host.ram_limit_gib"], values["host.shm_free_gib"]) == (256.0, 63.8)
    same = host_facts(HostState(object_of(seen), "this host, now"), None)
    assert {name for name, fact in same.items() if isinstance(fact, Known)} == set(values)


FACTS = st.one_of(
    st.builds(Unknown, st.text(max_size=20)),
    st.builds(
        Known,
        st.one_of(st.floats(), st.integers(), st.booleans(), st.text(max_size=8)),
        st.sampled_from(("measured", "parsed", "declared", "computed")),
        st.just("a test"),
    ),
)
PIDS = st.integers(0, 2**22)
TEXTS = st.text(st.characters(), max_size=12)


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a type of the readings, with any facts. Moments come from the clock: they are numbers."""
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return st.sampled_from(arguments)
    if isinstance(kind, types.UnionType):
        return st.one_of([any_of(one) for one in arguments])
    if get_origin(kind) is tuple:
        if arguments[-1] is Ellipsis:
            return st.lists(any_of(arguments[0]), max_size=2).map(tuple)
        return st.tuples(*map(any_of, arguments))
    return _any_plain(kind)


def _any_plain(kind: Any) -> st.SearchStrategy[Any]:
    if kind in (Known, Unknown):
        return FACTS
    if dataclasses.is_dataclass(kind):
        names = vars(gpu_types) | vars(host_types) | vars(reading_types)
        hints = get_type_hints(kind, names | {"GpuState": GpuState, "HostState": host_types.HostState})
        return st.builds(kind, **{field.name: any_of(hints[field.name]) for field in dataclasses.fields(kind)})
    moments = st.floats(0, 4e9)
    return {int: PIDS, str: TEXTS, bool: st.booleans(), float: moments, type(None): st.none()}[kind]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(seen=any_of(Reading))
def test_no_reading_makes_an_object_that_cannot_be_read(
    tmp_path_factory: pytest.TempPathFactory, seen: Reading
) -> None:
    found = object_of(seen)
    assert list(Checker().wrong(found, SCHEMA)) == []
    path = tmp_path_factory.getbasetemp() / "any-reading.json"
    path.write_text(json.dumps(as_object(seen, find_alerts(seen)), ensure_ascii=True))
    assert read_state(path)["gpus"] == found["gpus"]
    host_facts(HostState(found, "a test"), None)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(seen=any_of(Reading), before=any_of(Reading))
def test_no_reading_makes_an_alert_without_its_numbers(seen: Reading, before: Reading) -> None:
    unnamed = replace(seen, servers=tuple(replace(one, name="x", stage_detail="") for one in seen.servers))
    for alert in find_alerts(unnamed, before):
        assert alert.text.startswith((alert.about, "RAM", "This container", "Swap", "/dev/shm", "Disk", "GPUs"))
        assert alert.what_to_do
