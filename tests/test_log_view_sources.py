"""Names of several logs in the column beside their lines: no two are the same, however long they are."""

from __future__ import annotations

import pytest

from tui.widgets.log_view_draw import source_cells
from tui.widgets.log_view_sources import column_names


@pytest.mark.parametrize(
    ("sources", "narrow", "wide"),
    [
        (("a.log", "b.log"), ("a", "b"), ("a", "b")),
        (("x/engine.log", "y/engine.log"), ("x", "y"), ("x", "y")),
        (("gpu-server-a/engine.log", "gpu-server-b/engine.log"),
         ("…rver-a", "…rver-b"), ("gpu-server-a", "gpu-server-b")),
        (("alpha-2025-11-29/e.log", "beta-2025-11-29/e.log"),
         ("alpha-…", "beta-2…"), ("…pha-2025-11-29", "beta-2025-11-29")),
        (("a.log", "x/engine.log", "y/engine.log"), ("a", "x/engi…", "y/engi…"), ("a", "x/engine", "y/engine")),
        (("same", "same"), ("1 same", "2 same"), ("1 same", "2 same")),
    ],
)  # fmt: skip
def test_names_in_the_column(sources: tuple[str, ...], narrow: tuple[str, ...], wide: tuple[str, ...]) -> None:
    assert column_names(sources, is_wide=False) == narrow
    assert column_names(sources, is_wide=True) == wide
    assert len(set(narrow)) == len(set(wide)) == len(sources)
    assert source_cells(narrow) <= 8


def test_one_log_needs_no_column() -> None:
    assert source_cells(column_names((), is_wide=True)) == 0
