"""A raw line as text for a person."""

from __future__ import annotations

from engine_probe.logs.index_blocks import LONGEST_SHOWN_BYTES
from engine_probe.logs.index_keys import last_drawn, without_colours
from engine_probe.redact import mask


def readable(line: bytes) -> str:
    """No colours, drawn-over text gone, secrets masked, cut where it is endless.

    Other control characters stay: whoever shows the text makes them visible.
    """
    shown = last_drawn(without_colours(line[:LONGEST_SHOWN_BYTES]))
    text = mask(shown.decode("utf-8", "replace"))
    return f"{text} … (cut: a line of more than 64 KiB)" if len(line) >= LONGEST_SHOWN_BYTES else text
