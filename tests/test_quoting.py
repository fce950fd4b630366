"""How messages quote what others wrote: a secret is masked before it is cut, and no control character gets through."""

from __future__ import annotations

import json
import re

import pytest

from engine_probe.errors import InputError
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from engine_probe.memory.cards import parse_gpus
from engine_probe.quoting import quoted
from playbooks.diagnosis import Given, diagnose
from playbooks.diagnosis_json import as_object
from playbooks.diagnosis_report import markdown
from playbooks.evidence import Evidence
from playbooks.evidence_host import read_host_state
from playbooks.exceptions import make_evidence
from playbooks.kept_cases import report_of
from playbooks.library import load_library

SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123"
HOSTILE = {"pid": 7, "name": "\x1b[31mfake-name\x1b]0;title\x07 \u202e\x9b0m\x00", "used_gib": 70.0}
TAKEN = (
    "ValueError: Free memory on device (8.7/79.2 GiB) on startup is less than desired GPU memory utilization (0.9, "
    "71.28 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)


@pytest.mark.parametrize("most", range(4, 60, 7))
def test_no_part_of_a_secret_is_quoted(most):
    assert "abc" not in quoted(f"8x {SECRET}", most)
    assert "abc" not in quoted(f"{SECRET} and more words that are cut away", most)


def test_short_text_is_quoted_as_it_is():
    assert quoted("8xA100-80GB") == "8xA100-80GB"
    assert quoted("a" * 100, 10) == "aaaaaaaaa…"
    assert "\x1b" not in quoted("\x1b]0;title\x07x\x00")


@pytest.mark.parametrize("text", [SECRET, f"8xA100-80GB,{SECRET}"])
def test_an_error_about_gpus_shows_no_part_of_a_secret(text):
    with pytest.raises(InputError) as raised:
        parse_gpus(text)
    assert "hf_" not in str(raised.value)
    assert "abcdef" not in str(raised.value)


def test_evidence_that_is_cut_within_a_secret_shows_nothing_of_it():
    for before in range(1_980, 2_001):
        assert "hf_a" not in make_evidence("a.log", 1, "x" * (before - 1) + " " + SECRET).text


def test_no_form_of_a_report_has_control_characters(tmp_path):
    """Names of processes are what anybody chose: they stand in facts, in fixes, and in cases that are kept."""
    state = {"gpus": [{"index": 0, "total_gib": 79.2, "used_gib": 70.5, "free_gib": 8.7, "processes": [HOSTILE]}]}
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state), encoding="utf-8")
    found = diagnose(
        read_text([TAKEN]), load_library(), read_wrappers(), Given("a.log", Evidence(host_state=read_host_state(path)))
    )
    shown = as_object(found)
    assert any("fake-name" in str(one["value"]) for one in shown["facts"])
    older = shown | {"notes": ["\x1b[31mkept\x9b0m by an older release"]}
    texts = [json.dumps(shown, ensure_ascii=False), markdown(shown)]
    texts += [report_of(one, form) for one in (shown, older) for form in ("md", "html", "json")]
    for text in texts:
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "fake-name" in text
