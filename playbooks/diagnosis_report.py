"""A diagnosis as Markdown, to keep or to paste into an issue tracker (diagnosis_page.py: as one HTML page).

Made from the JSON object of diagnosis_json.py, so that a kept case can be written again without its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_probe.redact import mask
from playbooks import wording
from playbooks.filling import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from playbooks.schema import Fix

_SYMPTOMS = {
    "does-not-start": "does not start",
    "crashes-while-running": "crashes while running",
    "answers-are-wrong": "gives wrong answers",
}
MOST_CAUSES = 5
_ONE = {"processes": "process", "layers": "layer", "GPUs": "GPU"}


def headline(diagnosis: Mapping[str, Any]) -> str:
    """One line: what fails, and the likeliest cause."""
    causes = diagnosis["causes"]
    model = next((one["model"] for one in causes if one.get("model")), None) or "the model"
    if diagnosis["outcome"] == "healthy" and not causes:
        return "nothing is wrong in this log"
    what = _SYMPTOMS.get(diagnosis["symptom"] or "", "failed")
    if diagnosis["outcome"] == "incomplete" and diagnosis["symptom"] != "crashes-while-running":
        what = "has not come up"  # it may do so yet
    return f"{model} {what}" + (f": {causes[0]['title']}" if causes else "")


def about(diagnosis: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of name and value that stand above everything else."""
    attempts = diagnosis["attempts"]
    return [
        ("vLLM", diagnosis["vllm_version"] or "release unknown"),
        ("outcome", diagnosis["outcome"]),
        ("load attempts", str(len(attempts))),
    ]


def markdown(diagnosis: Mapping[str, Any]) -> str:
    """Masked once more: a report leaves the host."""
    lines = [f"# {headline(diagnosis)}", ""]
    lines += [f"- {name}: {value}" for name, value in about(diagnosis)]
    for number, cause in enumerate(diagnosis["causes"][:MOST_CAUSES], 1):
        lines += ["", f"## {number}. {cause['title']} ({cause['confidence']:.0%})", "", *_cause_lines(cause)]
    if diagnosis["attempts"]:
        lines += ["", "## Timeline", "", *_timeline_lines(diagnosis["attempts"])]
    if diagnosis.get("facts"):
        lines += ["", "## Facts", "", "| fact | value | from |", "|---|---|---|"]
        rows = ((one["label"], value_of(one), one["origin"]) for one in diagnosis["facts"])
        lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    if diagnosis["missing"]:
        lines += ["", "## What would tell more", ""]
        lines += [f"- {would_tell(one)}" for one in diagnosis["missing"]]
    return mask("\n".join(lines) + "\n")


def _cause_lines(cause: Mapping[str, Any]) -> Iterator[str]:
    yield f"`{cause['id']}`: {where_of(cause)}"
    yield ""
    yield cause["summary"]
    yield ""
    for line in cause["evidence"]:
        yield place_of(line)
        yield from _fenced(line["text"])
    for one in cause.get("hypotheses", ()):
        because = f" ({'; '.join(one['because'])})" if one["because"] else ""
        yield f"- {one['verdict']}: {one['claim']}{because}"
    for fix in cause["fixes"]:
        not_now = f"; not now: {fix['unavailable']}" if fix["unavailable"] else ""
        yield f"- fix `{fix['id']}`: {change_of(fix)}{not_now}"


def _fenced(text: str) -> Iterator[str]:
    """Log text as it is: a fence that is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    yield from (fence, text, fence, "")


def where_of(cause: Mapping[str, Any]) -> str:
    """Its kind, layer and stage in words."""
    words = (cause["kind"], f"{cause['layer'] or 'unknown'} layer", f"stage {cause['stage'] or 'unknown'}")
    return ", ".join(word for word in words if word)


def would_tell(missing: Mapping[str, Any]) -> str:
    """Evidence, what gives it (a case kept by an older release lacks that), and the causes that it decides about."""
    by = f" ({missing['supplied_by']})" if missing.get("supplied_by") else ""
    return f"{missing['evidence']}{by}: {', '.join(missing['decides'])}"


def place_of(line: Mapping[str, Any]) -> str:
    """`vllm.log:12`."""
    return str(line["file"]) if line["line"] is None else f"{line['file']}:{line['line']}"


def change_in_words(fix: Fix) -> str:
    """What a fix of a playbook changes where no load is known: placeholders say what they stand for."""
    steps = [{"launch": step.launch, "set": _keys_in_words(step.set)} for step in fix.steps]
    shape = {"by_hand": fix.by_hand} | ({"steps": steps} if steps else {"set": _keys_in_words(fix.set)})
    return in_words(" ".join(change_of(shape).split()), wording.label_of, is_command=bool(fix.by_hand))


def _keys_in_words(change: Mapping[str, Any]) -> dict[str, Any]:
    """`files.[damaged file]`: what stands in a key is typed, not read."""
    return {in_words(key, wording.label_of, is_command=True): value for key, value in change.items()}


def change_of(fix: Mapping[str, Any]) -> str:
    """`args.max-model-len = 1408`, its steps, or what to do by hand."""
    if fix.get("by_hand"):
        return str(fix["by_hand"])
    if "steps" in fix:
        named = ((f"{step['launch']}: " if step["launch"] else "", step["set"]) for step in fix["steps"])
        return ", then ".join(name + _pairs(change) for name, change in named)
    return _pairs(fix["set"])


def _pairs(change: Mapping[str, Any]) -> str:
    return ", ".join(wording.change(key, value) for key, value in change.items())


def _timeline_lines(attempts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for one in attempts:
        stages = " → ".join(f"{stage['stage']} {seconds_of(stage)}" for stage in one["stages"]) or "no stage seen"
        lines = f"lines {one['first_line']}–{one['last_line']}"
        yield f"- {one['model'] or 'unknown model'}, {lines}: {stages} → {one['outcome']}"


def seconds_of(stage: Mapping[str, Any]) -> str:
    """`12 s`, `?` where the lines carry no time."""
    return "?" if stage["seconds"] is None else f"{stage['seconds']:.0f} s"


def value_of(fact: Mapping[str, Any]) -> str:
    """A fact's value with its unit."""
    value = fact["value"]
    unit = "" if fact["unit"].startswith("as ") else fact["unit"]  # older releases kept words there
    shown = wording.quantity(value, unit, fact.get("name", ""))
    is_said = isinstance(value, (bool, str)) or shown.endswith(unit)
    return shown if is_said or " " in shown or not unit else f"{shown} {unit if value != 1 else _ONE.get(unit, unit)}"


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
