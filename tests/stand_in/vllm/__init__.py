"""What the warm process imports in place of vLLM.

STAND_IN_IMPORT: `wait` never ends, `fail` raises. STAND_IN_TITLE: overwrite the environment's memory, as
setproctitle does to have room for a title.
"""

import ctypes
import os
import threading
from pathlib import Path

__version__ = "0.0.stand-in"

if os.environ.get("STAND_IN_IMPORT") == "wait":
    threading.Event().wait()
if os.environ.get("STAND_IN_IMPORT") == "fail":
    raise ImportError("libcudart.so.99: no such file")
if os.environ.get("STAND_IN_TITLE"):
    # proc(5): env_start and env_end are fields 50 and 51, the third is the first after the name.
    _start, _end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
    ctypes.memset(_start, 0, _end - _start)
