"""`engine:` as people write it, in a deployment and in the settings alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from engine_probe.launch import EngineSpec

if TYPE_CHECKING:
    from engine_probe.yaml_nodes import Lines, YamlPath


class EngineFile(msgspec.Struct, forbid_unknown_fields=True):
    """`engine:` as written."""

    python: str | None = None
    container: str | None = None
    image: str | None = None
    ssh: str | None = None
    pod: str | None = None
    run: str = "docker"


def engine_spec(written: EngineFile | None, at: YamlPath, lines: Lines) -> EngineSpec | None:
    """Raises InputError, at the place in the file, where it names no way to the engine or more than one."""
    if written is None:
        return None
    ways = [way for way in ("container", "image", "ssh", "pod") if getattr(written, way) is not None]
    if len(ways) > 1:
        raise lines.error(f"an engine is reached one way, not two: {' and '.join(ways)}", (*at, ways[1]))
    if not ways and written.python is None:
        raise lines.error("engine: name `python`, `container`, `image`, `ssh` or `pod`", at)
    return EngineSpec(
        python=written.python or "python3",
        container=written.container,
        image=written.image,
        ssh=written.ssh,
        pod=written.pod,
        run=written.run,
    )
