"""What has to be the same for a case to go on where it was cut off: the models' files, and the engine.

Of a file its size and the time of its last change count: reading 100 GB of weights would take longer than the case.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from engine_probe.engine_version import engine_version
from engine_probe.whole_file import write_whole
from playbooks.case_file import read_kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine_probe.engine import Engine
    from engine_probe.launch import Deployment

_NAME = "fingerprints.json"


def fingerprints(deployment: Deployment, engine: Engine) -> dict[str, str]:
    """By what they are of, in words. Folders that are not on this host have none."""
    version = engine_version(engine)
    found = {"the engine": f"{engine.label} {version.version if version is not None else ''}".strip()}
    base = deployment.path.parent if deployment.path is not None else Path()
    for launch in deployment.models if engine.is_local else ():
        places = {f"the files of {launch.name}": launch.model}
        places |= {f"the adapter {name} of {launch.name}": path for name, path in launch.lora.items()}
        for words, place in places.items():
            folder = base / Path(place).expanduser()
            if folder.is_dir():
                found[words] = _of_folder(folder)
    return found


def _of_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for line in sorted(_files(folder)):
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[str]:
    """A link counts as what it leads to: files of a snapshot are links to blobs."""
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            try:
                state = path.stat()
                yield f"{path.relative_to(folder)} {state.st_size} {state.st_mtime_ns}\n"
            except OSError as error:
                yield f"{path.relative_to(folder)} {error.errno}\n"


def keep_fingerprints(folder: Path, prints: Mapping[str, str]) -> None:
    """In a case's folder. Raises OSError."""
    write_whole(folder / _NAME, (json.dumps(prints, indent=1) + "\n").encode())


def kept_fingerprints(folder: Path) -> dict[str, str]:
    """Those of a case; empty where it has none, or none that can be read."""
    try:
        content = json.loads(read_kept(folder / _NAME))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in content.items()} if isinstance(content, dict) else {}


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """What is not as it was."""
    return tuple(name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name))
