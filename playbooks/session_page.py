"""The report of a session as one HTML page: what its Markdown says; no script, and all that a log said is text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.diagnosis_page import as_text, html_page
from playbooks.report import fact_rows, headline, sections

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from playbooks.session import Session


def session_page(session: Session) -> str:
    """The page, masked."""
    parts = [f"<p class=quiet>model: {as_text(session.model)} · loads: {as_text(session.grade)}</p>"]
    for section in sections(session):
        parts += [f"<h2>{as_text(section.title)}</h2>", *_lines(section.lines)]
    parts.append("<h2>Facts</h2><table><tr><th>fact<th>name in playbooks<th>value<th>from</tr>")
    parts += ["<tr>" + "".join(f"<td>{as_text(cell)}</td>" for cell in row) + "</tr>" for row in fact_rows(session)]
    return html_page(headline(session), [*parts, "</table>"])


def _lines(lines: Iterable[str]) -> Iterator[str]:
    """A line that begins with two blanks is verbatim, one with four belongs to the line above it."""
    for line in lines:
        if line.startswith("    "):
            yield f"<p class=quiet>{as_text(line.strip())}</p>"
        elif line.startswith("  "):
            yield f"<pre>{as_text(line[2:])}</pre>"
        else:
            yield f"<p>{as_text(line)}</p>"
