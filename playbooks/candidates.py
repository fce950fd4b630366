"""Which playbooks a failed load speaks for, and how much: wordings against sayings, with everything that narrows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from playbooks.conditions import evaluate, parse
from playbooks.patterns import Text
from playbooks.ranking import order_of_check, weight, worth
from playbooks.releases import release_fits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from engine_probe.facts import Value
    from playbooks.conditions import Lookup
    from playbooks.library import Loaded
    from playbooks.patterns import CompiledWording
    from playbooks.sayings import Saying
    from playbooks.schema import Wording

_AT_END = 3
"""Sayings from the end that an `at_end` wording looks at."""


class Seen(NamedTuple):
    """One wording in one saying. `unknown`: facts that its conditions want and that nobody knows."""

    saying: Saying
    wording: str
    facts: Mapping[str, Value]
    weight: float
    unknown: tuple[str, ...] = ()
    narrowness: int = 0
    """How many of the things that narrow the wording hold: between rivals of one weight the narrower one is right."""


class Candidate(NamedTuple):
    """A playbook that was seen, strongest first in `seen`."""

    playbook: Loaded
    seen: tuple[Seen, ...]

    @property
    def best(self) -> Seen:
        return self.seen[0]

    @property
    def facts(self) -> dict[str, Value]:
        """What the strongest one captured, and what others add."""
        merged: dict[str, Value] = {}
        for one in self.seen:
            for name, value in one.facts.items():
                merged.setdefault(name, value)
        return merged


class Heard(NamedTuple):
    """All that one load said. `hangs`: it neither failed nor served."""

    sayings: tuple[Saying, ...]
    version: str | None
    hangs: bool

    @property
    def complaints(self) -> tuple[Saying, ...]:
        return tuple(one for one in self.sayings if one.place != "quiet")


def candidates_of(
    library: Sequence[Loaded], heard: Heard, lookup_with: Callable[[Mapping[str, Value]], Lookup]
) -> list[Candidate]:
    """Every playbook that is seen, heaviest first, then in the order in which one would look, then of the log.

    `lookup_with` gives a look-up that also knows captured facts.
    """
    return _Search(heard, lookup_with).candidates(library)


def _order(one: Candidate) -> tuple[float, int, int, int]:
    """The heaviest, the narrower, what is looked at first, the first in the log."""
    spec, best = one.playbook.spec, one.best
    return -best.weight, -best.narrowness, order_of_check(spec.family, spec.stage), best.saying.line


class _Search:
    def __init__(self, heard: Heard, lookup_with: Callable[[Mapping[str, Value]], Lookup]) -> None:
        self._heard = heard
        self._lookup_with = lookup_with
        self._complaints = heard.complaints
        self._loud = "\n".join(one.plain for one in self._complaints)
        self._all = "\n".join(one.plain for one in heard.sayings)

    def candidates(self, library: Sequence[Loaded]) -> list[Candidate]:
        found = self._found(one for one in library if not one.is_general)
        if not any(map(_explains, found)):
            found += self._found(one for one in library if one.is_general)
        return sorted(found, key=_order)

    def _found(self, playbooks: Iterable[Loaded]) -> list[Candidate]:
        return [candidate for one in playbooks if (candidate := self._candidate(one)) is not None]

    def _candidate(self, playbook: Loaded) -> Candidate | None:
        if not playbook.may_match(self._loud, self._all):
            return None
        hit = [wording for wording in playbook.wordings if wording.may_match(self._text_for(wording))]
        seen = [one for wording in hit for one in self._seen(wording, playbook)]
        if not seen or self._is_another(playbook):
            return None
        return Candidate(playbook, tuple(sorted(seen, key=lambda one: (-one.weight, -one.narrowness, one.saying.line))))

    def _text_for(self, wording: CompiledWording) -> str:
        return self._all if wording.spec.quiet or wording.spec.at_end else self._loud

    def _is_another(self, playbook: Loaded) -> bool:
        return any(
            other.may_match(self._loud) and any(other.search(one.text) for one in self._complaints)
            for other in playbook.unless
        )

    def _seen(self, wording: CompiledWording, playbook: Loaded) -> Iterator[Seen]:
        spec = wording.spec
        if spec.at_end and not self._heard.hangs:
            return
        sayings = self._heard.sayings if spec.quiet or spec.at_end else self._complaints
        for saying in sayings[-_AT_END:] if spec.at_end else sayings:
            if (saying.is_cover and not spec.cover) or not wording.may_match(saying.plain):
                continue
            # Both are asked before the pattern, which may be long, is compiled.
            if not _fits_stage(spec, saying) or not _fits_frames(wording, saying):
                continue
            facts = wording.captured(saying.text)
            if facts is not None and self._fits(wording):
                one = self._weighed(wording, playbook, saying, facts)
                if one is not None:
                    yield one

    def _fits(self, wording: CompiledWording) -> bool:
        spec = wording.spec
        if spec.along_with and not self._is_said(spec.along_with):
            return False
        return not (spec.absent and self._is_said(spec.absent))

    def _is_said(self, pattern: str) -> bool:
        text = Text(pattern)
        return text.may_match(self._all) and any(text.search(one.text) for one in self._heard.sayings)

    def _weighed(
        self, wording: CompiledWording, playbook: Loaded, saying: Saying, facts: Mapping[str, Value]
    ) -> Seen | None:
        spec = wording.spec
        lookup = self._lookup_with(facts)
        results = [evaluate(parse(text), lookup) for text in spec.when]
        if any(result.holds is False for result in results):
            return None
        conditions = [parse(result.condition) for result in results if result.holds is None]
        version = self._heard.version
        ranges = [one for one in (spec.vllm, playbook.vllm_range) if one]
        found = weight(
            worth(spec.certainty, spec.if_unknown, len(conditions)),
            saying.place,
            is_quiet=spec.quiet or spec.at_end,
            fits_release=version is None or all(release_fits(version, one) for one in ranges),
        )
        unknown = tuple(name for condition in conditions for name in condition.facts())
        narrow = sum(result.holds is True for result in results) + bool(spec.frames) + bool(spec.along_with)
        narrow += bool(spec.stages and saying.stage is not None)
        return Seen(saying, spec.id, facts, found, unknown, narrow)


def _explains(one: Candidate) -> bool:
    """It was seen in more than a warning: general playbooks, which know only that vLLM refused, have nothing to add."""
    return one.best.saying.place not in ("warning", "quiet")


def _fits_stage(spec: Wording, saying: Saying) -> bool:
    return not spec.stages or saying.stage is None or saying.stage in spec.stages


def _fits_frames(wording: CompiledWording, saying: Saying) -> bool:
    frames = wording.frames
    return frames is None or (frames.may_match(saying.plain_frames) and bool(frames.search(saying.frames_text)))
