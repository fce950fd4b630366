"""The page of all playbooks, from their files: what each knows and what it offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.diagnosis_report import change_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from playbooks.library import Loaded
    from playbooks.schema import Playbook

_HEAD = """\
# Playbooks

One file a root cause, in `playbooks/library/`. This page is made from them by `python docs/generate.py`.
`vllm-console playbooks show ID` shows one; `vllm-console playbooks new ID` begins one of your own.
"""


def playbook_page(library: Iterable[Loaded]) -> str:
    """By family, in the order of ids."""
    by_family: dict[str, list[Playbook]] = {}
    for one in library:
        by_family.setdefault(one.spec.family, []).append(one.spec)
    parts = [_HEAD]
    for family in sorted(by_family):
        parts += [f"\n## {family}\n"]
        parts += ["\n".join(_lines(spec)) for spec in sorted(by_family[family], key=lambda spec: spec.playbook)]
    return "\n".join(parts) + "\n"


def _lines(spec: Playbook) -> Iterator[str]:
    yield f"### {spec.playbook}"
    yield ""
    yield f"**{spec.title}** ({spec.kind}, {spec.layer} layer, {spec.stage}, {spec.symptom.replace('-', ' ')})"
    yield ""
    yield " ".join(spec.summary.split())
    yield ""
    for one in spec.hypotheses:
        yield f"- could it be: {one.claim} (cost: {one.experiment.cost})"
    for fix in spec.fixes:
        yield f"- fix `{fix.id}`: {change_in_words(fix)}"
    yield ""
