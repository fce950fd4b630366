"""Whether a load that is followed in a file has gone silent before it serves: of a hang nothing else is seen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tui.log_loads import cause_of_load, load_at
from tui.log_times import stamp_at

if TYPE_CHECKING:
    from tui.opened_log import OpenedLog

_SILENT_SECONDS = 60


class Silence:
    """Of one log; asked many times a second, it reads lines only where there are new ones."""

    def __init__(self, log: OpenedLog) -> None:
        self._log = log
        self._known: tuple[object, str] = (None, "")

    def words(self, now: float) -> str:
        """Such as `silent since 14:02:21`, by the log's own clock; empty while it is not. `now`: seconds since 1970."""
        log, changed_at = self._log, self._log.changed_at
        if changed_at is None or now - changed_at <= _SILENT_SECONDS or not self._is_loading:
            return ""
        state = (log.generation, log.index.line_count, changed_at)
        if self._known[0] != state:
            self._known = (state, self._since(changed_at))
        is_today = time.localtime(now)[:3] == time.localtime(changed_at)[:3]
        return f"silent since {self._known[1][6:] if is_today else self._known[1]}"

    @property
    def _is_loading(self) -> bool:
        """The last load has neither come to serve nor failed, as far as all lines tell."""
        log, end = self._log, self._log.index.line_count
        if not (log.has_been_read and log.causes_are_known):
            return False
        changes = load_at(log, end)
        return bool(changes) and changes[-1][1] != "serving" and cause_of_load(log, changes, end) is None

    def _since(self, changed_at: float) -> str:
        """Day and clock of the last line that has them, else when the file changed."""
        stamp = stamp_at(self._log.index, self._log.index.line_count - 1)
        return " ".join(stamp) if stamp else time.strftime("%m-%d %H:%M:%S", time.localtime(changed_at))
