"""Which of the packages that vLLM itself asks for a message is about: only those may be installed for its sake.

A name that stands in a log alone is never one to be installed: whoever writes a log could name any package.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine_probe.facts import Known, Unknown
from engine_probe.outside.pip_words import plain_name
from playbooks.computing import Computed
from playbooks.facts_of_evidence import WANTED

if TYPE_CHECKING:
    from playbooks.conditions import Answer, Lookup

_CAPTURED = ("package", "required", "module")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Modules that are named otherwise than the package that brings them.
_BROUGHT_BY = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
    "google.protobuf": "protobuf",
    "dateutil": "python-dateutil",
    "sklearn": "scikit-learn",
}


def _in_message(lookup: Lookup) -> Answer:
    count = lookup("packages_unmet.count")
    if not isinstance(count, Known):
        return count if isinstance(count, Unknown) else Unknown("the engine's packages were not read")
    for captured in _CAPTURED:
        told = lookup(captured)
        found = _NAME.match(str(told.value)) if isinstance(told, Known) else None
        if found is None:
            continue
        for name in (_BROUGHT_BY.get(found[0]), found[0], found[0].partition(".")[0]):
            if name and isinstance(lookup(f"{WANTED}{plain_name(name)}"), Known):
                return Known(plain_name(name), "computed", "the message, and vLLM's own requirements")
    return Unknown("the message names no package that vLLM asks for and that is another one or not there")


COMPUTED: tuple[Computed, ...] = (
    Computed(
        "packages_unmet.in_message",
        "package in the message that vLLM asks for",
        "",
        "the package that the message misses, where vLLM's own requirements name it and it is not met",
        _in_message,
    ),
)
