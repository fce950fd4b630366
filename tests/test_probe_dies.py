"""The probe is killed at each thing that is asked of it: the case ends, and the file is as it was or proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_probe.events import Ended, Failed, Trouble
from playbooks.decisions import Finish, Undo
from playbooks.unattended import Unattended
from tests.kept_case_samples import context_of, keep_case
from tests.stand_in.ruled_probe import RuledProbe
from tests.test_fix_steps import DEPLOYMENT, one_card, smaller_never_loads
from tests.test_resuming_steps import CAUSE, put_back

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from engine_probe.launch import Launch
    from engine_probe.requests import Request
    from playbooks.context import Context
    from playbooks.decisions import Decision
    from playbooks.session import Session


class Dying(RuledProbe):
    """Dies instead of doing what is asked of it for the `at`th time, and says so as a supervisor does."""

    def __init__(self, rule: Callable[[Launch, Mapping[str, Launch]], str | None], at: int) -> None:
        super().__init__(rule)
        self.count = 0
        self._at = at

    def _dies(self, model: str) -> bool:
        self.count += 1
        if self.count == self._at:
            why = "the probe's process ended with code -9"
            self._tell(Trouble(text=why, fatal=True))
            for name in {*self.up, model}:
                self._tell(Failed(name, reason=why))
                self._tell(Ended(name))
            self.up.clear()
        return self._at and self.count >= self._at

    async def load(self, launch: Launch, grade: str) -> None:
        if not self._dies(launch.name):
            await super().load(launch, grade)

    async def request(self, model: str, request: Request) -> None:
        if not self._dies(model):
            await super().request(model, request)

    async def stop(self, model: str, reason: str | None = None) -> None:
        if not self._dies(model):
            await super().stop(model, reason)


@pytest.fixture(scope="module")
def context() -> Context:
    return context_of(CAUSE)


class Undoes(Unattended):
    """A person who takes the proved fix back while its models still serve."""

    def decide(self, session: Session) -> Decision | None:
        if session.verdict == "verified" and session.progress.phase == "deciding":
            return Undo()
        is_undone = any("was undone as asked" in note for note in session.notes)
        return Finish() if is_undone and session.progress.phase == "deciding" else super().decide(session)


@pytest.mark.parametrize(
    ("rule", "policy"),
    [(one_card, Unattended), (smaller_never_loads, Unattended), (one_card, Undoes)],
    ids=["it holds", "it does not hold", "it is undone"],
)
async def test_at_each_thing_that_is_asked_of_it(
    rule: Callable[[Launch, Mapping[str, Launch]], str | None],
    policy: type[Unattended],
    tmp_path: Path,
    context: Context,
) -> None:
    file = tmp_path / "deployment.yaml"
    put_back(file)
    whole = Dying(rule, 0)
    _, session = await keep_case(file, tmp_path / "whole", whole, policy(thorough=True), context=context)
    asked = whole.count
    assert asked > 10
    verdicts = set()
    for at in range(1, asked + 1):
        put_back(file)
        case, session = await keep_case(
            file, tmp_path / str(at), Dying(rule, at), policy(thorough=True), context=context
        )
        verdicts.add(session.verdict)
        assert session.verdict in ("cannot run", "verified", "stopped"), at
        assert (file.read_text("utf-8") == DEPLOYMENT) == (session.applied_fix is None), (at, session.notes)
        undone = any('"decision:Undo"' in line for line in (case.path / "events.jsonl").read_text("utf-8").splitlines())
        assert not undone or file.read_text("utf-8") == DEPLOYMENT, at
        assert not (case.path / "unverified.json").exists(), at
    assert "cannot run" in verdicts
