"""Where a hung process stands: Python stacks by faulthandler, else what /proc says."""

import os
import time

from engine_probe.child import log_tap, process_tree


def collect(private_dir, pids, titles, wait_s=2.0):
    """[{pid, name, stack, unavailable}] for each pid, at most `wait_s` for all."""
    waiting = {}
    for pid in pids:
        path = os.path.join(private_dir, "stacks-%d" % pid)
        # Without the file nobody has a handler there, and the signal would end the process.
        if os.path.exists(path):
            waiting[pid] = (path, os.path.getsize(path))
            try:
                os.kill(pid, log_tap.STACKS_SIGNAL)
            except OSError:
                waiting.pop(pid)
    deadline = time.monotonic() + wait_s
    written = {}
    while waiting and time.monotonic() < deadline:
        for pid, (path, before) in list(waiting.items()):
            size = os.path.getsize(path)
            if size > before and written.get(pid) == size:
                waiting.pop(pid)
            written[pid] = size
        time.sleep(0.05)
    return [_row(private_dir, pid, titles.get(pid, "?"), pid in waiting or pid not in written) for pid in pids]


def _row(private_dir, pid, name, silent):
    if silent:
        process = process_tree.read_one(pid)
        state = process.state if process else "gone"
        return {"pid": pid, "name": name, "stack": [], "unavailable": "did not answer (state %s)" % state}
    with open(os.path.join(private_dir, "stacks-%d" % pid), errors="replace") as file:
        return {"pid": pid, "name": name, "stack": file.read()[-20000:].splitlines(), "unavailable": None}
