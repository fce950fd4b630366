"""The monitor on the real watch and unchanged nvidia-ml-py, over the stand-in driver library."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from tests.fake_gpus import FakeGpu, FakeProcess, FakeSlice
from tests.test_monitor_screen import drawn, monitor_of, text_of
from tests.tui_samples import until
from tui.app import ConsoleApp
from tui.backend import real_backend
from tui.themes.glyphs import UNICODE


def console(tmp_path):
    world = replace(real_backend(), exports=tmp_path)
    return ConsoleApp(world, glyphs=UNICODE, interval_seconds=0.5)


async def test_eight_gpus_and_one_that_is_lost_while_it_is_watched(fake_driver, tmp_path):
    gpus = [FakeGpu(used_gib=10.0 + i, utilization_percent=i * 10, power_watts=100.0 + i) for i in range(8)]
    gpus[2] = replace(gpus[2], processes=(FakeProcess(os.getpid(), 11.5),))
    gpus[3] = replace(gpus[3], processes=(FakeProcess(2**22 + 7, 12.5),))
    fake_driver.show(*gpus)
    app = console(tmp_path)
    async with app.run_test(size=(160, 40)) as pilot:
        await monitor_of(pilot)
        await until(pilot, lambda: len([line for line in drawn(app) if re.search(r"1\d\.\d / 80\.0 GiB", line)]) == 8)
        row = next(line for line in drawn(app) if line.startswith("   2 "))
        assert f"pid {os.getpid()}" in row
        assert "20 %" in row
        assert "pid 4194311 not visible" in text_of(app)
        fake_driver.show(*gpus[:7])
        await until(pilot, lambda: "not reported by the driver since" in text_of(app) or "lost" in text_of(app))
        fake_driver.show(*gpus)
        await until(pilot, lambda: len([line for line in drawn(app) if re.search(r"1\d\.\d / 80\.0 GiB", line)]) == 8)


async def test_slices_are_rows(fake_driver, tmp_path):
    parts = (FakeSlice(40.0, 33.0, "NVIDIA H100 80GB HBM3 MIG 3g.40gb"), FakeSlice(10.0, 1.5))
    fake_driver.show(FakeGpu(used_gib=34.5, slices=parts))
    app = console(tmp_path)
    async with app.run_test(size=(120, 36)) as pilot:
        await monitor_of(pilot)
        await until(pilot, lambda: "33.0 / 40.0 GiB" in text_of(app))
        rows = [line for line in drawn(app) if re.match(r" [▸ ]  0\.\d", line)]
        assert len(rows) == 2
        assert " 3g.40gb " in rows[0]
        assert all(row.endswith("n/a") for row in rows)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_no_gpu_in_the_driver(fake_driver, tmp_path, size):
    fake_driver.show()
    app = console(tmp_path)
    async with app.run_test(size=size) as pilot:
        await monitor_of(pilot)
        assert "GPUs  none, because the driver reports none on this host" in text_of(app)
        assert re.search(r"RAM .* / .* GiB", text_of(app))
