"""Long lines folded to the screen: nothing is lost or seen twice, and keys lead to the same lines as before."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from tests.test_log_viewer import viewing
from tui.widgets.log_filters import LogFilters
from tui.widgets.log_view_wrap import Spot, folded, moved

if TYPE_CHECKING:
    from pathlib import Path

WORD = re.compile(r"w\d+_\d+")
HEAD = "(Worker_TP1 pid=31) INFO 03-02 10:11:41 [a.py:1] "


def numbered(count: int, words: int) -> list[str]:
    """Lines of one to `words` words, each of them another one."""
    return [HEAD + " ".join(f"w{number}_{word}" for word in range(1 + number % (words - 1))) for number in range(count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_text("\n".join(numbered(150, 60)) + "\n")
    return path


def text_of(viewer) -> str:
    """What the view shows, a line for each row of the screen."""
    view = viewer.view
    return "\n".join(view.render_line(y).text for y in range(view.scrollable_content_region.height))


@pytest.mark.parametrize("width", [8, 20, 79])
@pytest.mark.parametrize(
    "text",
    ["", "a", "abc def " * 30, "x" * 5000, "模型 加载失败" * 50, "🚀" * 50 + "e\u0301" * 40, " " * 300, "a 模" * 99],
)
def test_pieces_are_the_whole_text_and_fit(text, width):
    pieces = folded(text, width)
    assert "".join(text[start:end] for start, end in pieces) == text
    assert all(cell_len(text[start:end]) <= width for start, end in pieces)
    assert all(start < end for start, end in pieces) or not text


def test_words_stay_whole_where_that_costs_little():
    text = "abc def ghi jkl " * 4
    assert {text[start:end][-1] for start, end in folded(text, 10)} == {" "}


def test_moving_down_and_up_over_rows_of_any_height_meets_each_once():
    heights = [1, 4, 2, 70, 1, 1, 3]
    spots = [Spot(row, skip) for row, height in enumerate(heights) for skip in range(height)]
    for at, spot in enumerate(spots):
        for by in (-100, -9, -1, 0, 1, 9, 100):
            expected = spots[max(0, min(at + by, len(spots) - 1))]
            assert moved(spot, by, len(heights), heights.__getitem__) == expected
    assert moved(Spot(0), 5, 0, heights.__getitem__) == Spot(0)


@pytest.mark.parametrize(("size", "raw"), [((80, 24), False), ((200, 50), False), ((80, 24), True)], ids=str)
async def test_paging_shows_all_of_all_lines_once(path, size, raw):
    words = WORD.findall(path.read_text())
    async with viewing(path, size) as viewer:
        await viewer.press("w", *(["r"] if raw else []), "home")
        for key, order in (("pagedown", 1), ("pageup", -1)):
            pages = [WORD.findall(text_of(viewer))]
            while pages[-1][::order][-1] != words[::order][-1]:
                await viewer.press(key)
                pages.append(WORD.findall(text_of(viewer)))
            whole = [word for page in pages[:-1][::order] for word in page]
            assert len(set(whole)) == len(whole)
            assert whole == (words[: len(whole)] if order > 0 else words[-len(whole) :])
            assert {*whole, *pages[-1]} == set(words)


async def test_one_row_of_the_screen_at_a_time(path):
    async with viewing(path, (80, 24)) as viewer:
        await viewer.press("w", "home")
        for key in ("j", "k", "ctrl+d", "ctrl+u"):
            await viewer.press("ctrl+d")
            before = text_of(viewer).splitlines()
            await viewer.press(key)
            after = text_of(viewer).splitlines()
            by = {"j": 1, "k": -1, "ctrl+d": len(before) // 2, "ctrl+u": -(len(before) // 2)}[key]
            assert before[by:] == after[:-by] if by > 0 else before[:by] == after[-by:]


async def test_marks_matches_and_errors_are_gone_to_as_before(path):
    with path.open("a") as file:
        file.write(HEAD.replace("INFO", "ERROR") + "last\n" + "\n".join(numbered(100, 60)))
    async with viewing(path, (80, 24)) as viewer:
        await viewer.press("w", "home", "exclamation_mark")
        assert viewer.view.marked == 150
        assert "last" in text_of(viewer)
        await viewer.ask("slash", "w58_58")
        await viewer.until(lambda: viewer.view.marked == 209)
        await viewer.until(lambda: "2 of 2" in viewer.words(LogFilters))
        await viewer.press("n")
        assert viewer.view.marked == 58
        strips = [viewer.view.render_line(y) for y in range(viewer.view.size.height)]
        marks = [segment.text for strip in strips for segment in strip if segment.style and segment.style.reverse]
        assert marks == ["w58_58"]
        marked = [
            strip.text
            for strip in strips
            if any(seg.style and seg.style.bold and seg.text.isspace() and seg.style.bgcolor for seg in strip)
        ]
        assert marked
        await viewer.press("w")
        assert "w58_0" in text_of(viewer)


async def test_the_end_is_followed_and_a_dragged_bar_reaches_it(path):
    async with viewing(path, (80, 24)) as viewer:
        await viewer.press("w")
        assert "w149_31" in text_of(viewer).splitlines()[-1]
        with path.open("a") as file:
            file.write(HEAD + " ".join(f"w150_{word}" for word in range(200)) + "\n")
        await viewer.until(lambda: "w150_199" in text_of(viewer).splitlines()[-1])
        await viewer.press("home")
        viewer.view.scroll_to(y=viewer.view.max_scroll_y, animate=False)
        await viewer.until(lambda: "w150_199" in text_of(viewer).splitlines()[-1])


async def test_an_endless_line_is_bounded_and_gone_through(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text("first\n" + "x" * 300_000 + "\nlast\n")
    async with viewing(path, (80, 24)) as viewer:
        await viewer.press("w")
        assert text_of(viewer).splitlines()[-1].split() == ["last"]
        pages = 0
        while "first" not in text_of(viewer):
            await viewer.press("pageup")
            pages += 1
        assert 40 < pages < 60
        strips = viewer.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {80}


async def test_wide_characters_stay_in_their_columns(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text((HEAD + "模型加载失败🚀" * 40 + "\n") * 20)
    async with viewing(path, (81, 24)) as viewer:
        await viewer.press("w")
        strips = viewer.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {81}
        text = "".join(row.split(":")[-1].strip() for row in text_of(viewer).splitlines())
        assert "模型加载失败🚀" * 70 in text


async def test_the_marked_line_stays_seen_when_the_look_changes(path):
    async with viewing(path, (80, 24)) as viewer:
        await viewer.ask("G", "119")
        for key in ("w", "r", "w", "r", "b", "w", "b"):
            await viewer.press(key)
            assert any(row.number == 118 for row in viewer.view.visible_rows())


async def test_a_line_of_megabytes_is_folded_once_and_not_at_each_key(tmp_path, monkeypatch):
    path = tmp_path / "long.log"
    path.write_text(HEAD + "first\n" + HEAD + "wörd " * 400_000)
    measured: list[int] = []

    def counting(text: str, width: int):
        measured.append(len(text))
        return folded(text, width)

    monkeypatch.setattr("tui.widgets.log_view_kept.folded", counting)
    async with viewing(path, (80, 24)) as viewer:
        await viewer.press("w")
        await viewer.press("k", "k", "pageup", "j", "home", "j", "end", "k")
        long = [size for size in measured if size > 1000]
        assert max(long) < 1 << 17
        assert len(long) <= 3, "at another width, where the scroll bar comes, it is folded anew"
        await viewer.press("q")
        await viewer.until(lambda: viewer.pilot.app.closing)
