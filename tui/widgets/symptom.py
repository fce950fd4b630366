"""Step 1 as text: what is wrong, before anything is said about why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playbooks.report import beside_lines, in_words
from playbooks.wording import arguments
from tui.themes.palette import layer_style
from tui.widgets.clean_text import clean
from tui.widgets.step_pane import Body
from tui.widgets.words import cell, cut, lines, part, wrapped

if TYPE_CHECKING:
    from textual.content import Content

    from playbooks.session import Evidence, Session, Symptom
    from tui.themes.glyphs import Glyphs

_WIDE = 100
_MOST_LINES = 4
"""Of a long error on a small screen: l shows all of it."""
_SHORT_NAMES = {"GPUs and memory": "GPUs", "config.json and files": "files", "launch arguments": "launch"}
KINDS = {
    "does-not-start": "does not start",
    "crashes-while-running": "crashes while running",
    "answers-are-wrong": "answers, but wrongly",
}


def symptom_body(session: Session, width: int, glyphs: Glyphs) -> Body:
    if session.symptom is None:
        return Body(above=lines(_not_yet(session, width)))
    symptom = session.symptom
    rows = [
        *_kind_rows(symptom, width, glyphs),
        *_place_rows(symptom, width),
        *(_sources_at_a_glance(symptom, glyphs) if width < _WIDE else []),
        *(row for line in beside_lines(session) for row in wrapped(clean(line), width, 0, "$quiet")),
        part(""),
        *_headline_rows(symptom, width),
        *_source_rows(symptom, width, glyphs),
        *([part(""), *note_rows(session, width)] if session.log_sources and session.notes else []),
        *_folder_rows(session, width),
    ]
    return Body(above=lines(rows))


def _kind_rows(symptom: Symptom, width: int, glyphs: Glyphs) -> list[Content]:
    """All three kinds, so that a person sees what it is not; the one that applies is marked."""
    row = part(cut(clean(symptom.model), max(width // 3, 8)), "bold") + part("  ")
    others = part("")
    for kind, words in KINDS.items():
        if kind == symptom.kind:
            row += part(f" {glyphs.running} {words}", "$error bold")
        else:
            others += part(f"   {glyphs.rest} {words}", "$quiet")
    if row.cell_length + others.cell_length <= width:
        return [row + others]
    return [row, part(cut(others.plain, width), "$quiet")]


def _sources_at_a_glance(symptom: Symptom, glyphs: Glyphs) -> list[Content]:
    """On a small screen all of them stand below the fold."""
    row = part("evidence", "$quiet")
    for source in symptom.sources:
        is_there = source.missing is None
        row += part(f"  {glyphs.done if is_there else glyphs.unknown} ", "$success" if is_there else "$warning")
        row += part(_SHORT_NAMES.get(source.name, source.name))
    return [row] if symptom.sources else []


def _place_rows(symptom: Symptom, width: int) -> list[Content]:
    """Stage and layer, then what can be looked up elsewhere."""
    rows = [
        part("stage ", "$quiet")
        + part(in_words(symptom.stage))
        + part("     layer ", "$quiet")
        + part(in_words(symptom.layer), layer_style(symptom.layer))
    ]
    for label, words in (("codes ", symptom.codes), ("key words ", symptom.key_words)):
        if not words:
            continue
        text = clean(", ".join(words))
        if label == "codes " and rows[0].cell_length + len(text) + 11 <= width:
            rows[0] += part("     codes ", "$quiet") + part(text, "bold")
        else:
            rows.append(part(label, "$quiet") + part(cut(text, width - len(label))))
    return rows


def _headline_rows(symptom: Symptom, width: int) -> list[Content]:
    """The root exception with its place, then the evidence that says something else."""
    rest = tuple(one for one in symptom.evidence if not _says_the_same(one.text, symptom.headline))
    first = next((one for one in symptom.evidence if _says_the_same(one.text, symptom.headline)), None)
    rows = wrapped(clean(symptom.headline), width, most=_MOST_LINES if width < _WIDE else 0)
    if first is not None:
        rows.append(part(f"in {place_of(first)}", "$quiet"))
    rows.append(part(""))
    return rows + (evidence_rows(rest, width) if rest or first is None else [])


_SAME_FROM = 40
"""So many signs in common are no chance."""


def _says_the_same(one: str, other: str) -> bool:
    """The same message, printed again with its class by its whole name, or cut."""
    short, long = sorted((_message(one), _message(other)), key=len)
    return one == other or (len(short) >= _SAME_FROM and long.startswith(short))


def _message(text: str) -> str:
    """Without the class of an exception before it; in one line."""
    return re.sub(r"^(?:[\w.]+(?:Error|Exception|Warning|Interrupt): )+", "", " ".join(text.split())).rstrip(" …")


def place_of(evidence: Evidence) -> str:
    """`load-1.log:64`, or the file alone."""
    return evidence.file if evidence.line is None else f"{evidence.file}:{evidence.line}"


def _folder_rows(session: Session, width: int) -> list[Content]:
    return (
        wrapped(f"Logs and events are kept in {session.case_folder}", width, 0, "$quiet") if session.case_folder else []
    )


def evidence_rows(evidence: tuple[Evidence, ...], width: int, title: str = "Evidence") -> list[Content]:
    """`file:line  text`, the places aligned; each text at most three lines."""
    if not evidence:
        return [part(title, "bold"), part("  none was found", "$quiet"), part("")]
    places = [place_of(item) for item in evidence]
    place_width = min(max(len(place) for place in places), max(width // 3, 12))
    rows = [part(title, "bold")]
    for place, item in zip(places, evidence, strict=True):
        folded = wrapped(clean(item.text), width, place_width + 4, most=3)
        first = folded[0].plain[place_width + 4 :] if folded else ""
        rows.append(part("  " + cell(place, place_width), "$quiet") + part("  " + first))
        rows += folded[1:]
    return [*rows, part("")]


def _source_rows(symptom: Symptom, width: int, glyphs: Glyphs) -> list[Content]:
    if not symptom.sources:
        return []
    name_width = max(len(source.name) for source in symptom.sources)
    rows = [part("Where evidence was looked for", "bold")]
    for source in symptom.sources:
        is_there = source.missing is None
        glyph, style = (glyphs.done, "$success") if is_there else (glyphs.unknown, "$warning")
        head = part(f"  {glyph} ", style) + part(cell(source.name, name_width))
        words = source.found or "found" if is_there else f"missing, because {source.missing}"
        folded = wrapped(clean(words), width, name_width + 6, "$quiet", most=2)
        rows.append(head + part("  ") + part(folded[0].plain.strip(), "$quiet"))
        rows += folded[1:]
        if source.missing is not None and source.give:
            rows += wrapped(clean(f"to give it: {source.give}"), width, name_width + 6, "$accent", most=2)
    return rows


def _not_yet(session: Session, width: int) -> list[Content]:
    if session.verdict is not None:
        return [*note_rows(session, width), *_arguments(session, width)]
    if session.log_sources:
        return [part(clean(f"Reading {', '.join(session.log_sources)}; nothing is loaded."), "bold")]
    return [
        part("Nothing is wrong so far.", "bold"),
        *wrapped("The load is watched stage by stage; what breaks will stand here.", width, style="$quiet"),
        part(""),
        *_arguments(session, width),
    ]


def note_rows(session: Session, width: int) -> list[Content]:
    """What the case noted, such as why the engine does not run; a note may have several lines."""
    texts = [line for note in dict.fromkeys(session.notes) for line in note.splitlines()]
    return [row for text in texts for row in wrapped(clean(text), width)] + ([part("")] if texts else [])


def _arguments(session: Session, width: int) -> list[Content]:
    models = ", ".join(launch.name for launch in session.deployment.models)
    grade = {"cold": "a full start, as in production", "warm": "from a process that has vLLM imported already"}
    rows = [
        part("models   ", "$quiet") + part(models),
        part("load     ", "$quiet") + part(f"{session.grade}: {grade.get(session.grade, 'the arguments only')}"),
    ]
    several = len(session.deployment.models) > 1
    for launch in session.deployment.models:
        text = f"{launch.name}: {arguments(launch)}" if several else arguments(launch)
        folded = wrapped(clean(text), width, 9, most=3)
        rows.append(part(cell("args", 9), "$quiet") + part(folded[0].plain.strip()))
        rows += folded[1:]
    return rows
