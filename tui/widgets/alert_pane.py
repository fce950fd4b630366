"""What is wrong with the picture, worst first, each with something that can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.widgets.clean_text import clean
from tui.widgets.row_pane import PaneContent, Piece, Row, RowPane, apart, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playbooks.alerts import Alert
    from tui.themes.glyphs import Glyphs

_HINT = "enter: what to do"


def key_of(alert: Alert) -> str:
    """The same while it is about the same."""
    return f"{alert.about} {alert.playbook or ''} {alert.pid or ''}"


def draw_alerts(alerts: Sequence[Alert], width: int, glyphs: Glyphs) -> PaneContent:
    """`width` without the mark."""
    if not alerts:
        return PaneContent((("Alerts  ", "bold"), ("none", "$quiet")))
    rows = tuple(_row(alert, width, glyphs) for alert in alerts)
    return PaneContent(_heading(alerts), rows, _keys(alerts))


def _keys(alerts: Sequence[Alert]) -> tuple[str, ...]:
    """Two alerts of the same kind about the same are told apart by their place."""
    seen: dict[str, int] = {}
    keys = []
    for alert in alerts:
        key = key_of(alert)
        seen[key] = seen.get(key, 0) + 1
        keys.append(key if seen[key] == 1 else f"{key} {seen[key]}")
    return tuple(keys)


def alert_at(alerts: Sequence[Alert], key: str | None) -> Alert | None:
    return next((alert for alert, its in zip(alerts, _keys(alerts), strict=True) if its == key), None)


def _row(alert: Alert, width: int, glyphs: Glyphs) -> Row:
    left: Row = (_sign(alert, glyphs), (f"{alert.about}: ", "bold"), (clean(_text(alert)), ""))
    return apart(left, ((_HINT, "$quiet"),), width) if width > 100 else fit(left, width)


def _text(alert: Alert) -> str:
    """What it is about stands before it already."""
    return alert.text.removeprefix(f"{alert.about}: ")


def _sign(alert: Alert, glyphs: Glyphs) -> Piece:
    return (f"{glyphs.failed} ", "$error bold") if alert.severity == "error" else ("! ", "$warning bold")


def _heading(alerts: Sequence[Alert]) -> Row:
    errors = sum(alert.severity == "error" for alert in alerts)
    parts = ((errors, "error"), (len(alerts) - errors, "warning"))
    words = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in parts if count)
    return ("Alerts  ", "bold"), (words, "$error bold" if errors else "$warning bold")


def fold_alerts(alerts: Sequence[Alert], width: int) -> PaneContent:
    """In one line, with the worst."""
    if not alerts:
        return PaneContent((("Alerts  ", "bold"), ("none", "$quiet")))
    worst = f"   {alerts[0].about}: {clean(_text(alerts[0]))}"
    return PaneContent(fit((*_heading(alerts), (worst, "")), width + 2))


class AlertPane(RowPane):
    """Rows are keyed by what they are about."""
