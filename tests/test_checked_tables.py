"""Tables of patterns that are known to be good are not checked again; any other one is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine_probe.errors import InputError
from engine_probe.first_signs import first_signs_of
from engine_probe.literals import literals_of, plain
from engine_probe.logs.checked import CHECKED, DATA, first_signs_of_checked, literals_of_checked
from engine_probe.logs.checking import checked_text
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.ending_words import read_ending_words
from engine_probe.logs.markers import read_markers

if TYPE_CHECKING:
    from pathlib import Path

TABLES = ("stages.tsv", "formats.tsv", "endings.tsv", "wrappers.tsv")


@pytest.mark.parametrize("name", TABLES)
def test_the_recorded_digests_are_those_of_the_tables(name: str) -> None:
    assert literals_of_checked(name, (DATA / name).read_bytes()) is not None, "run python docs/generate.py"
    assert literals_of_checked(name, (DATA / name).read_bytes() + b"\n") is None


def test_what_is_recorded_is_what_a_check_finds() -> None:
    assert CHECKED.read_text(encoding="utf-8") == checked_text(), "run python docs/generate.py"


def test_every_sample_holds_one_of_its_literals() -> None:
    for name in TABLES:
        content = (DATA / name).read_bytes()
        literals = iter(literals_of_checked(name, content) or ())
        wanted: tuple[str, ...] = ()
        for row in content.decode("utf-8").splitlines():
            if row.startswith("\t"):
                sample = plain(row.split("\t")[1])
                assert not wanted or any(one in sample for one in wanted), row
            elif row.strip() and not row.startswith("#"):
                wanted = next(literals)


def test_a_changed_table_is_checked(tmp_path: Path) -> None:
    for name, read in (
        ("stages.tsv", read_markers),
        ("endings.tsv", read_ending_words),
        ("wrappers.tsv", read_wrappers),
    ):
        path = tmp_path / name
        text = (DATA / name).read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        read(path)
        path.write_text(text + "\tthis is no sample\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"match its sample|does not match"):
            read(path)


def test_without_the_record_all_is_checked(tmp_path: Path) -> None:
    assert json.loads(CHECKED.read_text(encoding="utf-8")).keys() == set(TABLES)
    assert all(not one.literals for one in read_markers(DATA / "stages.tsv", recheck=True))
    assert all(not one.literals for one in read_wrappers(recheck=True).known)
    assert all(not one.literals for _, one in read_ending_words(recheck=True).patterns)


def test_every_sample_of_a_shape_begins_with_one_of_its_first_signs() -> None:
    signs = iter(first_signs_of_checked("formats.tsv"))
    wanted = ""
    for row in (DATA / "formats.tsv").read_text(encoding="utf-8").splitlines():
        if row.startswith("\t"):
            assert not wanted or row[1] in wanted, row
        elif not row.startswith("#"):
            wanted = next(signs)


@pytest.mark.parametrize(
    ("pattern", "signs"),
    [
        ("abc", "a"),
        ("a?b*[cd]+e", "abcd"),
        (r"(?:x|\[)\d", "[x"),
        (r"(?P<a>\d{0,2}) ", " 0123456789"),
        ("[^a]b", ""),
        (".a", ""),
        ("a*", ""),
        ("(?=a)b", ""),
        ("(a?)b", "ab"),
    ],
)
def test_the_signs_that_a_pattern_may_begin_with(pattern: str, signs: str) -> None:
    assert first_signs_of(pattern) == signs


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"KV cache\nsize", "KV cache\nsize"), (r"Out  of\tmemory", "OUT  of\tmemory"), (r"a{2}long word", "aalong word")],
)
def test_a_literal_is_in_the_plain_form_of_what_matches(pattern: str, text: str) -> None:
    assert any(one in plain(text) for one in literals_of(pattern))
