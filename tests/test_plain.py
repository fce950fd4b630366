"""What a session is made of can be kept on disk and comes back as it was."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from engine_probe.events import Failed, Ready
from engine_probe.facts import Known, Unknown
from engine_probe.launch import Deployment, EngineSpec, Launch
from playbooks import decisions, effects
from playbooks.plain import UnreadableError, _kinds, from_plain, to_plain
from playbooks.progress import Progress, Watched
from playbooks.session import Check, Outcome, Session, Step

# Words of annotations that are no class of ours: containers, literals, and what is kept in a way of its own.
_OTHERS = frozenset(
    {"Any", "Callable", "Mapping", "None", "Path", "Sequence", "Literal", "Phase", "Value", "ArgValue", "Lookup"}
    | {"Effect", "Event", "Fact", "Failed", "Ready", "Loaded", "Source", "Outcome", "SymptomKind"}
    | {"Attempt", "Interval", "Raised", "Record"}
)


def back(value: Any) -> Any:
    return from_plain(json.loads(json.dumps(to_plain(value))), lambda _: None)


def session() -> Session:
    launch = Launch(
        "tiny",
        "/models/tiny",
        args={"max-model-len": 4096, "enforce-eager": True, "lora-modules": ("a=b", "c=d")},
        env={"X": "1"},
        gpus=(0, 1),
        engine=EngineSpec(container="vllm"),
        lora={"a": "/a"},
    )
    deployment = Deployment((launch,), path=Path("/x/deployment.yaml"), digest="ab" * 32, start="parallel")
    ready = Ready("tiny", seconds=1.5, served_models=["tiny"], max_model_len=8, port=1)
    failed = Failed("tiny", reason="it ended", exceptions=[{"type": "E", "message": "m", "frames": [{"line": 1}]}])
    facts = {"a.b": Known(1.5, "parsed", "load-1.log:3"), "c": Unknown("nobody said")}
    progress = Progress(
        phase="deciding",
        ready=ready,
        failure=failed,
        aside={"other": Watched(facts=facts, ready=ready)},
        captured={"cause": facts},
        before=deployment,
    )
    checks = (Check("loads", "the model loads", "ready", outcome=Outcome.PASS),)
    return Session(
        "c", deployment, "tiny", "warm", "cold", step=Step.VERIFY, facts=facts, checks=checks, progress=progress
    )


def test_a_session_comes_back_as_it_was() -> None:
    one = session()
    assert back(one) == one
    assert back(one).deployment.digest == "ab" * 32


def test_all_that_a_session_is_fed_has_a_class_that_is_known() -> None:
    """A new kind of value must be found again in a case on disk."""
    fed = (*get_args(effects.Done), *get_args(effects.Effect), *get_args(decisions.Decision), Session)
    seen: set[type] = set()
    todo: list[type] = list(fed)
    while todo:
        kind = todo.pop()
        if kind in seen:
            continue
        seen.add(kind)
        assert _kinds().get(kind.__name__) is kind, kind
        for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
            for word in re.findall(r"\b[A-Z]\w+", re.sub(r"\"[^\"]*\"|'[^']*'", "", str(field.type))):
                assert word in _kinds() or word in _OTHERS, f"{kind.__name__}.{field.name}: {word}"
                if word in _kinds() and word not in _OTHERS:
                    todo.append(_kinds()[word])
    assert len(seen) > 25


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"$": "FlyingSaucer"}, "FlyingSaucer is nothing that this release knows"),
        ({"$": "Known", "colour": 1}, "Known: "),
        ({"$": "Step", "value": "fly"}, "Step: "),
    ],
)
def test_what_is_not_known_says_so(content: dict[str, Any], why: str) -> None:
    with pytest.raises(UnreadableError, match=why):
        from_plain(content, lambda _: None)
