"""One playbook as text: what it knows, how it would be refuted, what it changes, and where it was proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playbooks.diagnosis_report import change_in_words
from playbooks.filling import in_words as filled
from playbooks.hypotheses import in_words as experiment_in_words
from playbooks.report import in_words
from playbooks.wording import label_of
from tui.themes.palette import layer_style
from tui.widgets.clean_text import clean
from tui.widgets.words import cell, part, wrapped

if TYPE_CHECKING:
    from textual.content import Content

    from playbooks.library import Loaded
    from playbooks.schema import Fix, HypothesisSpec

_LABEL = 12


def playbook_rows(one: Loaded, width: int) -> list[Content]:
    spec = one.spec
    rows = wrapped(spec.title, width, style="bold")
    rows.append(part(f"family {spec.family} · kind {spec.kind} · {spec.symptom.replace('-', ' ')}", "$quiet"))
    rows.append(
        part(f"stage {in_words(spec.stage)} · ", "$quiet")
        + part(f"{in_words(spec.layer)} layer", layer_style(spec.layer))
    )
    rows += [part(""), *wrapped(" ".join(spec.summary.split()), width), part(""), part("Seen in a log as", "bold")]
    for sample in spec.samples.match[:3]:
        rows += wrapped(clean(" ".join(sample.line.split())), width, 2, "$quiet", most=3)
    rows += [part(""), part("Hypotheses", "bold")]
    for claim in spec.hypotheses:
        rows += _claim_rows(claim, width)
    rows += [part(""), part("Fixes, by priority", "bold")]
    for fix in spec.fixes:
        rows += _fix_rows(fix, width)
    if spec.tested:
        rows += [part(""), part("Proved on a real engine", "bold")]
        rows += [part(f"  vLLM {t.vllm}, {t.device}, {t.date}: {t.fix} {t.outcome}") for t in spec.tested]
    rows += [
        part(""),
        *(row for ref in spec.references for row in wrapped(f"{ref.title}: {ref.url}", width, 0, "$quiet")),
    ]
    rows += wrapped(f"{one.id}, {one.path}", width, 0, "$quiet")
    return rows


def _claim_rows(claim: HypothesisSpec, width: int) -> list[Content]:
    rows = wrapped(claim.claim, width, 2)
    words = f"{experiment_in_words(claim.experiment)} (cost: {claim.experiment.cost})"
    return rows + wrapped(clean(words), width, 4, "$quiet")


def _fix_rows(fix: Fix, width: int) -> list[Content]:
    rows = wrapped(clean(change_in_words(fix)), width, 2, "$accent")
    for label, text in (("why", fix.why), ("you lose", fix.you_lose), ("risk", fix.risk), ("id", fix.id)):
        folded = wrapped(clean(filled(" ".join(text.split()), label_of)), width, _LABEL + 4, "$quiet")
        rows += [part("    " + cell(label, _LABEL), "$quiet") + part(folded[0].plain.strip()), *folded[1:]]
    return rows
