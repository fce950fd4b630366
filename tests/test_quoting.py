"""How messages quote what others wrote: a secret is masked before it is cut, and no control character gets through."""

from __future__ import annotations

import pytest

from engine_probe.errors import InputError
from engine_probe.memory.cards import parse_gpus
from engine_probe.quoting import quoted
from playbooks.exceptions import make_evidence

SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123"


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
