"""The file of what was learnt: many writers, damage, later forms, and its bound."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_probe.errors import InputError
from engine_probe.memory import learned_store
from engine_probe.memory.learned import Printed, Start
from engine_probe.memory.learned_lookup import learned_or_nothing
from engine_probe.memory.learned_model import Fingerprint
from engine_probe.memory.learned_store import keep_learned, read_learned

if TYPE_CHECKING:
    from pathlib import Path

START = Start(
    id="one",
    time=1000.0,
    model=Fingerprint("c" * 32, None),
    version="0.13.0",
    card="H100-80GB",
    args={"max-model-len": 4096, "enforce-eager": True, "dtype": "bfloat16", "gpu-memory-utilization": 0.9},
    printed={"weights_gib": Printed(6.8, "a.log:5"), "kv_tokens": Printed(981376.0, "a.log:8")},
    predicted={"weights_gib": 6.75},
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "state" / "learned.jsonl"


def numbered(number: int, **others: object) -> Start:
    return replace(START, id=f"id{number}", time=float(number), **others)  # type: ignore[arg-type]


def test_what_is_kept_comes_back_the_same(store: Path) -> None:
    assert keep_learned([START], store) == 1
    assert read_learned(store).starts == (START,)
    assert store.stat().st_mode & 0o077 == 0, "only for its user"


def test_nothing_is_kept_of_nothing(store: Path) -> None:
    assert keep_learned([], store) == 0
    assert not store.exists()


def test_a_start_counts_once_and_its_fuller_form_wins(store: Path) -> None:
    keep_learned([replace(START, printed={"weights_gib": Printed(6.8, "a.log:5")})], store)
    assert keep_learned([START], store) == 0
    assert keep_learned([START], store) == 0
    assert read_learned(store).starts == (START,)
    assert len(store.read_text().splitlines()) == 2


def test_the_newest_comes_first(store: Path) -> None:
    for number in range(3):
        keep_learned([numbered(number)], store)
    assert [one.id for one in read_learned(store).starts] == ["id2", "id1", "id0"]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"schema": 1}',
        b'{"schema": 0}',
        b"[" * 5_000,
        b'{"schema":1,"id":"x","time":1e999,"config":"c","weights":null,"version":"1","card":"c","args":{},"printed":{}}',
        b'{"schema":1,"id":"x","time":1,"config":"c","weights":null,"version":"1","card":"c","args":{},"printed":{"kv_tokens":["many","a"]}}',
        b"x" * 100_000,
    ],
)
def test_damaged_lines_are_counted_and_passed_over(store: Path, line: bytes) -> None:
    keep_learned([numbered(1)], store)
    with store.open("ab") as stream:
        stream.write(line + b"\n")
    keep_learned([numbered(2)], store)
    found = read_learned(store)
    assert [one.id for one in found.starts] == ["id2", "id1"]
    assert (found.damaged, found.newer) == (1, 0)
    assert "1 lines" in (learned_or_nothing(store)[1] or "")


def test_a_line_that_a_crash_cut_spoils_only_itself(store: Path) -> None:
    keep_learned([numbered(1)], store)
    with store.open("ab") as stream:
        stream.write(b'{"schema":1,"id":"cu')
    keep_learned([numbered(2)], store)
    found = read_learned(store)
    assert ([one.id for one in found.starts], found.damaged) == (["id2", "id1"], 1)


def test_a_later_form_is_passed_over_and_new_keys_do_not_matter(store: Path) -> None:
    keep_learned([START], store)
    line = json.loads(store.read_text())
    later = {**line, "schema": 2, "printed": "another form"}
    more = {**line, "id": "more", "host": "box", "printed": {**line["printed"], "new_gib": [1.0, "a.log:9"]}}
    with store.open("a") as stream:
        stream.write(json.dumps(later) + "\n" + json.dumps(more) + "\n")
    found = read_learned(store)
    assert [one.id for one in found.starts] == ["more", "one"]
    assert found.starts[0].printed == START.printed
    assert (found.damaged, found.newer) == (0, 1)


def test_the_file_is_bounded_and_keeps_the_newest(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_store, "MOST_STARTS", 20)
    keep_learned([numbered(0, card="cpu")], store)
    with store.open("a") as stream:
        stream.write("damaged\n")
    for number in range(1, 40):
        keep_learned([numbered(number, args={"max-model-len": number})], store)
    found = read_learned(store)
    assert found.damaged == 0
    assert found.starts[0].id == "id39"
    assert 20 <= len(found.starts) <= 25
    assert "id0" not in {one.id for one in found.starts}


def test_of_one_set_of_arguments_only_the_newest_are_kept(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_store, "MOST_STARTS", 20)
    keep_learned([numbered(0, card="cpu")], store)
    for number in range(1, 26):
        keep_learned([numbered(number)], store)
    ids = [one.id for one in read_learned(store).starts]
    assert "id0" in ids, "many starts of one kind do not push out another"
    assert ids[0] == "id25"
    assert len(ids) < 12


def _write(path: Path, first: int, count: int) -> None:
    for number in range(first, first + count):
        keep_learned([numbered(number)], path)


def test_many_writers_at_once_lose_nothing(store: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(store, 1000 * number, 15)) for number in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    found = read_learned(store)
    assert [one.exitcode for one in writers] == [0] * 4
    assert (len(found.starts), found.damaged) == (60, 0)


def test_a_folder_in_its_place_or_none_to_write_to_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "learned.jsonl").mkdir()
    with pytest.raises(InputError, match="cannot be"):
        keep_learned([START], tmp_path / "learned.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"):
        keep_learned([START], tmp_path / "file" / "learned.jsonl")
    found, why = learned_or_nothing(tmp_path / "learned.jsonl")
    assert found.starts == ()
    assert why is not None


def test_the_state_folder_is_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    keep_learned([START])
    assert (tmp_path / "vllm-console" / "learned.jsonl").is_file()
    assert read_learned().starts == (START,)


@given(st.binary(max_size=300))
def test_any_content_is_read(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)
    found = read_learned(path)
    assert found.damaged + found.newer + len(found.starts) == sum(bool(one.strip()) for one in content.split(b"\n"))
