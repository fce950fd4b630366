"""The monitor's rows: whatever a driver, /proc or a log says, they fit, and nothing unknown is a number."""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_probe.facts import Known, Unknown
from engine_probe.hardware.gpus import GpuProcess
from tests import monitor_samples as hosts
from tests.monitor_samples import ALERTS, EIGHT
from tui.commands.monitor_text import lines_of
from tui.screens.monitor_facts import draw_facts, reasons_of, rows_of
from tui.screens.monitor_history import KEPT_READINGS, History
from tui.screens.monitor_layout import PANES, Room, heights
from tui.themes.glyphs import UNICODE
from tui.widgets.alert_pane import draw_alerts, fold_alerts
from tui.widgets.gpu_pane import columns_for, draw_gpus, fold_gpus
from tui.widgets.host_pane import draw_host, fold_host, host_lines
from tui.widgets.model_table import draw_models, fold_models, gpu_range
from tui.widgets.monitor_words import lasting, number, sparkline
from tui.widgets.one_line import draw_top
from tui.widgets.process_table import ORDERS, Wanted, draw_processes, entries_of, fold_processes
from tui.widgets.row_pane import cells_of, changed_cells, fit, merged, plain_of

SIZES = st.one_of(
    st.floats(0, 200),
    st.sampled_from([0, -1.0, 1e308, math.inf, -math.inf, math.nan, 10**400, True, "none", "\x1b[2J"]),
)
FACTS = st.one_of(SIZES.map(lambda value: Known(value, "measured", "a test")), st.just(Unknown("the driver said no")))
WIDTHS = st.integers(1, 260)


def with_facts(draw, thing):
    """Each fact of a dataclass as something else."""
    return replace(
        thing,
        **{one.name: draw(FACTS) for one in fields(thing) if isinstance(getattr(thing, one.name), (Known, Unknown))},
    )


@st.composite
def readings(draw):
    base = draw(st.sampled_from(list(hosts.READINGS.values())))
    gpus = tuple(
        replace(
            with_facts(draw, one),
            processes=tuple(replace(process, used_gib=draw(FACTS)) for process in one.processes),
            slices=tuple(with_facts(draw, part) for part in one.slices),
        )
        for one in base.gpus.gpus[:4]
    )
    servers = tuple(
        replace(
            with_facts(draw, one),
            memory=tuple(with_facts(draw, split) for split in one.memory),
            state=draw(st.sampled_from(["loading", "serving", "failed", "orphan", "ending", "unknown"])),
            stage_detail=draw(st.sampled_from(["", "4 of 6 shards", "0 of 0", "9 of 3", "x" * 300])),
            started=draw(st.sampled_from([None, 0.0, 1e12])),
        )
        for one in base.servers
    )
    processes = tuple(with_facts(draw, one) for one in base.processes)
    return replace(
        base,
        gpus=replace(base.gpus, gpus=gpus),
        host=with_facts(draw, base.host),
        servers=servers,
        processes=processes,
    )


def assert_fits(content, width):
    assert len(content.rows) == len(content.keys) or not content.keys
    assert len(set(content.keys)) == len(content.keys)
    assert all(cells_of(row) <= width for row in content.rows)


@settings(max_examples=150, deadline=None)
@given(readings(), WIDTHS)
def test_every_pane_can_be_drawn_of_whatever_is_said(reading, width):
    history = History()
    history.add(reading)
    colours = {server.pid: "$accent" for server in reading.servers}
    gpus = draw_gpus(reading, history, colours, width, UNICODE)
    lines = host_lines(reading.host, 1.0)
    assert_fits(gpus, max(width, 1))
    assert_fits(draw_host(lines, width, UNICODE), width)
    assert_fits(draw_models(reading, colours, width, UNICODE), width)
    assert_fits(draw_alerts(ALERTS, width, UNICODE), width)
    for order in ORDERS:
        entries = entries_of(reading, Wanted(order))
        assert_fits(draw_processes(reading, entries, Wanted(order), width), width)
        assert len(entries) >= len(reading.processes)
    folded = (
        fold_gpus(gpus, reading), fold_host(lines, width), fold_models(reading, width), fold_alerts(ALERTS, width),
        fold_processes(entries, Wanted()),
    )  # fmt: skip
    assert all(one.rows == () for one in folded)
    for thing in (*reading.gpus.gpus, *reading.servers, *reading.processes, reading.host):
        assert "\x1b" not in draw_facts(rows_of(thing), 100).plain
        reasons_of(thing)


@pytest.mark.parametrize("width", [78, 118, 198])
def test_what_is_not_known_is_never_a_number(width):
    unknown = Unknown("no")
    gpu = EIGHT.gpus.gpus[0]
    nothing = replace(
        gpu, **{one.name: unknown for one in fields(gpu) if isinstance(getattr(gpu, one.name), Known)}, processes=()
    )
    server = replace(
        hosts.CHAT,
        **{one.name: unknown for one in fields(hosts.CHAT) if isinstance(getattr(hosts.CHAT, one.name), Known)},
        gpus=(), started=None, memory=(), name="chat",
    )  # fmt: skip
    reading = replace(EIGHT, gpus=replace(EIGHT.gpus, gpus=(nothing,)), servers=(server,))
    (row,) = draw_gpus(reading, History(), {}, width, UNICODE).rows
    assert not any(character.isdigit() for character in plain_of(row)[1:])
    (row,) = draw_models(reading, {}, width, UNICODE).rows
    assert not any(character.isdigit() for character in plain_of(row))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, True, "7"])
def test_what_is_no_number_that_could_be_drawn_is_none(value):
    assert number(Known(value, "measured", "a test")) is None


@given(st.integers(1, 300))
def test_the_columns_of_a_gpu_fill_the_width_and_the_bar_yields_last(width):
    columns = columns_for(width)
    if width >= 60:
        assert columns.bar >= 13
    dropped = [columns.peak, columns.temperature, columns.power, columns.history]
    assert dropped == sorted(dropped, key=lambda cells: cells == 0)


@given(st.dictionaries(st.sampled_from(PANES), st.tuples(st.integers(1, 40), st.sampled_from([None, True, False]))),
       st.integers(0, 80))  # fmt: skip
def test_panes_never_need_more_rows_than_there_are(chosen, height):
    rooms = {pane: Room(pane, *chosen.get(pane, (5, None))) for pane in PANES}
    given_rows = heights(rooms, height)
    assert sum(given_rows.values()) <= height
    assert all(rows >= 0 for rows in given_rows.values())
    if height >= len(PANES):
        assert all(rows >= 1 for rows in given_rows.values())
    assert all(given_rows[pane] <= 1 for pane, (_, is_open) in chosen.items() if is_open is False)


def test_history_does_not_grow():
    history = History()
    for _ in range(KEPT_READINGS * 3):
        history.add(EIGHT)
    assert len(history.memory("0")) == len(history.utilisation("0")) == history.readings == KEPT_READINGS


def test_a_line_of_history_ends_with_what_came_last():
    assert sparkline([0, 50, None, 100], 100.0, 6, UNICODE) == "  ▁▅ █"
    assert sparkline([0, 50, None, 100], 100.0, 2, UNICODE) == " █"
    assert sparkline([], 100.0, 3, UNICODE) == "   "


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "?"), (-5, "0s"), (31, "31s"), (245, "4m05s"), (725, "12m"), (7900, "2h11m"), (273_600, "3d04h")],
)
def test_how_long_it_lasts_is_told_as_precisely_as_helps(seconds, words):
    assert lasting(seconds) == words


def test_gpus_in_a_row_are_told_as_a_range():
    assert gpu_range((3, 0, 1, 2, 6)) == "0–3,6"
    assert gpu_range(()) == ""


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Mn", "Me", "Cf")), max_size=12)
ROWS = st.lists(st.tuples(TEXTS, st.sampled_from(["", "bold", "$quiet"])), max_size=6).map(tuple)


@given(ROWS, ROWS, st.integers(1, 60))
def test_what_is_drawn_again_covers_all_that_differs(old, new, width):
    start, stop = changed_cells(old, new, width)
    if cells_of(old) == cells_of(new) <= width and all(text.isascii() for text, _ in (*old, *new)):
        before = [(character, style) for text, style in old for character in text]
        after = [(character, style) for text, style in new for character in text]
        differing = [at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
        assert all(start <= at < max(stop, width) for at in differing)
        assert not differing or (start <= differing[0] and differing[-1] < stop)


@given(ROWS, st.integers(1, 60))
def test_a_row_is_cut_to_its_width_and_merging_changes_no_text(row, width):
    assert cells_of(fit(row, width)) <= max(width, 1)
    assert plain_of(tuple(merged(row))) == plain_of(row)


def _gpu_words(held_by: tuple, servers: tuple, processes: tuple = (), width: int = 250) -> tuple[str, str]:
    """What the screen and what `monitor --once` say of GPU 0."""
    one = hosts.gpu(0, 60.0, processes=held_by)
    reading = replace(EIGHT, gpus=replace(EIGHT.gpus, gpus=(one,)), servers=servers, processes=processes)
    row = plain_of(draw_gpus(reading, History(), {}, width, UNICODE).rows[0])
    printed = next(line.text for line in lines_of(reading, (), width) if line.text.lstrip().startswith("0  "))
    return row, printed


def test_a_gpus_row_names_who_holds_it_before_who_only_claims_it() -> None:
    """Orphans first, then the most memory; a server by its command alone is a guess."""
    hidden = GpuProcess(31_337, "not visible here", hosts.known(49.6), is_visible=False)
    small = GpuProcess(77, "python", hosts.known(2.0))
    claiming = replace(hosts.CODE, gpus=(0,), memory=())
    orphan = replace(hosts.ORPHAN, gpus=(0,), memory=(hosts.split(0, 1.5, None, None),))
    for shown in _gpu_words((small, hidden), (claiming, orphan)):
        places = [shown.find(words) for words in ("orphan pid 4711", "31337", "pid 77", "code-13b ?")]
        assert -1 not in places, shown
        assert places == sorted(places), shown


def test_a_gpu_that_is_sick_has_a_sign() -> None:
    sick = {
        "ecc_errors": hosts.known(2), "row_remap": hosts.known("failed"), "throttle": hosts.known("heat (hardware)"),
    }  # fmt: skip
    gpus = [hosts.gpu(0), *(replace(hosts.gpu(i), **{name: fact}) for i, (name, fact) in enumerate(sick.items(), 1))]
    gpus.append(replace(hosts.gpu(4), total_gib=hosts.LOST, used_gib=hosts.LOST))
    reading = replace(EIGHT, gpus=replace(EIGHT.gpus, gpus=tuple(gpus)), servers=(), processes=())
    rows = draw_gpus(reading, History(), {}, 76, UNICODE).rows
    assert [plain_of(row)[:3] for row in rows] == ["0  ", "1 !", "2 !", "3 !", "4 !"]


def test_columns_never_run_together() -> None:
    long = replace(
        hosts.CHAT, name="n" * 300, version=hosts.known("0.25.1rc1.dev5+g0123"), preemptions=hosts.known(123_456_789)
    )
    row = plain_of(draw_models(replace(EIGHT, servers=(long,)), {}, 196, UNICODE).rows[0])
    assert "0.25.1rc… 123,456… " in row
    stranger = replace(hosts.PROCESSES[-1], user="not known", gpu_gib=((5, hosts.known(2.0)),))
    reading = replace(EIGHT, processes=(stranger,), gpus=replace(EIGHT.gpus, gpus=()))
    for width in (110, 130, 196):
        shown = plain_of(draw_processes(reading, entries_of(reading, Wanted()), Wanted(), width).rows[0])
        assert re.search(r"not known +5 ", shown), shown


def test_a_name_is_not_cut_where_there_is_room() -> None:
    name = "organisation/A-Model-Of-Many-Words-70B-Instruct"
    row = plain_of(draw_models(replace(EIGHT, servers=(replace(hosts.CHAT, name=name),)), {}, 196, UNICODE).rows[0])
    assert f"{name} " in row


def test_what_runs_on_a_gpu_is_not_cut_beside_its_history() -> None:
    name = "organisation/A-Model-Of-Many-Words-And-More-Words-70B-Instruct"
    reading = replace(EIGHT, servers=(replace(hosts.CHAT, name=name),))
    for width, is_whole in ((196, True), (76, False)):
        row = plain_of(draw_gpus(reading, History(), {}, width, UNICODE).rows[0])
        assert (f"{name} tp0 " in row) == is_whole


def test_alerts_have_the_rows_that_nobody_else_needs() -> None:
    rooms = {name: Room(name, rows) for name, rows in zip(PANES, (3, 3, 3, 12, 3), strict=True)}
    assert heights(rooms, 40)["alerts"] == 12
    assert heights(rooms, 20)["alerts"] == 8


def test_a_release_in_the_header_is_that_of_all_servers() -> None:
    unknown = replace(hosts.CODE, version=Unknown("its log does not say it"))
    assert "vLLM 0.19.0" in plain_of(draw_top(replace(EIGHT, servers=(hosts.CHAT,)), 150))
    assert "vLLM" not in plain_of(draw_top(replace(EIGHT, servers=(hosts.CHAT, unknown)), 150)).replace("vllm", "")


def test_a_server_that_the_driver_lists_without_a_size_is_no_guess() -> None:
    member = GpuProcess(5101, "VLLM::EngineCore", Unknown("the driver does not say it here"))
    row, _ = _gpu_words((member,), (replace(hosts.CODE, gpus=(0,), memory=()),))
    assert "code-13b" in row
    assert "code-13b ?" not in row
