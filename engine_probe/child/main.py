"""Where the zip starts: the keeper, or with `--warm` the process that it forks loads from."""

from __future__ import annotations

import json
import os
import pkgutil
import shutil
import sys


def main() -> None:
    if sys.argv[1] == "--warm":
        from engine_probe.child import warm

        warm.main(int(sys.argv[2]), json.loads(sys.argv[3]))
        return
    from engine_probe.child import keeper, log_tap

    private_dir = sys.argv[1]
    try:
        source = pkgutil.get_data("engine_probe.child", "log_tap.py") or b""
        with open(os.path.join(private_dir, f"{log_tap.MODULE_NAME}.py"), "wb") as file:
            file.write(source)
        keeper.Keeper(private_dir).run()
    finally:
        shutil.rmtree(private_dir, ignore_errors=True)
