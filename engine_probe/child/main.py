"""Where the zip starts: the keeper, or with `--warm` the process that it forks loads from."""

import json
import os
import shutil
import sys


def main():
    if sys.argv[1] == "--warm":
        from engine_probe.child import warm

        warm.main(int(sys.argv[2]), json.loads(sys.argv[3]))
        return
    from engine_probe.child import keeper, log_tap

    private_dir = sys.argv[1]
    source = log_tap.__loader__.get_data(log_tap.__file__)  # inside the zip
    with open(os.path.join(private_dir, log_tap.MODULE_NAME + ".py"), "wb") as file:
        file.write(source)
    try:
        keeper.Keeper(private_dir).run()
    finally:
        shutil.rmtree(private_dir, ignore_errors=True)
