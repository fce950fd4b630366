"""What a diagnosis found is an error for `!` from then on, whatever level its line has."""

from __future__ import annotations

from tests.memory_logs import LOADING, v1
from tests.test_log_viewer_diagnosis import diagnosing
from tests.tui_samples import until
from tui.opened_log import OpenedLog
from tui.screens.log_viewer import LogViewerScreen

WAITING = (
    "(APIServer pid=1) INFO 08-12 10:00:09 [core_client.py:9] "
    "Waiting for 1 local, 0 remote core engine proc(s) to start."
)


async def test_the_cause_that_was_diagnosed_is_an_error(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(v1("0.13.0", LOADING) + WAITING + "\n", encoding="utf-8")
    log = OpenedLog.of_file(path)
    async with diagnosing(log, tmp_path) as viewer:
        await viewer.pilot.press("escape")
        await until(viewer.pilot, lambda: isinstance(viewer.pilot.app.screen, LogViewerScreen))
        told = log.next_error(-1)
        assert told is not None
        assert log.index.lines(told, told + 1)[0].level not in ("ERROR", "CRITICAL")
        await viewer.pilot.press("exclamation_mark")
        await until(viewer.pilot, lambda: viewer.view.marked == told)


def test_lines_told_come_in_their_place(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text("INFO 08-12 10:00:09 [a.py:9] one\n" * 5 + "ERROR 08-12 10:00:09 [a.py:9] two\n", encoding="utf-8")
    log = OpenedLog.of_file(path)
    while log.step(1.0):
        pass
    assert [log.next_error(-1), log.last_error(5)] == [5, 5]
    log.tell_causes([2, 5])
    assert [log.next_error(-1), log.next_error(2), log.last_error(5)] == [2, 5, 2]
    log.close()
