"""Whose a case is: a process that runs, not one of the same number, and not one that has ended and was not reaped."""

from __future__ import annotations

import subprocess
import sys

import psutil

from playbooks.owning import is_alive, this_process


def test_this_process_is_alive_and_one_that_began_at_another_time_is_not() -> None:
    me = this_process()
    assert is_alive(me)
    assert not is_alive({**me, "since": me["since"] - 60.0})
    assert not is_alive({"pid": "x"})


def test_what_has_ended_and_was_not_reaped_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    owner = {"pid": child.pid, "since": psutil.Process(child.pid).create_time()}
    assert is_alive(owner)
    child.kill()
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        pass
    assert not is_alive(owner)
    child.wait()
