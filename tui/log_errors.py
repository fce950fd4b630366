"""The lines that tell of errors: error records, and root causes in none, such as a bare line that a load dies with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine_probe.logs.index import LogIndex
    from engine_probe.logs.index_selection import Selection
    from engine_probe.logs.merged import MergedIndex
    from engine_probe.logs.merged_roots import MergedRoots
    from engine_probe.logs.roots import Roots

_ERRORS = ("ERROR", "CRITICAL")


class ErrorLines:
    """Root causes as far as they are found. Of the lines in `among` where it is given."""

    def __init__(self, index: LogIndex | MergedIndex, roots: Roots | MergedRoots) -> None:
        self._index, self._roots = index, roots
        self.told: tuple[int, ...] = ()
        """Lines that a diagnosis found to be the cause, which may be of any level."""

    def behind(self, line: int, among: Selection | None) -> int | None:
        """The next one; at the end it goes on at the start."""
        found = self._behind(line, among)
        return self._behind(-1, among) if found is None else found

    def before(self, line: int, among: Selection | None) -> int | None:
        """The one before; at the start it goes on at the end."""
        found = self._before(line, among)
        return self._before(self._index.line_count, among) if found is None else found

    def _behind(self, line: int, among: Selection | None) -> int | None:
        found = self._index.next_error(line, among)
        causes = (at for at in self._causes() if at > line)
        return next((at for at in causes if (found is None or at < found) and self._is_bare(at, among)), found)

    def _before(self, line: int, among: Selection | None) -> int | None:
        found = self._index.last_error(line, among)
        causes = (at for at in reversed(self._causes()) if at < line)
        return next((at for at in causes if (found is None or at > found) and self._is_bare(at, among)), found)

    def _causes(self) -> list[int]:
        lines = [cause.line for cause in self._roots.causes]
        return sorted({*lines, *self.told}) if self.told else lines

    def _is_bare(self, line: int, among: Selection | None) -> bool:
        """Whether it is wanted, and no error record tells of it."""
        is_wanted = among is None or (line < among.line_count and among.mask[line] == 1)
        return is_wanted and all(one.level not in _ERRORS for one in self._index.lines(line, line + 1))
