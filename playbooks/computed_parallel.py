"""Computed facts for playbooks about parallel."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playbooks.computing import Computed

COMPUTED: tuple[Computed, ...] = ()
