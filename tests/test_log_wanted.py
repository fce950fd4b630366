"""Filters and counts that are made a bit at a time are those that are made in one go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine_probe.logs.index import open_log
from engine_probe.logs.index_classes import LAYERS
from engine_probe.logs.index_wanted import Wanted
from tests.vllm_log_samples import LOAD
from tui.log_wanted import WantedLines
from tui.opened_log import OpenedLog

OTHER = LOAD.replace(b"acme/m-7b", b"acme/other")
ALL = [
    Wanted(),
    Wanted(levels=frozenset({"ERROR"})),
    Wanted(layers=frozenset({"engine"}), stages=frozenset({"memory_planning"})),
    Wanted(model="other", levels=frozenset({"INFO"})),
    Wanted(model="m-7b", layers=frozenset({"worker", "frontend"}), rank=0),
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_bytes(b"\n".join([LOAD, OTHER] * 2000) + b"\n")
    return path


@pytest.mark.parametrize("wanted", ALL, ids=str)
def test_pieces_add_up_to_the_whole_also_when_the_log_grows(path, wanted):
    index = open_log(path)
    lines = WantedLines(index)
    lines.want(wanted)
    for _ in range(2):
        while not index.advance():
            pass
        while not lines.select(0.0):
            pass
        while not lines.count(0.0):
            pass
        selection = lines.selection()
        assert (selection is None) == (wanted == Wanted())
        assert selection is None or selection.mask == index.filter(wanted).mask
        assert lines.counts == {
            layer: len(index.filter(replace(wanted, layers=frozenset({layer})))) for layer in LAYERS
        }
        with path.open("ab") as file:
            file.write(OTHER + b"\n")
    index.close()


def test_what_is_shown_stays_until_another_filter_is_ready(path, monkeypatch):
    log = OpenedLog.of_file(path)
    while log.step() or not log.is_derived:
        pass
    before = log.state_of_rows, log.row_count
    monkeypatch.setattr("tui.opened_log._WANT_SECONDS", 0.0)
    log.want(Wanted(levels=frozenset({"ERROR"})))
    assert (log.state_of_rows, log.row_count) == before or log.wanted_count == 4000 * 5
    while log.step() or not log.is_derived:
        pass
    assert log.state_of_rows != before[0]
    assert log.wanted_count == len(log.index.filter(log.wanted))
    log.close()
