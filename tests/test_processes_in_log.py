"""Process ids in a log: whose they are, and that a fix has them as they are typed."""

from __future__ import annotations

import re

import pytest

from engine_probe.facts import Known, Unknown
from engine_probe.logs.records import read_text
from playbooks import wording
from playbooks.diagnosis_report import change_in_words
from playbooks.facts import lookup_for
from playbooks.filling import fill, in_words, needed, placeholders
from playbooks.library import load_library
from playbooks.offers import offers_of
from playbooks.processes_in_log import engines_listed, facts_of_processes
from tests.test_diagnosis import BANNER, ENGINE, diagnosed, traceback

MESSAGE = {"capacity_size": "15.47 GiB", "free_size": "71.25 MiB", "allocated_size": "5.71 GiB",
           "unallocated_size": "312.44 MiB"}  # fmt: skip
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 118.00 MiB. GPU 0 has a total capacity of 15.47 GiB "
    "of which 71.25 MiB is free. {} Of the allocated memory 5.71 GiB is allocated by PyTorch, and 312.44 MiB is "
    "reserved by PyTorch but unallocated."
)


def told(processes: str, engines: frozenset[int] = frozenset()) -> dict[str, object]:
    captured = {name: Known(value, "parsed", "log") for name, value in {**MESSAGE, "processes": processes}.items()}
    found = facts_of_processes(lookup_for(None, captured), engines, "vllm.log")
    return {name: fact.value for name, fact in found.items() if isinstance(fact, Known)}


@pytest.mark.parametrize(
    ("processes", "pid"),
    [
        ("Process 31877 has 9 GiB memory in use. Including non-PyTorch memory, this process has 6.3 GiB memory in use.",
         31877),
        ("Process 5 has 8.02 GiB memory in use. Process 7 has 6.4 GiB memory in use.", 5),
        ("Process 7 has 6.4 GiB memory in use.", None),
    ],
    ids=["said itself", "listed itself", "alone"],
)  # fmt: skip
def test_the_largest_process_is_named_but_never_this_one(processes: str, pid: int | None) -> None:
    assert told(processes).get("gpu.largest_other_pid") == pid


def test_an_engine_that_a_list_of_the_host_has_too_was_there_before() -> None:
    assert told("Process 31877 has 6.02 GiB memory in use.", frozenset((31802, 31877))) == {
        "gpu.largest_other_pid": 31877,
        "gpu.orphan_pid": 31877,
        "gpu.orphan_gib": 6.02,
    }


@pytest.mark.parametrize(
    "line",
    ["  31877  30655 VLLM::Worker_TP0", "|    0   N/A  N/A     31877      C   VLLM::EngineCore      6158MiB |",
     "root       31877  0.0  0.1 VLLM::EngineCore"],
)  # fmt: skip
def test_lists_of_processes(line: str) -> None:
    assert engines_listed(read_text([BANNER, line + "\n"])) == {31877}


def test_a_servers_own_lines_are_no_list() -> None:
    assert not engines_listed(read_text([BANNER, "INFO 11-29 10:00:01 [core.py:77] VLLM::EngineCore starts\n"]))


def test_a_fix_has_the_number_of_the_process() -> None:
    listed = "Process 31877 has 9.02 GiB memory in use. Process 7 has 6.4 GiB memory in use."
    log = BANNER + ENGINE + traceback(OUT_OF_MEMORY.format(listed))
    found = diagnosed(log, *(one for one in load_library() if one.id == "gpu-memory-held-by-other-process"))
    (fix,) = [one for one in offers_of(found.causes[0]) if one.id == "stop-the-other-process"]
    assert fix.by_hand is not None
    assert fix.by_hand.endswith("kill 31877")


def test_a_placeholder_may_have_a_word_instead() -> None:
    text = "kill {gpu.orphan_pid or PID}, {gpu.orphan_gib} GiB"
    assert placeholders(text) == ("gpu.orphan_pid", "gpu.orphan_gib")
    assert needed(text) == ("gpu.orphan_gib",)
    assert fill(text, lambda _: Unknown("x")) == "kill PID, ? GiB"
    assert fill(text, lambda _: Known(4711, "parsed", "x"), readable=True) == "kill 4711, 4,711 GiB"
    assert wording.measured("gpu.orphan_pid is set", lambda _: Known(4711, "parsed", "x")) == "4711"


def test_without_a_load_a_placeholder_says_what_it_stands_for() -> None:
    assert in_words("{kv.fits}", lambda _: "length that fits") == "the length that fits"
    assert in_words("{kv.fits}", lambda _: "the length that fits") == "the length that fits"
    assert in_words("kill {a.pid or PID} {b.pid}", lambda _: "pid of it", is_command=True) == "kill PID [pid of it]"
    specs = [one.spec for one in load_library()]
    assert not [fix.id for spec in specs for fix in spec.fixes if re.search(r"\{[a-z_.]+\}", change_in_words(fix))]


def test_what_facts_hold_is_masked_and_a_playbooks_words_are_not() -> None:
    def lookup(name: str) -> Known:
        return Known("letmein" if name == "launch.api_key" else "sk-1234567890", "declared", "x")

    text = "token: Create one, password: {launch.api_key}, {asked}"
    assert fill(text, lookup, readable=True) == "token: Create one, password: ***, ***"
    assert fill(text, lookup) == "token: Create one, password: letmein, sk-1234567890"
