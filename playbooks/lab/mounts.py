"""Whether a load can be given a disk of its own here."""

from __future__ import annotations

import subprocess
import sys
import tempfile

_CODE = """
import sys
from engine_probe.child import conditions
conditions.apply({"tmpfs": [[sys.argv[1], 4096, False]]})
"""


def why_no_mounts() -> str | None:
    """Tried in a process of its own, which takes its mount with it; None: they can be had."""
    with tempfile.TemporaryDirectory(prefix="vllm-console-lab-") as folder:
        tried = subprocess.run(
            [sys.executable, "-c", _CODE, folder], capture_output=True, text=True, timeout=60, check=False
        )
    if tried.returncode == 0:
        return None
    said = tried.stderr.strip().splitlines()[-1:] or [f"exit code {tried.returncode}"]
    return f"no load can be given a disk of its own here: {said[0]}"
