"""GPUs that cannot be read, that report errors, or that hold their clocks down for a reason that hurts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.facts import Unknown
from playbooks.alert import Alert, number, word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.hardware.gpus import Gpu, GpuState
    from engine_probe.hardware.reading import Reading

FAULTS_PLAYBOOK = "cuda-error-while-serving"
HARDWARE_XIDS = frozenset((48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120))
"""NVIDIA's list of Xid errors: memory, NVLink, bus, firmware. Others, such as 13, 31 and 43, are mostly a program's."""
_HURTS = ("slowdown", "heat", "thermal", "temperature", "brake")
_NO_LIBRARY = "no NVIDIA driver library"
_MISMATCH = "different versions"
_LOST = "lost"
NOT_READABLE = "not readable"
"""The name of a GPU that the driver counts and does not open (engine_probe/hardware/gpus.py)."""


def gpu_alerts(reading: Reading) -> Iterator[Alert]:
    yield from _driver(reading.gpus)
    for gpu in reading.gpus.gpus:
        yield from _lost(gpu)
        yield from _faults(gpu)
        yield from _throttled(gpu)


def is_sick(gpu: Gpu) -> bool:
    """Whether it is lost, reports errors, or is held down by heat."""
    return any(True for rule in (_lost, _faults, _throttled) for _ in rule(gpu))


def _driver(state: GpuState) -> Iterator[Alert]:
    """A host without NVIDIA's library has no GPUs of theirs: nothing is wrong with it."""
    why = state.unavailable
    if why is None or why.startswith(_NO_LIBRARY):
        return
    if _MISMATCH in why:
        what = "Reload the NVIDIA kernel module, or reboot: until then no new process gets a GPU."
        yield Alert("error", f"GPUs: {why}", "host", "driver-library-mismatch", None, what)
    elif _LOST in why:
        yield Alert(
            "error", f"GPUs: {why}", "host", FAULTS_PLAYBOOK, None, "Look for Xid errors in dmesg, then reboot."
        )
    else:
        what = "Try nvidia-smi here: where it fails too, the driver or this container's access to it has to be mended."
        yield Alert("warning", f"GPUs cannot be read: {why}", "host", "gpu-not-visible-in-container", None, what)


def _lost(gpu: Gpu) -> Iterator[Alert]:
    """Not one whose memory NVML does not tell, as where GPU and host share it."""
    about = f"GPU {gpu.index}"
    if not (isinstance(gpu.total_gib, Unknown) and isinstance(gpu.used_gib, Unknown)):
        return
    why = gpu.total_gib.reason
    if _LOST in why:
        what = "Drain what runs on it, look for Xid errors in dmesg, then reset the GPU or reboot."
        yield Alert("error", f"{about}: {why}", about, FAULTS_PLAYBOOK, None, what)
    elif gpu.name == NOT_READABLE:
        yield Alert("warning", f"{about} cannot be read: {why}", about, None, None, f"Try nvidia-smi -i {gpu.index}.")


def _faults(gpu: Gpu) -> Iterator[Alert]:
    about = f"GPU {gpu.index}"
    remap = word(gpu.row_remap)
    if remap is not None and remap.startswith("failed"):
        what = "Take the GPU out of use and replace it: it has no spare memory rows left."
        yield Alert("error", f"{about}: a faulty memory row could not be replaced", about, FAULTS_PLAYBOOK, None, what)
    elif remap is not None and remap.startswith("pending"):
        what = f"Drain the GPU, then reset it: nvidia-smi --gpu-reset -i {gpu.index}"
        text = f"{about}: a faulty memory row waits for a reset to be replaced"
        yield Alert("error", text, about, FAULTS_PLAYBOOK, None, what)
    errors = number(gpu.ecc_errors)
    if errors is not None and errors > 0:
        what_kind = f"uncorrected memory error{'s' if errors != 1 else ''} (ECC)"
        text = f"{about}: {errors:.0f} {what_kind} since the driver was loaded"
        what = "Restart what runs there, reset the GPU when it is drained, and replace it if they come back."
        yield Alert("error", text, about, FAULTS_PLAYBOOK, None, what)
    xid = number(gpu.xid)
    if xid is not None and xid > 0:
        is_hardware = int(xid) in HARDWARE_XIDS
        what = (
            "Read dmesg, drain the GPU and reset it, and replace it if it comes back."
            if is_hardware
            else "Read dmesg: it names the process; the program on the GPU is the likelier cause."
        )
        kind = "a hardware error" if is_hardware else "mostly a program's error"
        text = f"{about}: the driver reported Xid {xid:.0f}, {kind}"
        yield Alert("error" if is_hardware else "warning", text, about, FAULTS_PLAYBOOK, None, what)


def _throttled(gpu: Gpu) -> Iterator[Alert]:
    """A power limit that is reached is a GPU at work; heat and a power brake are not."""
    why = word(gpu.throttle)
    if why is None or not any(sign in why.lower() for sign in _HURTS):
        return
    about = f"GPU {gpu.index}"
    degrees, clock = number(gpu.temperature_celsius), number(gpu.sm_clock_mhz)
    at = "".join(
        (f", {degrees:.0f} °C" if degrees is not None else "", f", {clock:.0f} MHz" if clock is not None else "")
    )
    what = "Check the cooling and the power supply: this GPU is slow, and so are all ranks that wait for it."
    yield Alert("warning", f"{about}: its clocks are held down by {why}{at}", about, None, None, what)
