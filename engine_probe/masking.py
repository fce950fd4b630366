"""Masks the secrets in a probe's events: nothing behind the supervisor ever sees one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from engine_probe.redact import mask_argv, mask_deep

if TYPE_CHECKING:
    from engine_probe import events as ev

_NAMES = frozenset({"event", "model", "time", "id", "path", "grade", "stage", "logger", "level", "flags"})
"""Fields that hold names by which the console finds things again: they stay as they are."""


def masked(event: ev.Event) -> ev.Event:
    """The same event with every secret in its texts, however deep, replaced by `***`."""
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(event):
        if field.name not in _NAMES:
            value = getattr(event, field.name)
            clean = mask_argv(value) if field.name == "argv" else mask_deep(value)
            if clean != value:
                changed[field.name] = clean
    return dataclasses.replace(event, **changed) if changed else event
