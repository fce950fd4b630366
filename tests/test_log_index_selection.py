"""Rows of what is shown and lines of the log convert both ways, and selections combine."""

from __future__ import annotations

import random

from engine_probe.logs.index_selection import Selection, and_masks


def test_rows_and_lines_convert_both_ways() -> None:
    chance = random.Random(3)
    mask = bytes(chance.random() < 0.01 for _ in range(50_000))
    chosen = [number for number, is_in in enumerate(mask) if is_in]
    selection = Selection(mask)
    assert len(selection) == len(chosen)
    assert selection.rows(0, 10**6) == chosen
    assert selection.rows(100, 150) == chosen[100:150]
    assert selection.rows(-5, 3) == chosen[:3]
    assert selection.rows(7, 7) == []
    assert [selection.row_of(line) for line in chosen] == list(range(len(chosen)))
    assert selection.next_from(chosen[5] + 1) == chosen[6]
    assert selection.last_before(chosen[5]) == chosen[4]
    assert selection.next_from(50_000) is selection.last_before(0) is None


def test_selections_combine() -> None:
    assert (Selection(b"\1\1\0\1") & Selection(b"\1\0\1")).rows(0, 9) == [0]
    assert and_masks(b"", b"\1") == b"\0"


def test_selections_of_many_strides_combine_as_their_masks_do() -> None:
    chance = random.Random(4)
    one, two = (bytes(chance.random() < share for _ in range(30_000)) for share in (0.001, 0.5))
    combined = Selection(one) & Selection(two[:20_000])
    assert combined.mask == and_masks(one, two[:20_000])
    assert len(combined) == sum(combined.mask)
