"""The keys of the log viewer that are offered: only those that work now, the most useful ones first."""

from __future__ import annotations

import pytest

from tests.test_log_viewer import path, viewing  # noqa: F401 -- a fixture
from tui import actions
from tui.screens.help import draw_help
from tui.themes.glyphs import UNICODE


def test_in_a_log_the_help_is_about_the_log_only():
    text = draw_help(120, UNICODE, "logs").plain
    assert text.startswith("In a log\n")
    headings = [line for line in text.split("\n") if line and not line.startswith(" ")]
    assert headings == [
        "In a log", "In a log, behind f", "Moving in a log", "Marking and scrolling",
        "Layers, as the log's first column names them", "Glyphs",
    ]  # fmt: skip
    for action in actions.ACTIONS:
        assert (action.tooltip in " ".join(text.split())) == ("logs" in action.places) or action.tooltip == action.label


@pytest.mark.parametrize("width", [80, 120, 200])
async def test_the_footer_offers_the_most_useful_keys_first(path, width):  # noqa: F811
    async with viewing(path, (width, 24)) as viewer:
        keys = viewer.words("#keys")
        for shown in ("f filter", "/ find", "! error", "enter open", "d diagnose", "? help", "q quit"):
            assert shown in keys
        await viewer.press("f")
        assert viewer.words("#keys").strip().startswith("esc done   l level   s stage   a all   f frontend")
        assert "d model" not in viewer.words("#keys")
        await viewer.press("escape", "r")
        assert "enter" not in viewer.words("#keys")


def test_no_key_means_two_things_at_once():
    moments = [
        actions.Moment("logs", filtering=filtering, has_search=search, log_paused=paused, fold=fold, has_folds=True,
                       has_models=True, is_bare=bare)
        for filtering in (False, True) for search in (False, True) for paused in (False, True)
        for fold in (None, "open", "closed") for bare in (False, True)
    ]  # fmt: skip
    for moment in moments:
        keys = [action.key for action in actions.available(moment)]
        assert len(keys) == len(set(keys)), moment
