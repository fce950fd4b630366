"""The monitor driven by keys and mouse, at all sizes, on readings made by hand."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import pytest
from textual.widgets import Input

from engine_probe.facts import Unknown
from engine_probe.hardware.gpus import GpuState
from playbooks.alert import Alert
from playbooks.library import find, load_library
from tests import monitor_samples as hosts
from tests.memory_logs import LOADING, failed, v1
from tests.monitor_samples import ALERTS, EIGHT, FakeWatch, known
from tests.test_tui_console import keys_of
from tests.tui_samples import NOON, backend, until, until_still
from tui.app import ConsoleApp
from tui.monitor_evidence import evidence_of, launch_of
from tui.screens.diagnosis import DiagnosisScreen
from tui.screens.dialogs import AskText
from tui.screens.facts_dialog import FactsDialog
from tui.screens.help import HelpScreen
from tui.screens.log_viewer import LogViewerScreen
from tui.screens.monitor import MonitorScreen
from tui.screens.monitor_alert import draw_alert, facts_of
from tui.screens.start import StartScreen
from tui.themes.glyphs import ASCII, UNICODE
from tui.widgets.step_pane import StepPane
from tui.widgets.words import Words

SIZES = [(80, 24), (100, 30), (120, 36), (200, 50), (250, 60)]


def console(*readings, alerts=(), glyphs=UNICODE, every_seconds=1.0, **options):
    """On readings that come one by one; the last of them stays."""
    watch = FakeWatch(readings)
    world = replace(backend(alerts=tuple(alerts), **options), watch=lambda: watch)
    app = ConsoleApp(world, glyphs=glyphs, interval_seconds=every_seconds)
    app.watch = watch
    return app


async def monitor_of(pilot):
    """The monitor, once its first reading is drawn."""
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, MonitorScreen) and app.screen.look is not None)
    await until_still(pilot)
    return app.screen


def drawn(app) -> list[str]:
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


def text_of(app) -> str:
    return "\n".join(drawn(app))


async def focus(pilot, name):
    """Into a pane, with tab."""
    screen = pilot.app.screen
    for _ in range(6):
        if screen.marked_pane == name:
            return screen.panes[name]
        await pilot.press("tab")
    raise AssertionError(f"tab never came to {name}")


# Each host at each size


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", list(hosts.READINGS))
async def test_nothing_is_lost_or_overlaps(name, size):
    app = console(hosts.READINGS[name], alerts=ALERTS)
    async with app.run_test(size=size) as pilot:
        screen = await monitor_of(pilot)
        regions = [widget.region for widget in screen.children if widget.display and widget.region.height]
        assert sum(region.height for region in regions) <= size[1]
        assert all(screen.region.contains_region(region) for region in regions)
        assert not any(one.overlaps(other) for one in regions for other in regions if one is not other)
        for pane in screen.panes.values():
            assert pane.region.height >= 1
            width = pane.content_region.width
            rows = [pane.content.heading, *(pane.content.rows if pane.is_open else ())]
            assert all(sum(len(text) for text, _ in row) <= width for row in rows)
        assert "q quit" in text_of(app)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("count", [0, 1, 8, 16])
async def test_each_gpu_is_seen_or_its_row_can_be_scrolled_to(count, size):
    gpus = replace(EIGHT.gpus, gpus=hosts.SIXTEEN.gpus.gpus[:count])
    app = console(replace(EIGHT, gpus=gpus))
    async with app.run_test(size=size) as pilot:
        await monitor_of(pilot)
        if count == 0:
            assert "GPUs  none, because the driver reports none on this host" in text_of(app)
            return
        pane = await focus(pilot, "gpus")
        seen = [line for line in drawn(app) if re.match(r" [▸ ] \d+ +[█▓▒░╳·]+ ", line)]
        assert len(seen) == count or f"1–{len(seen)} of {count}" in text_of(app)
        assert all(re.search(r"\d / 79\.3 GiB  .* \d+ %", line) for line in seen)
        await pilot.press("end")
        assert any(re.match(rf" ▸ {count - 1} ", line) for line in drawn(app))
        assert pane.marked == str(count - 1)


@pytest.mark.parametrize(
    ("width", "there", "not_there"),
    [
        (80, ("util",), ("peak", "°C", " W", "▇")),
        (100, ("util", "peak 72.4", "°C"), ("▇",)),
        (120, ("util", "peak 72.4", "°C", " W", "▇"), ()),
    ],
)
async def test_narrow_terminals_lose_history_then_power_temperature_and_peaks(width, there, not_there):
    app = console(EIGHT)
    async with app.run_test(size=(width, 30)) as pilot:
        await monitor_of(pilot)
        gpus = "\n".join(drawn(app)[2:11])
        assert [word for word in there if word not in gpus] == []
        assert [word for word in not_there if word in gpus] == []


@pytest.mark.parametrize("size", [(1, 1), (10, 4), (20, 3), (40, 10), (60, 16)])
async def test_tiny_terminals_do_no_harm(size):
    app = console(EIGHT, alerts=ALERTS)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, MonitorScreen) and app.screen.look is not None)
        await pilot.resize_terminal(120, 36)
        await until(pilot, lambda: "chat-70b tp0" in text_of(app))


# What is told


async def test_memory_is_split_by_model_and_purpose():
    app = console(EIGHT)
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        rows = {line[3]: line for line in drawn(app)[3:11]}
        assert re.search(r"█+▓+▒+·+ 71\.8 / 79\.3 GiB  peak 72\.4   chat-70b tp0 ", rows["0"])
        assert re.search(r"█+░·+ 13\.2 / 79\.3 GiB  peak 13\.2   code-13b ▸ weights ", rows["4"])
        assert re.search(r"╳+·+ 70\.1 / 79\.3 GiB .* orphan pid 4711 !", rows["5"])
        assert re.search(r"╳+·+ 22\.0 / 79\.3 GiB .* python pid 6001", rows["6"])
        assert "░ split not known" in text_of(app)
        bar = re.search(r"(█+)(▓+)(▒+)(·+)", rows["0"])
        assert len(bar[1]) / len(bar[0]) == pytest.approx(32.9 / 79.3, abs=0.05)
        assert len(bar[2]) / len(bar[0]) == pytest.approx(34.8 / 79.3, abs=0.05)


async def test_what_is_not_known_is_a_question_mark_with_its_reason():
    app = console(hosts.UNKNOWN)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        lost = next(line for line in drawn(app) if line.startswith(" ▸ 0"))
        assert "? a GPU is lost" in lost
        assert "? / ? GiB" in lost
        assert lost.split()[-3:] == ["?", "?", "?"]
        assert not re.search(r"\b0 %|\b0\.0\b", lost)
        assert "a GPU is lost (fallen off the bus)" in drawn(app)[-2]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FactsDialog))
        about = app.screen.query_one("#about", Words).shown.plain
        assert re.search(r"utilization +\?\s+not known: a GPU is lost", about)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        assert "KV ?" in text_of(app)
        assert "? / ?" in text_of(app)
        assert "/proc/meminfo cannot" in text_of(app)


async def test_a_gpu_whose_processes_cannot_be_asked_for_is_nobody_elses():
    app = console(hosts.UNKNOWN)
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        row = next(line for line in drawn(app) if line.startswith("   2"))
        assert "░" in row
        assert "╳" not in row
        assert "? no permission" in row


async def test_slices_have_rows_of_their_own_and_no_utilisation():
    app = console(hosts.MIG)
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        rows = [line for line in drawn(app) if re.match(r" [▸ ]  0\.\d", line)]
        assert [row.split()[0] for row in rows] == ["0.0", "0.1", "0.2"]
        assert all(row.endswith("n/a") for row in rows)
        assert "33.0 / 39.5 GiB" in rows[0]
        assert "code-13b" in rows[0]
        whole = next(line for line in drawn(app) if line.startswith(" ▸ 0"))
        assert "in 3 slices (MIG)" in whole
        assert "n/a" in whole
        assert "0 %" not in whole


async def test_a_process_of_another_namespace_keeps_its_memory_and_is_not_offered_to_be_ended():
    app = console(hosts.OTHER_NAMESPACE)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        assert "pid 31337 not visible" in text_of(app)
        row = next(line for line in drawn(app) if "31337    not visible here" in line)
        assert "49.6" in row
        await focus(pilot, "processes")
        assert screen.marked_entry.pid == 31_337
        assert "end process" not in keys_of(app)
        await pilot.press("k")
        assert app.screen is screen
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FactsDialog))
        assert "it is of another container or namespace" in app.screen.query_one("#about", Words).shown.plain


async def test_without_a_gpu_one_line_says_why_and_what_can_be_done():
    app = console(hosts.NONE)
    async with app.run_test(size=(80, 24)) as pilot:
        await monitor_of(pilot)
        assert "GPUs  none, because no NVIDIA driver library (libnvidia-ml.so.1) on this host" in text_of(app)
        assert "3 loads a tiny broken model or your deployment   2 opens a log file" in text_of(app)


async def test_a_gpu_that_disappears_keeps_a_row_that_says_so():
    fewer = replace(EIGHT, time=NOON + 1, gpus=replace(EIGHT.gpus, gpus=EIGHT.gpus.gpus[:7]))
    back = replace(EIGHT, time=NOON + 2)
    app = console(EIGHT, fewer, back)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        app.interval_seconds = 60.0
        screen.set_look(replace(screen.look, reading=fewer))
        row = next(line for line in drawn(app) if line.startswith("   7"))
        assert "not reported by the driver since" in row
        screen.set_look(replace(screen.look, reading=back))
        assert "not reported by the driver" not in text_of(app)


async def test_the_driver_going_away_is_said_and_comes_back():
    gone = replace(EIGHT, gpus=GpuState(unavailable="the NVIDIA kernel driver is not loaded"))
    app = console(EIGHT)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        app.interval_seconds = 60.0
        screen.set_look(replace(screen.look, reading=gone))
        assert "none, because the NVIDIA kernel driver is not loaded" in text_of(app)
        assert "chat-70b" in text_of(app)
        screen.set_look(replace(screen.look, reading=EIGHT))
        assert "chat-70b tp0" in text_of(app)


async def test_a_peak_between_two_readings_is_kept():
    spike = replace(EIGHT, gpus=replace(EIGHT.gpus, gpus=(hosts.gpu(0, 10.0, peak=77.7),)))
    quiet = replace(EIGHT, time=NOON + 1, gpus=replace(EIGHT.gpus, gpus=(hosts.gpu(0, 10.0),)))
    app = console(spike, quiet)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        screen.set_look(replace(screen.look, reading=quiet))
        assert "10.0 / 79.3 GiB  peak 77.7" in text_of(app)


async def test_text_of_models_and_processes_is_data():
    evil = "[bold]x[/] \x1b[2J\x1b]0;t\x07 [@click=app.quit]y"
    servers = (replace(hosts.CHAT, name=evil, model=evil),)
    processes = (hosts.process(4200, 1, evil, "api_server", server=4200, user=evil),)
    gpus = replace(
        EIGHT.gpus, gpus=(replace(hosts.gpu(0), name=evil, processes=(hosts.GpuProcess(9, evil, known(1)),)),)
    )
    app = console(replace(EIGHT, gpus=gpus, servers=servers, processes=processes, host_name=evil))
    async with app.run_test(size=(200, 50)) as pilot:
        await monitor_of(pilot)
        assert "[bold]x[/]" in text_of(app)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text_of(app))
        await focus(pilot, "models")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FactsDialog))
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text_of(app))


@pytest.mark.parametrize("name", list(hosts.READINGS))
async def test_everything_can_be_drawn_in_ascii(name):
    app = console(hosts.READINGS[name], alerts=ALERTS, glyphs=ASCII)
    async with app.run_test(size=(200, 50)) as pilot:
        await monitor_of(pilot)
        assert [line for line in drawn(app) if not line.isascii()] == []
        if name == "eight":
            assert re.search(r"> 0 +#+=+-+\.+ 71\.8", text_of(app))


async def test_without_colours_the_mark_and_the_kinds_are_seen(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = console(EIGHT, alerts=ALERTS)
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        assert " ▸ 0 " in text_of(app)
        assert "✗ GPU 5" in text_of(app)
        assert "! host" in text_of(app)


# Keys


async def test_space_pauses_the_picture_and_readings_are_kept():
    later = replace(EIGHT, time=NOON + 60, gpus=replace(EIGHT.gpus, gpus=(hosts.gpu(0, 33.3),)))
    app = console(EIGHT)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        app.interval_seconds = 60.0
        await pilot.press("space")
        assert "paused" in drawn(app)[1]
        kept = screen._kept.readings
        screen.set_look(replace(screen.look, reading=later))
        assert screen._kept.readings == kept + 1
        assert "33.3" not in text_of(app)
        await pilot.press("space")
        assert "33.3 / 79.3 GiB" in text_of(app)
        assert "paused" not in drawn(app)[1]


async def test_plus_and_minus_change_the_interval_within_its_bounds():
    app = console(EIGHT)
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        assert "every 1 s" in drawn(app)[1]
        await pilot.press("minus", "minus", "minus")
        assert "every 0.5 s" in drawn(app)[1]
        await pilot.press(*["plus"] * 9)
        assert "every 60 s" in drawn(app)[1]
        assert app.interval_seconds == 60.0


async def test_panes_fold_and_open_by_one_key_each():
    app = console(EIGHT, alerts=ALERTS)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        for key, name in (("g", "gpus"), ("h", "host"), ("m", "models"), ("a", "alerts"), ("p", "processes")):
            await pilot.press(key)
            await until(pilot, lambda name=name: screen.panes[name].region.height == 1)
        folded = text_of(app)
        assert "0: 71.8 / 79.3" in folded
        assert "chat-70b serving   code-13b loading" in folded
        assert "1 error, 1 warning   GPU 5: 70.1 GiB held" in folded
        await pilot.press("p")
        await until(pilot, lambda: screen.panes["processes"].region.height > 5)
        assert screen.marked_pane == "processes"


async def test_what_a_person_opens_has_the_room_on_a_low_terminal():
    app = console(hosts.SIXTEEN, alerts=ALERTS)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await monitor_of(pilot)
        assert not screen.panes["host"].is_open
        await pilot.press("h")
        await until(pilot, lambda: screen.panes["host"].is_open)
        assert screen.marked_pane == "host"
        assert "this container" in text_of(app)


async def test_tab_goes_through_the_open_panes():
    app = console(EIGHT, alerts=ALERTS)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        seen = []
        for _ in range(5):
            seen.append(screen.marked_pane)
            await pilot.press("tab")
        assert seen == ["gpus", "host", "models", "alerts", "processes"]
        await pilot.press("m")
        await until(pilot, lambda: not screen.panes["models"].is_open)
        for _ in range(5):
            assert screen.marked_pane != "models"
            await pilot.press("tab")


async def test_processes_are_a_tree_or_sorted_or_turned_round():
    app = console(EIGHT)
    async with app.run_test(size=(200, 50)) as pilot:
        screen = await monitor_of(pilot)
        pane = screen.panes["processes"]
        assert re.search(
            r"4200 +vllm serve.*\n.*4201 +  VLLM::EngineCore.*\n.*4202 +    VLLM::Worker_TP0", text_of(app)
        )
        await pilot.press("s")
        assert "by GPU memory" in text_of(app)
        assert pane.content.keys[:5] == ("4202", "4203", "4204", "4205", "4711")
        await pilot.press("s")
        assert pane.content.keys[0] == "5101"
        await pilot.press("s")
        assert pane.content.keys[0] == "4201"
        await pilot.press("S")
        assert "by CPU, reversed" in text_of(app)
        assert pane.content.keys[-1] == "4201"


async def test_filter_shows_only_what_has_all_words_and_esc_ends_it():
    app = console(EIGHT)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        for key in ("f", "slash"):
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, AskText))
            app.screen.query_one(Input).value = "CHAT tp2"
            await pilot.press("enter")
            await until(pilot, lambda: app.screen is screen)
            await until(pilot, lambda: screen.panes["processes"].content.keys == ("4204",))
            assert "1 with 'CHAT tp2'" in text_of(app)
            await pilot.press("escape")
            assert len(screen.panes["processes"].content.keys) == 10


async def test_enter_shows_all_facts_with_their_sources():
    app = console(EIGHT)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        await focus(pilot, "models")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FactsDialog))
        about = app.screen.query_one("#about", Words).shown.plain
        assert re.search(r"stage +serving +measured: engine\.log:412", about)
        assert re.search(r"weights +32\.9 GiB +parsed: engine\.log:57", about)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await focus(pilot, "processes")
        await pilot.press("end", "enter")
        await until(pilot, lambda: isinstance(app.screen, FactsDialog))
        about = app.screen.query_one("#about", Words).shown.plain
        assert re.search(r"GPU 6: held +21\.4 GiB", about)
        await pilot.press("q")
        await until(pilot, lambda: app.screen is screen)


async def test_an_alert_says_what_to_do():
    app = console(EIGHT, alerts=ALERTS)
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        await focus(pilot, "alerts")
        assert "enter what to do" in keys_of(app)
        assert "End pid 4711 if nobody needs it" in text_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FactsDialog))
        await until(pilot, lambda: "Another process holds the GPU's memory" in text_of(app))
        assert "k end the process" in text_of(app)
        assert "wizard" not in text_of(app), "it would know nothing of this"


def test_what_an_alert_proposes_is_said_in_words_and_with_what_is_known():
    library = load_library()
    for one in library:
        shown = draw_alert(ALERTS[0], one, 100, {}).plain
        assert not re.search(r"\{[a-z_.|]+\}", shown), shown
        assert "host.process = " not in shown
    orphan = replace(ALERTS[0], playbook="orphan-engine-holds-gpu")
    shown = draw_alert(orphan, find(library, "orphan-engine-holds-gpu"), 100, facts_of(orphan, EIGHT)).plain
    assert "kill 4711;" in shown
    assert "the gpu-memory-utilization that fits" in " ".join(shown.split())


async def test_tabs_go_to_screens_that_are_there_and_back(tmp_path):
    log = tmp_path / "vllm.log"
    log.write_text("INFO 11-29 17:38:40 [api_utils.py:286] hello\n")
    app = console(EIGHT)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        assert drawn(app)[1].startswith(" 1 Monitor   2 Logs   3 Wizard ")
        await pilot.press("3")
        await until(pilot, lambda: isinstance(app.screen, StartScreen) and "3 Wizard" in text_of(app))
        await pilot.press("1")
        await until(pilot, lambda: app.screen is screen)
        await pilot.click("#tabs", offset=(25, 0))
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("2")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        app.screen.query_one(Input).value = str(tmp_path / "absent.log")
        await pilot.press("enter")
        assert "There is no file" in text_of(app)
        app.screen.query_one(Input).value = str(log)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen) and "hello" in text_of(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)


async def test_d_opens_the_log_of_the_marked_model(tmp_path):
    log = tmp_path / "engine.log"
    log.write_text("INFO 11-29 17:38:40 [api_utils.py:286] hello\n")
    servers = (replace(hosts.CHAT, log=str(log)), hosts.CODE)
    app = console(replace(EIGHT, servers=servers))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        await focus(pilot, "models")
        assert "d log" in keys_of(app)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("down")
        assert "d log" not in keys_of(app)
        log.unlink()
        await pilot.press("up", "d")
        await until(pilot, lambda: "engine.log" in drawn(app)[-1])
        assert app.screen is screen


async def test_a_diagnosis_from_the_monitor_knows_the_launch_and_the_host(tmp_path):
    log = tmp_path / "engine.log"
    log.write_text(v1("0.13.0", LOADING, failed("AssertionError: 14336 is not divisible by 3", "utils.py:divide")))
    argv = ("python3", "vllm", "serve", "acme/m-7b", "--tensor-parallel-size", "3", "--api-key", "***")
    server = replace(
        hosts.CODE, log=str(log), argv=argv, state="failed", stage_detail="AssertionError: 14336", gpus=(6,)
    )
    evidence = evidence_of(server, replace(EIGHT, servers=(server,)))
    assert evidence.launch.arg("tensor-parallel-size") == 3
    facts = evidence.facts(evidence.launch, "0.13.0")
    assert facts["gpu.name"].origin.endswith("GPU 6")
    assert launch_of(replace(server, argv=())) is None
    alert = Alert("error", "code-13b: failed", "code-13b", None, server.pid, "Press d.")
    app = console(replace(EIGHT, servers=(server,)), alerts=(alert,))
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        await focus(pilot, "alerts")
        assert "d log" in keys_of(app)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, LogViewerScreen) and "14336" in text_of(app))
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DiagnosisScreen))
        await until(pilot, lambda: "heads-not-divisible-by-tp" in text_of(app))
        words = app.screen.query_one(StepPane).body.plain
        assert "the launch is not known" not in words
        assert "no state of the host was given" not in words


async def test_help_and_copy_and_bare(tmp_path):
    app = console(EIGHT, exports=tmp_path)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen) and "On the monitor" in text_of(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("y")
        await until(pilot, lambda: list(tmp_path.glob("copy*.txt")))
        copied = (tmp_path / "copy.txt").read_text()
        assert "chat-70b tp3" in copied
        assert "python train.py" in copied
        await pilot.press("e")
        await until(pilot, lambda: list(tmp_path.glob("export*.txt")))
        await pilot.press("b")
        await until(pilot, lambda: drawn(app)[0].startswith(" GPU memory"))
        assert screen.paused
        await pilot.press("escape")
        await until(pilot, lambda: drawn(app)[1].startswith(" 1 Monitor"))
        assert not screen.paused


# Mouse


async def test_a_click_marks_a_row_two_open_it_and_the_wheel_scrolls():
    app = console(hosts.SIXTEEN)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await monitor_of(pilot)
        pane = screen.panes["gpus"]
        await pilot.click("#gpus", offset=(10, 3))
        assert pane.marked == "2"
        rows = len(pane.content.rows)
        assert pane.page_rows < rows
        pane._scroll(3)
        await until(pilot, lambda: f"4–{pane.page_rows + 3} of {rows}" in text_of(app))
        await pilot.click("#gpus", offset=(10, 1), times=2)
        await until(pilot, lambda: isinstance(app.screen, FactsDialog))
        assert "GPU 3" in text_of(app)


async def test_a_click_on_a_folded_pane_opens_it():
    app = console(hosts.SIXTEEN, alerts=ALERTS)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await monitor_of(pilot)
        await pilot.click("#host", offset=(5, 0))
        await until(pilot, lambda: screen.panes["host"].is_open)


# Readings


async def test_the_mark_stays_on_its_row_when_others_go():
    app = console(EIGHT)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        app.interval_seconds = 60.0
        pane = await focus(pilot, "processes")
        pane.mark("4204")
        fewer = replace(EIGHT, processes=tuple(one for one in EIGHT.processes if one.pid not in (4200, 4202)))
        screen.set_look(replace(screen.look, reading=fewer))
        assert pane.marked == "4204"
        few = replace(EIGHT, processes=EIGHT.processes[:2], gpus=replace(EIGHT.gpus, gpus=(hosts.gpu(0),)))
        screen.set_look(replace(screen.look, reading=few))
        assert pane.marked == "4201"


async def test_a_look_that_hangs_holds_up_no_key_and_is_said():
    may_go_on, now = threading.Event(), [NOON]

    class Hangs(FakeWatch):
        def read(self):
            if self.reads:
                may_go_on.wait(60)
            return super().read()

    watch = Hangs([EIGHT])
    world = replace(backend(), watch=lambda: watch, clock=lambda: now[0])
    app = ConsoleApp(world)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        now[0] = NOON + 95
        await until(pilot, lambda: "no reading for 1m35s" in drawn(app)[1])
        await pilot.press("g")
        await until(pilot, lambda: not screen.panes["gpus"].is_open)
        may_go_on.set()
        await until(pilot, lambda: watch.reads > 1)
    assert app.return_code is not None or not app.is_running


async def test_what_stays_the_same_is_not_drawn_again(monkeypatch):
    app = console(EIGHT)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        app.interval_seconds = 60.0
        refreshed = []
        for name, pane in screen.panes.items():
            monkeypatch.setattr(pane, "refresh", lambda *regions, name=name, **_: refreshed.append((name, regions)))
        one = replace(EIGHT.gpus.gpus[7], temperature_celsius=known(35))
        warmer = replace(EIGHT, gpus=replace(EIGHT.gpus, gpus=(*EIGHT.gpus.gpus[:7], one)))
        screen._kept.add = lambda _reading: None
        screen.set_look(replace(screen.look, reading=EIGHT))
        assert refreshed == []
        screen.set_look(replace(screen.look, reading=warmer))
        assert [name for name, _ in refreshed] == ["gpus"]
        assert all(region.width < 20 for _, regions in refreshed for region in regions)


async def test_samples_are_taken_between_readings_and_the_watch_is_closed():
    app = console(EIGHT)
    async with app.run_test(size=(80, 24)) as pilot:
        await monitor_of(pilot)
        app.interval_seconds = 0.5
        await until(pilot, lambda: app.watch.reads >= 4)
        assert app.watch.samples >= app.watch.reads
    await_closed = threading.Event()
    for _ in range(600):
        if app.watch.is_closed:
            break
        await_closed.wait(0.05)
    assert app.watch.is_closed


async def test_a_bug_in_watching_ends_the_console_and_is_kept():
    class Broken(FakeWatch):
        def read(self):
            raise RuntimeError("a bug")

    app = ConsoleApp(replace(backend(), watch=lambda: Broken([EIGHT])))
    with pytest.raises(RuntimeError, match="a bug"):
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.bug is not None, seconds=10)
    assert isinstance(app.bug, RuntimeError)


async def test_unknown_shared_by_two_values_is_told_once():
    why = Unknown("no permission to ask the NVIDIA driver")
    gpu = replace(hosts.gpu(0), power_watts=why, temperature_celsius=why)
    app = console(replace(EIGHT, gpus=replace(EIGHT.gpus, gpus=(gpu,))))
    async with app.run_test(size=(200, 50)) as pilot:
        await monitor_of(pilot)
        assert "GPU 0: power, temperature not known: no permission to ask the NVIDIA driver" in drawn(app)[-2]
