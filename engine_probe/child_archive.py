"""The child and what it shares with us, as one zip that any Python can run."""

from __future__ import annotations

import io
import zipfile
from importlib import resources


def child_archive() -> bytes:
    """The zip's content; its `__main__` takes the private folder as its argument."""
    package = resources.files("engine_probe")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", "from engine_probe.child.main import main\n\nmain()\n")
        archive.writestr("engine_probe/__init__.py", "")
        for name in ("events.py", "stage_names.py"):
            archive.writestr(f"engine_probe/{name}", (package / name).read_text("utf-8"))
        for file in sorted((package / "child").iterdir(), key=lambda file: file.name):
            if file.name.endswith(".py"):
                archive.writestr(f"engine_probe/child/{file.name}", file.read_text("utf-8"))
    return content.getvalue()
