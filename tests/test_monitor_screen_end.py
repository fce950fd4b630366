"""Ending a process from the monitor, on real children: asked, TERM first, KILL after that, never another process."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from playbooks.alerts import find_alerts
from tests import monitor_samples as hosts
from tests.monitor_samples import ALERTS, EIGHT, known
from tests.test_monitor_screen import console, drawn, focus, monitor_of, text_of
from tests.test_tui_console import keys_of
from tests.tui_samples import until
from tui import ending
from tui.ending import CannotEndError, Target, is_there, send, start_ticks, target_of
from tui.ending_tree import choose, tree_of
from tui.screens import monitor_end
from tui.screens.dialogs import Confirm

STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
WILLING = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def child():
    """Starts a Python that sleeps; whatever is left of it at the end is killed."""
    started = []

    def start(code=WILLING):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"up\n"
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def reading_with(process, **changes):
    """A host on which that process is an engine's."""
    about = hosts.process(
        process.pid, os.getpid(), "VLLM::EngineCore", "engine_core", gpus=((5, known(70.1)),), server=process.pid,
        user=getpass.getuser(), started=psutil.Process(process.pid).create_time(),
    )  # fmt: skip
    server = replace(hosts.ORPHAN, pid=process.pid, pids=(process.pid,))
    gpus = replace(EIGHT.gpus, gpus=(hosts.gpu(5, 70.1),))
    return replace(EIGHT, gpus=gpus, servers=(server,), processes=(replace(about, **changes),))


async def asked(pilot, question):
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, Confirm) and question in text_of(app))


async def test_what_it_is_is_shown_before_it_is_ended_by_term(child):
    process = child()
    app = console(reading_with(process))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        await focus(pilot, "processes")
        assert "k end process" in keys_of(app)
        await pilot.press("k")
        await asked(pilot, "End this process?")
        for words in ("VLLM::EngineCore", "orphan", "GPU 5: 70.1 GiB", getpass.getuser(), str(process.pid), "for "):
            assert words in text_of(app)
        assert process.poll() is None
        await pilot.press("enter")
        await until(pilot, lambda: process.poll() is not None)
        assert process.returncode == -signal.SIGTERM
        await until(pilot, lambda: f"pid {process.pid} has ended" in drawn(app)[-1])
        assert app.screen is screen


async def test_no_ends_nothing(child):
    process = child()
    app = console(reading_with(process))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        await focus(pilot, "models")
        await pilot.press("k")
        await asked(pilot, "End this process?")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        assert process.poll() is None


async def test_kill_is_offered_only_after_term_did_not_help(child, monkeypatch):
    monkeypatch.setattr(monitor_end, "GRACE_SECONDS", 0.3)
    process = child(STUBBORN)
    app = console(reading_with(process))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        await focus(pilot, "processes")
        await pilot.press("k")
        await asked(pilot, "End this process?")
        await pilot.press("enter")
        await asked(pilot, "is still there")
        assert process.poll() is None
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen)
        assert process.poll() is None
        await pilot.press("k")
        await asked(pilot, "End this process?")
        await pilot.press("enter")
        await asked(pilot, "is still there")
        await pilot.press("y")
        await until(pilot, lambda: process.poll() is not None)
        assert process.returncode == -signal.SIGKILL


PARENT = """
import subprocess, sys, time
children = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for code in sys.argv[1:]]
assert all(child.stdout.readline() == b"up\\n" for child in children)
print("up " + " ".join(str(child.pid) for child in children), flush=True)
time.sleep(600)
"""


@pytest.fixture
def family():
    """A parent that dies of TERM without a word to its children."""
    started = []

    def start(*codes):
        parent = subprocess.Popen([sys.executable, "-c", PARENT, *codes], stdout=subprocess.PIPE)
        pids = [int(word) for word in parent.stdout.readline().split()[1:]]
        started.extend(psutil.Process(pid) for pid in (parent.pid, *pids))
        return parent, started[-len(pids) :]

    yield start
    for one in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def reading_with_children(parent, children):
    """An orphan whose workers hold the memory."""
    base = reading_with(parent, gpu_gib=())
    workers = tuple(
        hosts.process(
            one.pid, parent.pid, f"VLLM::Worker_TP{rank}", gpus=((rank, known(30.5)),), server=parent.pid, rank=rank,
            user=getpass.getuser(), started=one.create_time(),
        )
        for rank, one in enumerate(children)
    )  # fmt: skip
    pids = (parent.pid, *(one.pid for one in children))
    server = replace(base.servers[0], pids=pids, gpus=(0, 1), memory=())
    return replace(base, servers=(server,), processes=(*base.processes, *workers))


def ends(one):
    return not one.is_running() or one.status() == psutil.STATUS_ZOMBIE


async def test_an_orphan_is_ended_with_its_workers(family):
    parent, children = family(WILLING, WILLING)
    reading = reading_with_children(parent, children)
    alert = find_alerts(reading)[0]
    for pid in (parent.pid, *(one.pid for one in children)):
        assert str(pid) in alert.text
        assert str(pid) in alert.what_to_do
    app = console(reading)
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        await focus(pilot, "models")
        await pilot.press("k")
        await asked(pilot, "End these 3 processes?")
        for words in ("together 61.0 GiB", *(str(one.pid) for one in children), "VLLM::Worker_TP1"):
            assert words in text_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: parent.poll() is not None and all(map(ends, children)))
        await until(pilot, lambda: "have ended" in drawn(app)[-1])


async def test_a_worker_that_stays_is_what_kill_is_asked_for(family, monkeypatch):
    monkeypatch.setattr(monitor_end, "GRACE_SECONDS", 0.3)
    parent, children = family(WILLING, STUBBORN)
    app = console(reading_with_children(parent, children))
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        await focus(pilot, "models")
        await pilot.press("k")
        await asked(pilot, "End these 3 processes?")
        await pilot.press("enter")
        await asked(pilot, f"pid {children[1].pid} is still there")
        assert not ends(children[1])
        await pilot.press("y")
        await until(pilot, lambda: ends(children[1]))
        await until(pilot, lambda: "have ended" in drawn(app)[-1])


def test_of_a_tree_what_is_not_ones_own_stays(family):
    parent, children = family(WILLING, WILLING)
    reading = reading_with_children(parent, children)
    other = replace(reading.processes[-1], is_mine=False, user="bob")
    chosen = choose(reading.processes[0], replace(reading, processes=(*reading.processes[:-1], other)))
    assert [one.pid for one in chosen.targets] == [children[0].pid, parent.pid]
    assert [one.pid for one, _ in chosen.stays] == [children[1].pid]


def test_a_tree_that_bites_its_tail_ends(family):
    parent, children = family(WILLING)
    reading = reading_with_children(parent, children)
    first = replace(reading.processes[0], ppid=children[0].pid)
    found = tree_of(first, replace(reading, processes=(first, reading.processes[1])))
    assert {one.pid for one in found} == {parent.pid, children[0].pid}


async def test_a_process_that_is_another_one_by_now_is_not_asked_about(child):
    process = child()
    earlier = psutil.Process(process.pid).create_time() - 3600
    app = console(reading_with(process, started=earlier))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        await focus(pilot, "processes")
        await pilot.press("k")
        await until(pilot, lambda: "is another process by now; nothing was ended" in drawn(app)[-1])
        assert app.screen is screen
        assert process.poll() is None


async def test_one_that_becomes_another_while_it_is_asked_about_is_spared(child, monkeypatch):
    process = child()
    app = console(reading_with(process))
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        await focus(pilot, "processes")
        await pilot.press("k")
        await asked(pilot, "End this process?")
        monkeypatch.setattr(ending, "start_ticks", lambda _pid: 1)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen)
        await until(pilot, lambda: "is another process by now; nothing was ended" in drawn(app)[-1])
        assert process.poll() is None


async def test_one_that_ends_while_it_is_asked_about_is_said_to_have_ended(child):
    process = child()
    app = console(reading_with(process))
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        await focus(pilot, "processes")
        await pilot.press("k")
        await asked(pilot, "End this process?")
        process.kill()
        process.wait()
        await pilot.press("enter")
        await until(pilot, lambda: "has ended by itself" in drawn(app)[-1])


async def test_somebody_elses_process_is_not_offered():
    app = console(EIGHT)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await monitor_of(pilot)
        pane = await focus(pilot, "processes")
        pane.mark("5101")
        await pilot.pause()
        assert "end process" not in keys_of(app)
        await pilot.press("k")
        await until(pilot, lambda: "pid 5101 belongs to bob" in drawn(app)[-1])
        assert app.screen is screen


async def test_k_where_nothing_can_be_ended_says_why():
    app = console(hosts.OTHER_NAMESPACE, alerts=(replace(ALERTS[0], pid=None),))
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        for pane, words in (
            ("gpus", "this is no process"), ("alerts", "this alert is about no process"),
            ("processes", "pid 31337 is not visible here"),
        ):  # fmt: skip
            await focus(pilot, pane)
            await pilot.press("k")
            await until(pilot, lambda words=words: words in drawn(app)[-1])


# What sends the signal


def test_a_target_is_a_process_for_good(child):
    process = child()
    about = reading_with(process).processes[0]
    target = target_of(about)
    assert target == Target(process.pid, start_ticks(process.pid))
    assert is_there(target)
    with pytest.raises(CannotEndError, match="another process by now"):
        send(Target(process.pid, target.start_ticks + 1), "KILL")
    assert process.poll() is None
    send(target, "KILL")
    assert process.wait() == -signal.SIGKILL
    assert not is_there(target)
    with pytest.raises(CannotEndError, match="ended by itself"):
        send(target, "KILL")


def test_one_that_has_ended_but_was_not_waited_for_is_gone(child):
    process = child()
    target = target_of(reading_with(process).processes[0])
    os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while is_there(target):
        assert time.monotonic() < deadline
    assert process.returncode is None


def test_without_pidfds_it_is_checked_all_the_same(child, monkeypatch):
    def no_pidfd(_pid):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", no_pidfd)
    process = child()
    target = target_of(reading_with(process).processes[0])
    with pytest.raises(CannotEndError, match="another process by now"):
        send(replace(target, start_ticks=1), "TERM")
    assert process.poll() is None
    send(target, "TERM")
    assert process.wait() == -signal.SIGTERM


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"is_mine": False, "user": "bob"}, "belongs to bob"), ({"started": None}, "is not known")],
)
def test_what_is_not_ones_own_or_not_known_is_no_target(child, changes, why):
    with pytest.raises(CannotEndError, match=why):
        target_of(reading_with(child(), **changes).processes[0])
