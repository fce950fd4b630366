"""A diagnosis as one HTML page: styles inside, no script, nothing fetched, and all that a log said is text.

Made from the JSON object of diagnosis_json.py.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from engine_probe.redact import mask
from playbooks.diagnosis_report import (
    MOST_CAUSES,
    about,
    change_of,
    headline,
    place_of,
    seconds_of,
    value_of,
    where_of,
    would_tell,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--quiet:#777;--bad:#c0392b}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}
h2{font-size:1.15rem;border-top:1px solid var(--line);padding-top:1rem}
pre{overflow-x:auto;padding:.6rem;border-left:3px solid var(--bad);background:#8881;white-space:pre-wrap}
table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid var(--line);text-align:left;padding:.2rem .6rem}
.quiet{color:var(--quiet)}
.bar{display:flex;gap:2px;margin:.3rem 0}
.bar span{background:#5dade2;color:#000;font-size:.75rem;padding:0 .3rem;overflow:hidden;white-space:nowrap}
.failed span:last-child{background:#ec7063}
code{background:#8882;padding:0 .2rem}
"""


def page(diagnosis: Mapping[str, Any]) -> str:
    """The page; masked once more, because it leaves the host."""
    parts = [
        _quiet(" · ".join(f"{name}: {value}" for name, value in about(diagnosis))),
        *(_cause(number, one) for number, one in enumerate(diagnosis["causes"][:MOST_CAUSES], 1)),
        "<h2>Timeline</h2>",
        *(_bar(one) for one in diagnosis["attempts"]),
        *_facts(diagnosis.get("facts", ())),
        *_missing(diagnosis["missing"]),
    ]
    return html_page(headline(diagnosis), parts)


def html_page(title: str, parts: Iterable[str]) -> str:
    """A whole page around `parts`, which are markup; `title` is text. Masked."""
    title = as_text(title)
    head = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>",
    ]
    return mask("\n".join([*head, *parts]) + "\n")


def _cause(number: int, cause: Mapping[str, Any]) -> str:
    parts = [
        f"<h2>{number}. {as_text(cause['title'])} ({cause['confidence']:.0%})</h2>",
        f"<p><code>{as_text(cause['id'])}</code> {as_text(where_of(cause))}</p><p>{as_text(cause['summary'])}</p>",
    ]
    parts += [f"{_quiet(place_of(one))}<pre>{as_text(one['text'])}</pre>" for one in cause["evidence"]]
    parts += _list("Hypotheses", (_claim(one) for one in cause.get("hypotheses", ())))
    parts += _list("Fixes, one at a time", (_fix(one) for one in cause["fixes"]))
    return "\n".join(parts)


def _claim(claim: Mapping[str, Any]) -> str:
    because = "; ".join(claim["because"])
    return f"{as_text(claim['verdict'])}: {as_text(claim['claim'])} <span class=quiet>{as_text(because)}</span>"


def _fix(fix: Mapping[str, Any]) -> str:
    price = f"price: {fix['you_lose']}" + (f"; not now: {fix['unavailable']}" if fix["unavailable"] else "")
    return f"<code>{as_text(change_of(fix))}</code> {as_text(fix['why'])} <span class=quiet>{as_text(price)}</span>"


def _bar(attempt: Mapping[str, Any]) -> str:
    """Stages as wide as they took; what is not known has the least width."""
    spans = "".join(
        f"<span style='flex:{max(stage['seconds'] or 0.0, 0.1):.2f} 0 2rem'>{as_text(stage['stage'])} "
        f"{as_text(seconds_of(stage))}</span>"
        for stage in attempt["stages"]
    )
    name = f"{attempt['model'] or 'unknown model'}: {attempt['outcome']}"
    return f"<p>{as_text(name)}</p><div class='bar {as_text(attempt['outcome'])}'>{spans}</div>"


def _facts(facts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    rows = [(one["label"], value_of(one), one["origin"]) for one in facts]
    if rows:
        yield "<h2>Facts</h2><table><tr><th>fact<th>value<th>from</tr>"
        yield from ("<tr>" + "".join(f"<td>{as_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        yield "</table>"


def _missing(missing: Iterable[Mapping[str, Any]]) -> list[str]:
    return _list("What would tell more", (as_text(would_tell(one)) for one in missing))


def _list(title: str, items: Iterable[str]) -> list[str]:
    found = [f"<li>{item}</li>" for item in items]
    return [f"<h3>{as_text(title)}</h3><ul>", *found, "</ul>"] if found else []


def _quiet(text: str) -> str:
    return f"<p class=quiet>{as_text(text)}</p>"


def as_text(value: object) -> str:
    """Text, never markup; control characters are shown as such."""
    shown = "".join(letter if letter >= " " or letter in "\n\t" else f"\\x{ord(letter):02x}" for letter in str(value))
    return html.escape(shown)
