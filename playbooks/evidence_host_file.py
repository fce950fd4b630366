"""A saved state of a host, read and checked: what is missing or null is unknown, what is no size or number is an error.

The monitor saves one (monitor_schema.json); the few keys that are read are in the README, below `diagnose`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine_probe.errors import InputError, nearest_word
from engine_probe.numbers import is_credible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

MAX_BYTES = 16 * 1024 * 1024
_MOST_ERRORS_SHOWN = 5
SHAPE = (
    'wanted is an object such as {"gpus": [{"index": 0, "total_gib": 79.2, "used_gib": 70.1, "processes": '
    '[{"pid": 7, "name": "python", "used_gib": 70.1}]}], "host": {"ram_total_gib": 503}}'
)

_WHOLE = ("gpus", "host", "servers", "driver_version")
_GPU = ("index", "name", "total_gib", "used_gib", "free_gib", "processes", "compute_capability")
_PROCESS = ("pid", "name", "used_gib", "model", "is_orphan", "is_visible")
_SERVER = ("name", "model", "pid", "is_orphan", "processes")
_HOST = (
    "ram_total_gib", "ram_available_gib", "ram_limit_gib", "shm_total_gib", "shm_free_gib", "cache_free_gib",
    "open_files_limit",
)  # fmt: skip
TOTALS = ("total_gib", "ram_total_gib")
"""Nothing has a total of 0: whoever wrote it did not know."""
_NUMBERS = ("compute_capability", "open_files_limit")
_WITHOUT_USE = ("unknown", "uuid", "time", "host_name", "processes_unavailable", "gpus_unavailable", "alerts")
"""What a cut-down state of the monitor may still have."""


def read_state(path: Path) -> dict[str, Any]:
    """Raises InputError where the file is no regular one, too large, or no such object."""
    try:
        content = json.loads(_bytes_of(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"--host-state: {path} is no JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("gpus"), list):
        raise InputError(f"--host-state: {path} has no list `gpus`; {SHAPE}")
    wrong = [*_wrong_gpus(content["gpus"]), *_wrong_servers(content.get("servers"))]
    wrong += _wrong_object(content.get("host"), "host")
    if wrong:
        more = f"\nand {len(wrong) - _MOST_ERRORS_SHOWN} more" if len(wrong) > _MOST_ERRORS_SHOWN else ""
        raise InputError(f"--host-state: {path}\n" + "\n".join(wrong[:_MOST_ERRORS_SHOWN]) + more)
    return content


def notes_of(content: Mapping[str, Any]) -> list[str]:
    """Keys that no state of a host has, each with the key that was probably meant."""
    if content.get("schema") is not None:  # the monitor wrote it, perhaps that of a newer release
        return []
    strange = [
        *_strange(content, _WHOLE, ""),
        *_strange(content.get("host"), _HOST, "host."),
        *_strange_in(content.get("gpus"), _GPU, "gpus"),
        *_strange_in(content.get("servers"), _SERVER, "servers"),
    ]
    more = [f"and {len(strange) - _MOST_ERRORS_SHOWN} more keys"] if len(strange) > _MOST_ERRORS_SHOWN else []
    return strange[:_MOST_ERRORS_SHOWN] + more


def _strange_in(found: object, keys: Sequence[str], place: str) -> Iterator[str]:
    for number, one in enumerate(found if isinstance(found, list) else ()):
        yield from _strange(one, keys, f"{place}[{number}].")
        processes = one.get("processes") if isinstance(one, dict) else None
        for at, process in enumerate(processes if isinstance(processes, list) else ()):
            yield from _strange(process, _PROCESS, f"{place}[{number}].processes[{at}].")


def _strange(found: object, keys: Sequence[str], place: str) -> Iterator[str]:
    for key in found if isinstance(found, dict) else ():
        if key not in keys and key not in _WITHOUT_USE:
            nearest = nearest_word(key, keys)
            yield f"{place}{key} is not read" + (f"; did you mean {nearest}?" if nearest else "")


def _bytes_of(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"--host-state: {path} is no regular file")
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"--host-state: cannot read {path}: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise InputError(f"--host-state: {path} is larger than {MAX_BYTES >> 20} MiB; that is no state of a host")
    return content


def _wrong_gpus(gpus: list[Any]) -> Iterator[str]:
    for number, gpu in enumerate(gpus):
        place = f"gpus[{number}]"
        if not isinstance(gpu, dict):
            yield f"{place}: an object is wanted"
        elif not _is_whole(gpu.get("index")):
            yield f"{place}.index: a whole number is wanted, such as 0"
        else:
            yield from _wrong_object(gpu, place)
            yield from _wrong_processes(gpu.get("processes"), place)


def _wrong_servers(servers: object) -> Iterator[str]:
    if servers is not None and not isinstance(servers, list):
        yield "servers: a list is wanted"
        return
    for number, server in enumerate(servers or ()):
        place = f"servers[{number}]"
        yield from _wrong_object(server, place, may_be_missing=False)
        if isinstance(server, dict):
            yield from _wrong_processes(server.get("processes"), place)


def _wrong_processes(processes: object, of: str) -> Iterator[str]:
    if processes is not None and not isinstance(processes, list):
        yield f"{of}.processes: a list is wanted"
        return
    for number, process in enumerate(processes or ()):
        yield from _wrong_object(process, f"{of}.processes[{number}]", may_be_missing=False)


def _wrong_object(found: object, place: str, *, may_be_missing: bool = True) -> Iterator[str]:
    """Sizes, process ids and names of one object."""
    if not isinstance(found, dict):
        if found is not None or not may_be_missing:
            yield f"{place}: an object is wanted"
        return
    for key, value in found.items():
        if value is None:
            continue
        if wanted := _number_wanted(key, value):
            yield f"{place}.{key}: {wanted}"
        elif key == "pid" and not _is_whole(value):
            yield f"{place}.pid: a whole number is wanted"
        elif key == "is_orphan" and not isinstance(value, bool):
            yield f"{place}.is_orphan: true or false is wanted"
        elif key == "name" and not isinstance(value, str):
            yield f"{place}.name: text is wanted"


def _number_wanted(key: str, value: object) -> str | None:
    """What is wanted in place of `value`; None: it will do, or the key is no number's."""
    if key in TOTALS and not (_is_size(value) and value > 0):  # type: ignore[operator]
        return "a number of GiB above 0 is wanted, or null where it is not known"
    if key.endswith("_gib") and not _is_size(value):
        return "a number of GiB from 0 on is wanted, or null where it is not known"
    return "a number is wanted" if key in _NUMBERS and not (_is_size(value) or isinstance(value, str)) else None


def _is_size(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and is_credible(value) and value >= 0


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and _is_size(value)
