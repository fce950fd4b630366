"""Which device a log is of: what vLLM says of itself, else what its messages give away."""

from __future__ import annotations

import pytest

from engine_probe.logs.records import read_text
from playbooks.device_in_log import device_printed
from tests.test_diagnosis import BANNER, ENGINE, traceback


@pytest.mark.parametrize(
    ("log", "device"),
    [
        (ENGINE.replace("speculative_config=None", "device_config=cpu"), "cpu"),
        (ENGINE.replace("speculative_config=None", "device_config=DeviceConfig(device='cuda'"), "cuda"),
        ("INFO 11-29 10:00:00 [__init__.py:239] Automatically detected platform rocm.\n", "rocm"),
        (BANNER + traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 MiB."), "cuda"),
        (BANNER + traceback("ValueError: no memory. Try increasing `VLLM_CPU_KVCACHE_SPACE`."), "cpu"),
        (BANNER + ENGINE + traceback("ValueError: pool of 16 is too small"), None),
    ],
)
def test_the_device(log: str, device: str | None) -> None:
    found = device_printed(read_text([log]), "vllm.log")
    assert (found.value if found else None) == device
