"""What the driver's numbers, bits and names mean. A number that cannot be is Unknown, never shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.nvml import Refusal

ORIGIN = "NVML"
NO_VALUE = Unknown("the driver gives no value for it")
_GIB = 1024**3
# nvml.h, NVML_VALUE_NOT_AVAILABLE: all bits set, in 32 or 64 of them.
_ALL_ONES = (2**32 - 1, 2**64 - 1)
_LONGEST_TEXT = 96
_LARGEST_GPU_BYTES = 2**50
# The parts of a total are not read in one instant.
_TOLERATED_SHARE = 64

# nvml.h, nvmlClocksEventReason*. An idle GPU's clocks are low, which is no throttling.
_IDLE = 0x1
_THROTTLE_WORDS = {
    0x2: "clocks set by hand",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal",
    0x40: "hardware thermal",
    0x80: "hardware power brake",
    0x100: "display clocks",
}


@dataclass(frozen=True)
class Memory:
    total_gib: Fact
    used_gib: Fact
    free_gib: Fact
    reserved_gib: Fact

    @classmethod
    def unknown(cls, reason: Unknown) -> Memory:
        return cls(reason, reason, reason, reason)


def number(answer: Any, lowest: int, highest: int, divisor: int = 1) -> Fact:
    """The answer divided by `divisor`, if it is between two bounds that no GPU exceeds."""
    if isinstance(answer, Refusal):
        return answer.unknown
    if answer in _ALL_ONES:
        return NO_VALUE
    if not lowest <= answer <= highest:
        return _cannot_be(answer)
    return Known(answer if divisor == 1 else answer / divisor, "measured", ORIGIN)


def gib(size_bytes: int | None, most_bytes: int = _LARGEST_GPU_BYTES) -> Fact:
    """nvidia-ml-py has None for a process's memory that the driver does not say."""
    if size_bytes is None or size_bytes in _ALL_ONES:
        return Unknown("the driver does not say it here (MIG, or a process of another container)")
    return number(size_bytes, 0, most_bytes, _GIB)


def memory(answer: Any, has_reserve: bool) -> Memory:
    """The parts of one answer; all are Unknown where they cannot belong together."""
    if isinstance(answer, Refusal):
        return Memory.unknown(answer.unknown)
    total, used, free = answer.total, answer.used, answer.free
    reserved = answer.reserved if has_reserve else 0
    if any(size in _ALL_ONES for size in (total, used, free, reserved)):
        return Memory.unknown(NO_VALUE)
    if not 0 < total <= _LARGEST_GPU_BYTES:
        return Memory.unknown(_cannot_be(total))
    if max(used, free, reserved) > total or used + free + reserved > total + total // _TOLERATED_SHARE:
        return Memory.unknown(Unknown("the driver's sizes are more than the GPU's memory together"))
    reserve = gib(reserved) if has_reserve else Unknown("this driver is too old to say it")
    return Memory(gib(total), gib(used), gib(free), reserve)


def cuda_total(of: Memory) -> Fact:
    """What CUDA, and so torch and vLLM, say the total is: NVML's total less what driver and firmware keep.

    nvml.h (nvmlMemory_v2_t): `reserved` is device memory reserved for system use, driver or firmware; CUDA's total is
    without it. NVIDIA states no equality, so the source is "computed": vLLM's logs on H100s say 79.10 to 79.22 GiB,
    NVML's total is 79.65 GiB (81,559 MiB), its reserve there about 0.5 GiB.
    """
    if not isinstance(of.total_gib, Known):
        return of.total_gib
    if not isinstance(of.reserved_gib, Known):
        return of.reserved_gib
    total_gib = float(of.total_gib.value) - float(of.reserved_gib.value)
    return Known(total_gib, "computed", "NVML's total minus the driver's reserve")


def throttle(bits: Any) -> Fact:
    if isinstance(bits, Refusal):
        return bits.unknown
    if bits in _ALL_ONES:
        return NO_VALUE
    words = [word for bit, word in _THROTTLE_WORDS.items() if bits & bit]
    others = bits & ~_IDLE & ~sum(_THROTTLE_WORDS)
    if others:
        words.append(f"another reason ({others:#x})")
    return Known(", ".join(words) or "none", "measured", ORIGIN)


def row_remap(answer: Any) -> Fact:
    if isinstance(answer, Refusal):
        return answer.unknown
    _corrected, _uncorrected, pending, failed = answer
    for flag in (pending, failed):
        if flag not in (0, 1):
            return NO_VALUE if flag in _ALL_ONES else _cannot_be(flag)
    word = "failed" if failed else "pending: a reset is needed" if pending else "none"
    return Known(word, "measured", ORIGIN)


def pcie(generation: Any, width: Any) -> Fact:
    parts = [number(generation, 1, 15), number(width, 1, 64)]
    for part in parts:
        if isinstance(part, Unknown):
            return part
    first, second = (part.value for part in parts if isinstance(part, Known))
    return Known(f"gen {first} x{second}", "measured", ORIGIN)


def text(answer: Any) -> Fact:
    """Text of the driver is data: without control characters, and of bounded length."""
    if isinstance(answer, Refusal):
        return answer.unknown
    clean = printable(str(answer))
    return Known(clean, "measured", ORIGIN) if clean else NO_VALUE


def shown_text(answer: Any) -> str:
    fact = text(answer)
    return str(fact.value) if isinstance(fact, Known) else f"unknown ({fact.reason})"


def printable(words: str) -> str:
    return "".join(sign for sign in words if sign.isprintable()).strip()[:_LONGEST_TEXT]


def _cannot_be(value: int) -> Unknown:
    return Unknown(f"the driver says {value}, which cannot be")
