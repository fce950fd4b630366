"""Hands the mouse back to the terminal, so that a person selects text in it as anywhere else, and takes it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.app import App

_MODES = (1000, 1003, 1015, 1006)
"""What Textual switches on: clicks, moves, two ways to tell of them (textual/drivers/linux_driver.py, 8.2)."""


def take_mouse(app: App[int], is_taken: bool) -> None:
    """Whether the terminal tells the console of the mouse. Textual has no way to change that while it runs."""
    driver = app._driver
    if driver is not None and not driver.is_headless:
        driver.write("".join(f"\x1b[?{mode}{'h' if is_taken else 'l'}" for mode in _MODES))
        driver.flush()
