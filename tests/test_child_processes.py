"""Processes as /proc shows them, which of them are a load's, and what a sweep must never touch."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from multiprocessing import resource_tracker, shared_memory
from typing import TYPE_CHECKING

import pytest

from engine_probe.child import process_tree, sweep
from engine_probe.child.listeners import may_listen
from engine_probe.child.members import Members, how_it_ended
from engine_probe.child.process_tree import Process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(30)
NOBODY = 2**22 + 1
"""Linux gives no larger pid than 2**22: no process of this host has these."""
ROOT, CHILD, GRANDCHILD = NOBODY + 1, NOBODY + 2, NOBODY + 3


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, which says when it runs."""
    code = "import time; print(flush=True); time.sleep(3600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def a_process(pid: int, ppid: int = 1, session: int = 1, state: str = "S", ticks: int = 100) -> Process:
    return Process(pid, ppid, session, state, ticks, None)


def table(*processes: Process) -> dict[int, Process]:
    return {process.pid: process for process in processes}


def begun() -> Members:
    """A load whose root lives."""
    members = Members(pipe_inode=0, mark="X=1")
    members.begin(ROOT)
    members.start_ticks[ROOT] = a_process(ROOT).start_ticks
    return members


def test_this_process_is_read_as_the_system_knows_it() -> None:
    me = process_tree.read_one(os.getpid())
    assert me is not None
    assert (me.ppid, me.session, me.is_living, me.exit_status) == (os.getppid(), os.getsid(0), True, None)
    assert process_tree.read_all()[os.getpid()].start_ticks == me.start_ticks
    assert (process_tree.rss_bytes(os.getpid()) or 0) > 1_000_000
    assert (process_tree.read_bytes(os.getpid()) or 0) > 0
    total, available = process_tree.memory_info()
    assert total is not None
    assert available is not None
    assert total > available > 0


def test_a_name_with_brackets_and_blanks_does_not_shift_the_fields() -> None:
    rest = "S 7 8 9 0 -1 " + " ".join(["0"] * 13) + " 4242 " + " ".join(["0"] * 30)
    assert process_tree.parse_stat(5, f"5 (a ) S (b) 1) {rest}") == Process(5, 7, 9, "S", 4242, None)


def test_a_zombie_still_has_its_status() -> None:
    fields = ["Z", "7", "8", "9", *["0"] * 15, "4242", *["0"] * 29, "9"]
    process = process_tree.parse_stat(5, f"5 (x) {' '.join(fields)}")
    assert process is not None
    assert (process.is_living, how_it_ended(process.exit_status)) == (False, (None, "SIGKILL"))


@pytest.mark.parametrize("text", ["", "5 (x", "5 (x) S 1"])
def test_what_is_no_stat_is_nothing(text: str) -> None:
    assert process_tree.parse_stat(5, text) is None


def test_a_pid_that_is_not_there_gives_nothing() -> None:
    assert process_tree.read_one(NOBODY) is None
    assert process_tree.rss_bytes(NOBODY) is None
    assert process_tree.read_bytes(NOBODY) is None
    assert process_tree.title(NOBODY) == "?"
    assert process_tree.shm_paths(NOBODY) == set()
    assert not process_tree.catches(NOBODY, signal.SIGTERM)


def test_a_renamed_process_is_found_by_mark_and_output(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    odd = tmp_path / "a ) (b"
    odd.symlink_to(sys.executable)
    env = {**os.environ, "ODD_MARK": "1"}
    code = "import time; print(flush=True); time.sleep(3600)"
    with subprocess.Popen([str(odd), "-c", code], stdout=writer, env=env) as process:
        os.read(reader, 1)
        found = process_tree.read_one(process.pid)
        assert found is not None
        assert found.ppid == os.getpid()
        assert process_tree.is_marked(process.pid, "ODD_MARK=1")
        assert process.pid in process_tree.marked("ODD_MARK=1")
        assert process_tree.prints_into(process.pid, os.fstat(reader).st_ino)
        assert not process_tree.prints_into(os.getpid(), os.fstat(reader).st_ino)
        process.kill()
    os.close(reader)
    os.close(writer)


def test_caught_signals_are_those_with_a_handler(sleeper: subprocess.Popen[bytes]) -> None:
    assert process_tree.catches(sleeper.pid, signal.SIGINT)  # Python's KeyboardInterrupt
    assert not process_tree.catches(sleeper.pid, signal.SIGRTMIN + 7)


def test_descendants_follow_parents_only() -> None:
    processes = table(a_process(10), a_process(11, ppid=10), a_process(12, ppid=11), a_process(13, ppid=1))
    assert process_tree.descendants(processes, {10}) == {10, 11, 12}
    assert process_tree.descendants(processes, {99}) == set()


def test_members_are_found_by_session_when_their_parents_have_died() -> None:
    members = begun()
    root, child = a_process(ROOT, session=ROOT), a_process(CHILD, ppid=ROOT, session=ROOT)
    assert members.update(table(root, child)) == {ROOT, CHILD}
    orphan, grandchild = a_process(CHILD, session=ROOT), a_process(GRANDCHILD, ppid=CHILD, session=GRANDCHILD)
    assert members.update(table(orphan, grandchild)) == {CHILD, GRANDCHILD}
    assert members.update(table(grandchild._replace(ppid=1))) == {GRANDCHILD}


def test_a_reused_pid_is_no_member_and_neither_is_its_session() -> None:
    members = begun()
    ours = table(a_process(ROOT, session=ROOT), a_process(CHILD, ppid=ROOT, session=ROOT))
    assert members.update(ours) == {ROOT, CHILD}
    assert members.update({pid: process._replace(start_ticks=999) for pid, process in ours.items()}) == set()


def test_an_orphan_of_the_keeper_is_ours_by_mark_or_not_at_all(sleeper: subprocess.Popen[bytes]) -> None:
    processes = process_tree.read_all()
    assert Members(pipe_inode=0, mark="NOBODY=1").update(processes) == set()
    assert sleeper.stdout is not None
    ours = Members(pipe_inode=os.fstat(sleeper.stdout.fileno()).st_ino, mark="NOBODY=1")
    assert ours.update(processes) == {sleeper.pid}


def test_a_zombie_member_is_remembered_with_its_code() -> None:
    members = Members(pipe_inode=0, mark="X=1")
    members.begin(ROOT)
    members.update(table(Process(CHILD, 1, ROOT, "Z", 5, 256 * 3)))
    assert members.ended_processes() == [{"pid": CHILD, "name": "?", "exit_code": 3, "signal": None}]


def test_an_exit_is_taken_only_from_members() -> None:
    members = Members(pipe_inode=0, mark="X=1")
    members.begin(ROOT)
    assert members.on_exit(ROOT, signal.SIGSEGV)
    assert not members.on_exit(CHILD, 0)
    assert members.root_ending() == (None, "SIGSEGV")


@pytest.mark.parametrize(
    ("status", "ending"), [(None, (None, None)), (0, (0, None)), (512, (2, None)), (9, (None, "SIGKILL"))]
)
def test_a_wait_status_is_a_code_or_a_signal(status: int | None, ending: tuple[int | None, str | None]) -> None:
    assert how_it_ended(status) == ending


def test_a_sweep_kills_what_is_named_and_says_so(sleeper: subprocess.Popen[bytes]) -> None:
    swept = sweep.sweep(lambda _: {sleeper.pid}, collect_exits=sleeper.poll)
    assert swept.killed == {sleeper.pid}
    assert swept.left_behind == set()
    assert sleeper.wait() == -signal.SIGKILL


def test_a_sweep_leaves_the_exits_of_others_to_who_collects_them(sleeper: subprocess.Popen[bytes]) -> None:
    other = os.posix_spawn(sys.executable, [sys.executable, "-c", "raise SystemExit(3)"], os.environ)
    os.waitid(os.P_PID, other, os.WEXITED | os.WNOWAIT)
    sweep.sweep(lambda _: {sleeper.pid}, collect_exits=sleeper.poll)
    assert os.waitpid(other, 0) == (other, 3 << 8)


def test_a_sweep_ends_a_suspended_process(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    assert sweep.sweep(lambda _: {sleeper.pid}, collect_exits=sleeper.poll).killed == {sleeper.pid}


def test_a_sweep_never_signals_init_itself_its_parent_groups_or_the_spared(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, number: int) -> None:
        raise AssertionError(f"signal {number} to {pid}")

    everyone = {0, 1, -1, os.getpid(), os.getppid(), sleeper.pid}
    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", refuse)
        assert sweep.sweep(lambda _: everyone, spared=[sleeper.pid]).killed == set()


def test_a_sweep_never_signals_a_pid_that_was_reused(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the choice and the signal the pid has gone to another process, which started later."""
    real, asked = process_tree.read_all, []

    def older() -> dict[int, Process]:
        asked.append(1)
        processes = real()
        if len(asked) <= 2:
            processes[sleeper.pid] = processes[sleeper.pid]._replace(start_ticks=1)
        return processes

    monkeypatch.setattr(process_tree, "read_all", older)
    sweep.sweep(lambda processes: {sleeper.pid} if processes[sleeper.pid].start_ticks == 1 else set())
    assert sleeper.poll() is None


def test_only_the_process_that_holds_the_socket_listens() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert may_listen([os.getpid()], port)
        assert not may_listen([os.getppid()], port)
    assert may_listen([os.getppid()], port), "nobody is seen there: unknown"


def test_a_sweep_removes_no_shared_memory_that_others_made_or_still_map() -> None:
    """And says which of it is mapped."""
    before, mapped, left = (shared_memory.SharedMemory(create=True, size=64) for _ in range(3))
    paths = [f"/dev/shm/{one.name}" for one in (before, mapped, left)]
    code = (
        "import mmap, sys; file = open(sys.argv[1], 'r+b'); held = mmap.mmap(file.fileno(), 0)\n"
        "print(flush=True); input()"
    )
    argv = [sys.executable, "-c", code, paths[1]]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as outsider:
        try:
            assert outsider.stdout is not None
            outsider.stdout.readline()
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(process_tree, "descendants", lambda *_: {os.getpid()})
                swept = sweep.sweep(lambda _: set(), paths, shm_of_others=paths[:1])
        finally:
            outsider.kill()
    assert (swept.removed_shm, swept.left_behind) == ({paths[2]}, {f"{paths[1]} (pid {outsider.pid} maps it)"})
    for one in (before, mapped):
        one.close()
        one.unlink()
    left.close()
    resource_tracker.unregister(f"/{left.name}", "shared_memory")


def test_a_sweep_lets_a_resource_tracker_end_by_itself() -> None:
    """Killed, it would leave what it alone knows of."""
    code = (
        "import time; from multiprocessing import shared_memory\n"
        "one = shared_memory.SharedMemory(create=True, size=64); one.close(); print(one.name, flush=True)\n"
        "time.sleep(3600)"
    )
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as maker:
        assert maker.stdout is not None
        path = f"/dev/shm/{maker.stdout.readline().decode().strip()}"
        swept = sweep.sweep(
            lambda all_: {pid for pid, one in all_.items() if one.session == maker.pid}, collect_exits=maker.poll
        )
    assert (swept.killed, swept.left_behind) == ({maker.pid}, set())
    assert path not in process_tree.shm_listed()
