"""NVIDIA's driver library through nvidia-ml-py: questions that never raise, counted, with the driver's no in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine_probe.facts import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

# Codes of nvml.h that lead to something other than a reason.
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NOT_FOUND = 6
TIMEOUT = 10
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
VERSION_MISMATCH_OF_ARGUMENT = 25

# Not of nvml.h: what goes wrong on the way to the driver.
_UNREADABLE = -1
_NOT_IN_NVIDIA_ML_PY = -2
_REASONS = {
    _UNREADABLE: "the driver's answer cannot be read",
    _NOT_IN_NVIDIA_ML_PY: "nvidia-ml-py here is too old to ask it",
    UNINITIALIZED: "the connection to the NVIDIA driver is gone",
    INVALID_ARGUMENT: "the NVIDIA driver does not know the GPU or the question",
    NOT_SUPPORTED: "this GPU or its mode does not support the question",
    4: "no permission to ask the NVIDIA driver",
    NOT_FOUND: "the NVIDIA driver finds no such thing",
    9: "the NVIDIA kernel driver is not loaded",
    TIMEOUT: "the NVIDIA driver did not answer in time",
    11: "the NVIDIA kernel driver has a problem with the GPU's interrupts",
    12: "no NVIDIA driver library (libnvidia-ml.so.1) on this host",
    FUNCTION_NOT_FOUND: "this driver is too old to say it",
    14: "the GPU's infoROM is corrupted",
    GPU_IS_LOST: "a GPU is lost (fallen off the bus): a reset or reboot is needed",
    16: "the GPU needs a reset",
    17: "the operating system blocks the NVIDIA driver's answer",
    18: "the driver's library and kernel module have different versions: reload the module or reboot",
    19: "the GPU is in use by something that keeps the driver from answering",
    20: "the NVIDIA driver has too little memory to answer",
    21: "the NVIDIA driver has no data for it",
    VERSION_MISMATCH_OF_ARGUMENT: "this driver and nvidia-ml-py do not agree on the question",
    27: "the GPU is not ready",
    28: "the NVIDIA driver does not find the GPU",
    29: "the GPU is in a state that does not allow the question",
    999: "the NVIDIA driver says: unknown error",
}


@dataclass(frozen=True)
class Refusal:
    """The driver's no: NVML's code and what it means."""

    code: int

    @classmethod
    def unreadable(cls) -> Refusal:
        """For an answer that cannot be one."""
        return cls(_UNREADABLE)

    @property
    def reason(self) -> str:
        return _REASONS.get(self.code) or f"the NVIDIA driver says: error {self.code}"

    @property
    def unknown(self) -> Unknown:
        return Unknown(self.reason)

    @property
    def is_for_good(self) -> bool:
        """Whether another form of the question may be answered, while this one never will."""
        return self.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH_OF_ARGUMENT, _NOT_IN_NVIDIA_ML_PY)


class Driver:
    """One use of the library, from `open` to `close`. `calls` goes on over both."""

    def __init__(self) -> None:
        self.calls = 0
        self.codes_seen: set[int] = set()
        """Of refusals, until the caller clears it."""
        self._is_open = False

    def open(self) -> Refusal | None:
        """None when the driver answers."""
        answer = self.ask("nvmlInit")
        self._is_open = not isinstance(answer, Refusal)
        return answer if isinstance(answer, Refusal) else None

    def close(self) -> None:
        if self._is_open:
            self.ask("nvmlShutdown")  # a no is of no use here: what is gone needs no end
            self._is_open = False

    def ask(self, name: str, *arguments: Any, pick: Callable[[Any], Any] | None = None, version_2: bool = False) -> Any:
        """Call nvidia-ml-py's function `name`; a Refusal where the driver refuses.

        `pick` takes what is wanted out of the answer: nvidia-ml-py decodes text only then. `version_2` asks for the
        second layout of nvmlDeviceGetMemoryInfo.
        """
        import pynvml  # noqa: PLC0415 -- only who asks for GPUs needs it

        options = {"version": pynvml.nvmlMemory_v2} if version_2 else {}
        self.calls += 1
        try:
            answer = getattr(pynvml, name)(*arguments, **options)
            return pick(answer) if pick else answer
        except UnicodeDecodeError as error:
            return error.object.decode("utf-8", errors="replace")
        except AttributeError:
            code = _NOT_IN_NVIDIA_ML_PY
        except (ValueError, OverflowError, MemoryError):  # nvidia-ml-py cannot hold what the driver answers
            code = _UNREADABLE
        except pynvml.NVMLError as error:
            code = int(error.value)
        self.codes_seen.add(code)
        return Refusal(code)

    def ask_list(self, name: str, handle: Any) -> Any:
        """As `ask`. A list that is not empty takes two calls: nvidia-ml-py asks for its length first."""
        answer = self.ask(name, handle)
        if answer and not isinstance(answer, Refusal):
            self.calls += 1
        return answer
