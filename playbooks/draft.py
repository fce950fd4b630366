"""A playbook drafted from a case: its wording from the real error, its samples from the real log, the fix that held.

It is valid as it stands (`playbooks check`), and speaks only where no other playbook explains; what only a person
knows is said in its comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from engine_probe.errors import InputError
from engine_probe.facts import Known
from engine_probe.logs.lines import PROBE_LOGGER
from engine_probe.redact import mask
from engine_probe.yaml_edit import rendered
from playbooks.check import problems
from playbooks.draft_claims import fixes_and_claims
from playbooks.draft_pattern import addresses_in, message_of, neutral, pattern_of
from playbooks.patterns import CompiledWording
from playbooks.schema import Match, NoMatch, Playbook, Samples, Symptoms, Tested, Wording
from playbooks.template import check_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from playbooks.schema import Fix
    from playbooks.session import Cause, FixOption, Session

_COVER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
_FINE = "INFO: Application startup complete."
_LONGEST_SAMPLE, _LONGEST_TITLE = 600, 90
_MOST_OTHER_LINES, _LEAST_WORDS = 2, 8
_WORD = re.compile(r"[A-Za-z]{2,}")
_IS_EXPLAINED = 0.5
"""From this confidence on a cause without a proved fix counts as known."""


@dataclass(frozen=True)
class Library:
    """What of the library the draft is checked against: the ids that there are, and the specs by id."""

    ids: tuple[str, ...]
    specs: Mapping[str, Playbook]


def draft_of(
    session: Session, name: str, known: Library, today: date, lines: Iterable[str] = (), family: str | None = None
) -> tuple[str, str]:
    """The family, and the text of `FAMILY/NAME.yaml`. `lines`: of the case's log, what must not match is taken from.

    Raises InputError where the case shows no failure, or the name cannot be.
    """
    if session.symptom is None:
        raise InputError(f"case {session.case} shows no failure, so there is nothing to write a playbook about")
    if name in known.ids:
        raise InputError(f"there is a playbook {name!r} already: give another name")
    cause = _cause(session)
    chosen = family or (cause.family if cause is not None else "") or "configuration"
    check_name(name, chosen)
    spec = _playbook(session, name, chosen, cause, known, today, lines)
    wrong = list(problems(spec, name, (*known.ids, name)))
    if wrong:
        places = "; ".join(f"{'.'.join(map(str, one.at))}: {one.text}" for one in wrong)
        raise InputError(f"no draft can be made of case {session.case}: {places}")
    return chosen, _text(spec, session)


def explained_by(session: Session, ids: Iterable[str]) -> Cause | None:
    """The cause that a playbook in `ids` explains already: its fix held, or it is likely. None: a draft is of use."""
    cause = _cause(session)
    if cause is None or cause.id not in ids:
        return None
    return cause if held_fix(session) is not None or cause.confidence >= _IS_EXPLAINED else None


def _cause(session: Session) -> Cause | None:
    """The one whose fix held, else the likeliest."""
    fix = held_fix(session)
    of_fix = [one for one in session.causes if fix is not None and any(fix.id in h.fixes for h in one.hypotheses)]
    return (of_fix or [*session.causes] or [None])[0]  # type: ignore[list-item]


def held_fix(session: Session) -> FixOption | None:
    """The fix that was verified, else the one that is applied."""
    verified = [fix for fix in session.fixes if fix.outcome == "verified"]
    applied = [fix for fix in session.fixes if fix.id == session.applied_fix]
    return (applied or verified or [None])[0]  # type: ignore[list-item]


def _playbook(
    session: Session,
    name: str,
    family: str,
    cause: Cause | None,
    known: Library,
    today: date,
    lines: Iterable[str],
) -> Playbook:
    symptom = session.symptom
    assert symptom is not None
    seen = mask(" ".join(symptom.headline.split()))[:_LONGEST_SAMPLE]
    pattern = pattern_of(seen, (*_names(session), *addresses_in(seen)))
    wording = Wording(id="as-seen", log=pattern, certainty="possible")
    captured = CompiledWording(wording).captured
    sample = neutral(seen) if captured(neutral(seen)) is not None else seen
    source = known.specs.get(cause.id if cause else "")
    fixes, claims = fixes_and_claims(session, held_fix(session), captured(seen) or {}, source)
    return Playbook(
        playbook=name,
        title=source.title if source is not None else _title(symptom.headline),
        summary=f"Drafted from case {session.case or 'of an unkept session'}: say here in three lines what happens.",
        family=family,  # type: ignore[arg-type]
        kind=cause.kind if cause is not None and cause.kind else "configuration",  # type: ignore[arg-type]
        symptom=symptom.kind,
        layer=(cause.layer if cause is not None else None) or symptom.layer or "outside",  # type: ignore[arg-type]
        stage=symptom.stage or (cause.stage if cause is not None else None) or "config",  # type: ignore[arg-type]
        symptoms=Symptoms(any=[wording]),
        samples=Samples(match=[Match(line=sample, facts=captured(sample) or {})], no_match=_no_match(wording, lines)),
        hypotheses=claims,
        fixes=fixes,
        general=True,
        tested=_tested(session, fixes, today),
    )


def _names(session: Session) -> tuple[str, ...]:
    """What belongs to this deployment alone."""
    return tuple(word for launch in session.deployment.models for word in (launch.model, launch.name))


def _title(headline: str) -> str:
    """The error's first sentence, without what it says in brackets."""
    whole = neutral(message_of(mask(headline)))
    text = re.split(r"[.;:,]? (?:\(|(?<=[.;] ))", whole, maxsplit=1)[0].strip() or whole
    if len(text) <= _LONGEST_TITLE:
        return text
    return text[: _LONGEST_TITLE - 2].rpartition(" ")[0] + " …"


def _no_match(wording: Wording, lines: Iterable[str]) -> list[NoMatch]:
    """Real sentences of the same log, none of them the console's, and the message that covers every failure."""
    compiled = CompiledWording(wording)
    found = [NoMatch(line=_COVER)] if compiled.captured(_COVER) is None else []
    for line in lines:
        text = neutral(mask(" ".join(line.split())))[:_LONGEST_SAMPLE]
        if len(found) > _MOST_OTHER_LINES:
            break
        if (
            text
            and PROBE_LOGGER not in text
            and text not in {one.line for one in found}
            and compiled.captured(text) is None
        ):
            found.append(NoMatch(line=text))
    return found or [NoMatch(line=_FINE)]


def _tested(session: Session, fixes: Sequence[Fix], today: date) -> list[Tested]:
    """What the case itself has proved."""
    if session.verdict != "verified":
        return []
    facts = session.facts
    version, device = (
        str(fact.value) if isinstance(fact := facts.get(name), Known) else "unknown"
        for name in ("engine.vllm_version", "engine.device")
    )
    return [Tested(vllm=version, device=device, date=today.isoformat(), fix=fixes[0].id, outcome="verified")]


def _text(spec: Playbook, session: Session) -> str:
    head = [
        f"# Drafted from case {session.case}. It is valid as it stands; read each part before you rely on it:",
        "# - `general: true`: it speaks only where no other playbook explains. Without it, it rivals all the others.",
        "# - `certainty: possible`: it is not very sure. Once you trust it, raise it to `likely` or `certain`.",
        "# - `log` has the words of this one error: leave out what another release may say otherwise.",
        "# - a claim needs what would refute it; a fix says what one loses by it.",
    ]
    return "\n".join([*head, *_yaml(msgspec.to_builtins(spec), 0)]) + "\n"


def _yaml(value: Any, indent: int) -> list[str]:
    """Mappings and lists in block form; a list or mapping of plain values on one line where it is short."""
    pad = " " * indent
    rows: list[str] = []
    for key, one in value.items():
        if key == "applies_to" and not one:
            continue
        if isinstance(one, list) and one and isinstance(one[0], dict):
            rows.append(f"{pad}{key}:")
            for item in one:
                first, *rest = _yaml(item, indent + 4)
                rows += [f"{pad}  - {first.strip()}", *rest]
        elif isinstance(one, dict) and any(isinstance(inner, (dict, list)) for inner in one.values()):
            rows += [f"{pad}{key}:", *_yaml(one, indent + 2)]
        elif isinstance(one, dict):
            inner = ", ".join(f"{rendered(name)}: {rendered(what)}" for name, what in one.items())
            rows.append(f"{pad}{key}: {{{inner}}}")
        else:
            rows.append(f"{pad}{key}: {rendered(one)}")
    return rows
