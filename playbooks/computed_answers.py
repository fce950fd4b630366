"""Facts about answers that were found wrong: false as well where nobody asked, so that they can decide a wording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.facts import Known
from playbooks.computing import Computed

if TYPE_CHECKING:
    from playbooks.conditions import Answer, Lookup

_ORIGIN = "requests to the model"


def _is(lookup: Lookup, name: str, value: bool | str) -> bool:
    answer = lookup(name)
    return isinstance(answer, Known) and answer.value == value


def _not_finite(lookup: Lookup) -> Answer:
    return Known(_is(lookup, "answers.logprobs_finite", False), "computed", _ORIGIN)


def _no_template(lookup: Lookup) -> Answer:
    return Known(_is(lookup, "answers.no_chat_template", True), "computed", _ORIGIN)


def _no_effect(lookup: Lookup) -> Answer:
    is_it = _is(lookup, "adapter.changes_output", False) and not _is(lookup, "adapter.doubt", "shapes")
    return Known(is_it, "computed", _ORIGIN)


def _other_shapes(lookup: Lookup) -> Answer:
    return Known(_is(lookup, "adapter.doubt", "shapes"), "computed", "the adapter's files beside the model's")


COMPUTED: tuple[Computed, ...] = (
    Computed(
        "answers.found_not_finite",
        "NaN was found in an answer",
        "",
        "a request to the model found log probabilities that are no numbers",
        _not_finite,
    ),
    Computed(
        "answers.found_no_template",
        "a chat was refused for want of a template",
        "",
        "a chat with the model was refused because there is no chat template",
        _no_template,
    ),
    Computed(
        "adapter.found_no_effect",
        "adapter was found without effect",
        "",
        "a request with the adapter gave the same numbers as one without it",
        _no_effect,
    ),
    Computed(
        "adapter.found_other_shapes",
        "adapter was found to have other sizes",
        "",
        "a look at the adapter's files found matrices of another size than the model's",
        _other_shapes,
    ),
)
