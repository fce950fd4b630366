"""The log viewer on several logs at once, driven by keys."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from engine_probe.logs.index_time import Span, parse_time
from engine_probe.logs.index_wanted import Wanted
from engine_probe.logs.sources import Source
from tests.test_log_viewer import Viewer, until
from tests.tui_samples import backend
from tests.vllm_log_samples import LOAD
from tui.app import ConsoleApp
from tui.opened_log import OpenedLog
from tui.screens.log_viewer import LogViewerScreen
from tui.themes.glyphs import UNICODE
from tui.widgets.key_bar import KeyBar
from tui.widgets.log_filters import LogFilters
from tui.widgets.log_stages import LogStages
from tui.widgets.log_wanted_words import words_of

if TYPE_CHECKING:
    from pathlib import Path


def record(clock: str, text: str) -> str:
    return f"INFO 03-02 {clock} [core.py:1] {text}"


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    head, worker = tmp_path / "head.log", tmp_path / "worker.log"
    head.write_text(record("10:00:01", "h1") + "\nbare\n" + record("10:00:03", "h3") + "\n")
    worker.write_text(record("10:00:02", "w2") + "\n" + record("10:00:04", "w4") + "\n")
    return [head, worker]


@asynccontextmanager
async def viewing(*paths: Path, size=(100, 24), wanted: Wanted | None = None):
    log = OpenedLog.of_sources([Source("file", str(path)) for path in paths])
    if wanted:
        log.want(wanted)
    app = ConsoleApp(backend("nothing to open", exports=paths[0].parent / "exports"), log=log, glyphs=UNICODE)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        viewer = Viewer(pilot, log)
        await viewer.until(lambda: viewer.is_settled)
        await pilot.pause()
        yield viewer
    log.close()


def messages(viewer: Viewer) -> list[str]:
    return [text.rpartition("] ")[2] for text in viewer.raws()]


def drawn(viewer: Viewer) -> list[str]:
    view = viewer.view
    rows = (view.render_line(y).text for y in range(view.scrollable_content_region.height))
    return [row.rstrip() for row in rows if row.strip()]


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)], ids=str)
async def test_lines_stand_in_order_with_the_name_of_their_log(paths, size):
    async with viewing(*paths, size=size) as viewer:
        assert messages(viewer) == ["h1", "bare", "w2", "h3", "w4"]
        names = [row.split()[1] if row[:2] == "10" else row.split()[0] for row in drawn(viewer)]
        assert names == ["head", "head", "worker", "head", "worker"]
        assert drawn(viewer)[0].startswith("10:00:01 head   ")
        assert viewer.words("#log-title").startswith("head.log + worker.log · 5 lines")


async def test_one_log_is_shown_alone_and_then_the_next_and_then_all(paths):
    async with viewing(*paths) as viewer:
        assert "m merge" in viewer.words(KeyBar)
        await viewer.press("m")
        await viewer.until(lambda: messages(viewer) == ["h1", "bare", "h3"])
        assert viewer.words("#log-title").startswith("head.log, 1 of 2 · 5 lines, 3 shown")
        assert "head" not in " ".join(drawn(viewer))
        await viewer.press("m")
        await viewer.until(lambda: messages(viewer) == ["w2", "w4"])
        await viewer.press("m")
        await viewer.until(lambda: len(messages(viewer)) == 5)


async def test_an_export_says_which_log_a_line_is_of(paths, tmp_path):
    async with viewing(*paths) as viewer:
        await viewer.press("e")
        await viewer.until(lambda: "Written" in viewer.words(KeyBar))
        (written,) = (tmp_path / "exports").iterdir()
        lines = written.read_text().splitlines()
        assert [line.partition(": ")[0] for line in lines] == [
            "head.log", "head.log", "worker.log", "head.log", "worker.log"
        ]  # fmt: skip


async def test_one_log_has_no_such_key(paths):
    async with viewing(paths[0]) as viewer:
        assert "m merge" not in viewer.words(KeyBar)
        assert messages(viewer) == ["h1", "bare", "h3"]
        assert viewer.words("#log-title").startswith("head.log · 3 lines")


async def test_what_comes_is_shown_with_its_log_and_breaks_name_theirs(paths):
    head, worker = paths
    async with viewing(*paths) as viewer:
        with head.open("a") as file:
            file.write(record("10:00:00", "late") + "\n")
        await viewer.until(lambda: messages(viewer)[-1:] == ["late"])
        worker.rename(worker.with_suffix(".1"))
        worker.write_text(record("10:00:09", "w9") + "\n")
        await viewer.until(lambda: messages(viewer)[-1:] == ["w9"])
        assert viewer.raws()[-2] == "worker.log: the file was rotated; a new one begins here"
        head.write_text(record("10:00:10", "h10") + "\n")
        await viewer.until(lambda: "head.log: the file was cut and begins anew here" in viewer.raws())
        await viewer.until(lambda: messages(viewer)[0] == "w2")
        await viewer.until(lambda: messages(viewer)[-1] == "h10")
        assert viewer.raws()[-2] == "head.log: the file was cut and begins anew here"


async def test_stages_are_those_of_the_log_that_is_looked_at(tmp_path, paths):
    load = tmp_path / "load.log"
    load.write_bytes(LOAD + b"\n")
    async with viewing(load, paths[0]) as viewer:
        await viewer.press("space")  # the first line is looked at, and not the last one
        await viewer.until(lambda: "no load stage" in viewer.words(LogStages))
        await viewer.press("g")
        await viewer.until(lambda: "config" in viewer.words(LogStages))
        assert viewer.log.index.place_of(viewer.view.marked)[0] == 0


async def test_only_lines_that_match_are_shown_and_all_again(paths):
    async with viewing(*paths) as viewer:
        await viewer.ask("slash", "w|h3")
        await viewer.press("ampersand")
        await viewer.until(lambda: messages(viewer) == ["w2", "h3", "w4"])
        assert "only w|h3" in viewer.words(LogFilters)
        with paths[1].open("a") as file:
            file.write(record("10:00:05", "w5") + "\n" + record("10:00:06", "x") + "\n")
        await viewer.until(lambda: messages(viewer) == ["w2", "h3", "w4", "w5"])
        await viewer.until(lambda: "F 0" in viewer.words(LogFilters) and "E 4" in viewer.words(LogFilters))
        await viewer.press("ampersand")
        await viewer.until(lambda: len(messages(viewer)) == 7)
        await viewer.press("ampersand")
        await viewer.until(lambda: len(messages(viewer)) == 4)
        await viewer.press("escape")
        await viewer.until(lambda: len(messages(viewer)) == 7)
        assert not viewer.log.is_filtered


async def test_filters_of_the_command_line_are_said(paths):
    wanted = Wanted(rank=1, processes=frozenset({"Worker"}), span=Span(parse_time("10:00:02", "--since"), None))
    async with viewing(*paths, wanted=wanted) as viewer:
        assert viewer.words("#log-title").partition("  ")[0] == (
            "head.log + worker.log · 5 lines, 0 shown, only Worker, rank 1, from 10:00:02"
        )


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Wanted(), ""),
        (Wanted(levels=frozenset({"ERROR", "CRITICAL"}), stages=frozenset({"warmup"})), ""),
        (Wanted(levels=frozenset({"INFO", "WARNING", "ERROR", "CRITICAL"})), "only level ≥ info"),
        (Wanted(levels=frozenset({"CRITICAL"})), "only critical"),
        (Wanted(stages=frozenset({"warmup", "config"})), "only config or warmup"),
        (Wanted(span=Span(None, parse_time("03-02 10:11", "--until"))), "only to 03-02 10:11:59"),
    ],
)
def test_words_of_what_is_wanted(wanted, words):
    assert words_of(wanted) == words


async def test_the_stages_are_those_of_the_log_that_is_shown(tmp_path):
    whole = LOAD[: LOAD.index(b"(EngineCore_DP0 pid=20) ERROR")].replace(b" 10:", b" 11:")
    failed, healthy = tmp_path / "failed.log", tmp_path / "healthy.log"
    failed.write_bytes(LOAD + b"\n")
    healthy.write_bytes(whole)
    async with viewing(failed, healthy, size=(120, 24)) as viewer:
        await viewer.until(lambda: "healthy.log · 2 loads, 1 failed" in viewer.words(LogStages))
        assert "✗" not in viewer.words(LogStages)
        await viewer.press("m")
        await viewer.until(lambda: "✗" in viewer.words(LogStages))
        assert viewer.view.following
        assert "loads" not in viewer.words(LogStages)
