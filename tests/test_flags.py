"""The table of flags, versions, and what is said about a flag that an engine does not have."""

from __future__ import annotations

import pytest

from engine_probe.command_line import parse_command
from engine_probe.flags import check_flags, flag_table, is_release, parse_version


def problems(flags: str, version: str | None, engine_flags: frozenset[str] | None = None) -> list[tuple[str, str, str]]:
    found = check_flags(parse_command(f"vllm serve m {flags}"), version, engine_flags)
    return [(problem.name, problem.kind, problem.severity) for problem in found]


def test_table_is_sound() -> None:
    table = flag_table()
    assert len(table.flags) > 350
    for flag in table.flags.values():
        assert flag.first in table.releases
        assert flag.last in table.releases
        assert (parse_version(flag.first) or ()) <= (parse_version(flag.last) or ())
        assert flag.values in ("switch", "on", "1", "?", "+", "append")
        assert flag.type in ("bool", "int", "float", "size", "json", "text")
        assert (flag.type == "bool") == (flag.values in ("switch", "on"))
    assert list(table.releases) == sorted(table.releases, key=lambda release: parse_version(release) or ())
    assert table.names["tp"] == "tensor-parallel-size"


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("0.6.6", "0.6.6.post1"),
        ("0.6.6.post1", "0.6.7"),
        ("0.11.2rc1", "0.11.2"),
        ("0.11.2rc1", "0.11.2rc2"),
        ("0.11.1", "0.11.2rc1"),
        ("0.9.2", "0.10.0"),
        ("0.12.0.dev5", "0.12.0"),
    ],
)
def test_version_order(earlier: str, later: str) -> None:
    first, second = parse_version(earlier), parse_version(later)
    assert first is not None
    assert second is not None
    assert first < second


def test_version_forms() -> None:
    assert parse_version("0.32.0+cpu") == parse_version("v0.32.0") == parse_version("0.32")
    assert parse_version("dev") is None
    assert parse_version("") is None


@pytest.mark.parametrize(
    "text", ["0.19", "0.19.0", "v0.19.0", "0.6.6.post1", "0.11.2rc1", "0.32.0+cpu", "0.11.1rc7.dev12+gabc123.cu129"]
)
def test_what_a_person_may_write_for_a_release(text: str) -> None:
    assert is_release(text)
    assert parse_version(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "newest", "0.19.0; rm -rf /", "0.19.0.1.2.3.4", "٠.١٩.٠", "0.19.0\n", "0.19.0\nit fits"),
        *("0.19.0\x1b[31m", " 0.19.0", "99999999999999999999.1", "0.19.0+" + "a" * 41),
    ],
)
def test_what_only_begins_like_a_release_is_none(text: str) -> None:
    assert not is_release(text)


@pytest.mark.parametrize(
    ("flags", "version", "expected"),
    [
        ("--max-model-len 4096", "0.11.2", []),
        ("--num-scheduler-steps 8", "0.9.2", []),
        ("--num-scheduler-steps 8", "0.11.2", [("num-scheduler-steps", "removed", "error")]),
        ("--num-scheduler-steps 8", "0.10.0", []),  # between two releases that were read: not decided
        ("--num-scheduler-steps 8", "0.40.0", [("num-scheduler-steps", "removed", "error")]),
        ("--async-scheduling", "0.8.5", [("async-scheduling", "added later", "error")]),
        ("--async-scheduling", "0.32.0+cpu", []),
        ("--kv-cache-memory-bytes 5", None, []),
        ("--banana 1", None, [("banana", "unknown", "error")]),
        ("--banana 1", "0.11.2", [("banana", "unknown", "error")]),
        ("--banana 1", "0.40.0", [("banana", "not known here", "note")]),
        ("--banana 1", "0.1.0", [("banana", "not known here", "note")]),
        ("--swap-space 4", "weird", []),
        ("-O3", "0.9.2", []),
        ("-O3", "0.32.0", []),
        ("--optimization-level 3", "0.9.2", [("optimization-level", "added later", "error")]),
        ("--compilation-config.mode 3", "0.11.2", []),
        ("--max-model 4096", "0.11.2", []),  # argparse completes a unique beginning
        ("--lora-modules a=b --enable-lora", "0.11.2", []),
    ],
)
def test_by_the_table(flags: str, version: str | None, expected: list[tuple[str, str, str]]) -> None:
    assert problems(flags, version) == expected


def test_the_engines_own_list_decides() -> None:
    own = frozenset({"model", "max-model-len", "banana", "compilation-config", "no-enforce-eager"})
    assert problems("--banana 1 --max-model-len 1 --enforce-eager -O3", "0.11.2", own) == []
    assert problems("--async-scheduling", "0.32.0", own) == [("async-scheduling", "unknown", "error")]
    assert problems("--swap-space 1", "0.32.0", own) == [("swap-space", "removed", "error")]
    assert problems("--async-scheduling", "0.8.5", own) == [("async-scheduling", "added later", "error")]


def test_problem_names_the_nearest_flag_and_the_releases() -> None:
    launch = parse_command("vllm serve m --gpu-memory-utilisation 0.9 --num-scheduler-steps 8")
    misspelt, removed = check_flags(launch, "0.11.2")
    assert misspelt.nearest == "gpu-memory-utilization"
    assert misspelt.text == "--gpu-memory-utilisation is no flag of vLLM 0.11.2"
    assert removed.text == "--num-scheduler-steps is not in vLLM 0.11.2: last seen in 0.9.2, gone by 0.10.2"
