"""`kill -9` before and after each thing that a session writes: the file is as it was or proved; the case goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from engine_probe import revisions
from engine_probe.deployment import read_deployment
from engine_probe.engine import local_engine
from playbooks import unverified
from playbooks.case import CaseFolder
from playbooks.fingerprints import fingerprints, keep_fingerprints
from playbooks.recorded import past_case
from playbooks.replay import drive
from playbooks.resuming import resumable, unfinished
from playbooks.unattended import Unattended
from tests.kept_case_samples import DEPLOYMENT, SHORTER, keep_case, kv_context, kv_deployment
from tests.recorded_probe import RecordedProbe, recorded_loads

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine_probe.launch import Launch
    from playbooks.context import Context
    from playbooks.session import Session

ENGINE = local_engine("/opt/vllm/bin/python", "the test")


class Ruled(RecordedProbe):
    """A shorter context helps nothing; a larger pool does."""

    async def load(self, launch: Launch, grade: str) -> None:
        bad, good = recorded_loads()
        self._loads = [bad if launch.args["kv-cache-memory-bytes"] == 96 * 2**20 else good]
        await super().load(launch, grade)


class Killer:
    """Counts what is written, and kills this process before or after the one that is wanted."""

    def __init__(self, at: int) -> None:
        self.count = 0
        self._at = at

    def around(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def killing(*given: Any, **named: Any) -> Any:
            self._tick()
            done = write(*given, **named)
            self._tick()
            return done

        return killing

    def _tick(self) -> None:
        self.count += 1
        if self.count == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(revisions, "_write", self.around(revisions._write))
        monkeypatch.setattr(unverified, "_write", self.around(unverified._write))
        monkeypatch.setattr(Path, "unlink", self.around(Path.unlink))
        append = self.around(CaseFolder.append_event)

        def append_some(case: CaseFolder, line: str, *, is_sure: bool) -> None:
            """Events of a load are all alike here: decisions and results are what counts."""
            (append if is_sure else CASE_APPEND)(case, line, is_sure=is_sure)

        monkeypatch.setattr(CaseFolder, "append_event", append_some)


CASE_APPEND = CaseFolder.append_event


def writes_of_a_whole_case(folder: Path, context: Context) -> int:
    killer = Killer(0)
    with pytest.MonkeyPatch.context() as patched:
        killer.watch(patched)
        _, session = asyncio.run(
            keep_case(kv_deployment(folder / "here"), folder, Ruled(), Unattended(), context=context)
        )
    assert session.verdict == "verified"
    return killer.count


def killed_at(number: int, file: Path, state: Path, context: Context) -> None:
    """In a process of its own, which shares nothing that is written to memory."""
    child = os.fork()
    if child == 0:
        _be_killed(number, file, state, context)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def _be_killed(number: int, file: Path, state: Path, context: Context) -> NoReturn:
    try:
        Killer(number).watch(pytest.MonkeyPatch())
        asyncio.run(keep_case(file, state, Ruled(), Unattended(), context=context))
    finally:
        os._exit(1)


async def go_on(file: Path, state: Path, context: Context) -> tuple[Session, Ruled]:
    """As a front end begins a case."""
    probe, deployment = Ruled(), read_deployment(file)
    found = resumable(state, deployment, fingerprints(deployment, ENGINE), context)
    if found is None or found.session is None:
        _, session = await keep_case(file, state, probe, Unattended(), context=context)
        return session, probe
    driving = drive(found.session, probe, Unattended(), lambda *_: None, context=context, case=found.case)
    return await asyncio.wait_for(driving, 30), probe


def test_whatever_it_was_writing(tmp_path: Path) -> None:
    context = kv_context()
    count = writes_of_a_whole_case(tmp_path / "whole", context)
    assert count > 40
    outcomes: dict[str, int] = {}
    for number in range(1, count + 1, 3):
        state = tmp_path / str(number)
        file = kv_deployment(state / "here")
        prints = fingerprints(read_deployment(file), ENGINE)
        killed_at(number, file, state, context)
        for case in (state / "cases").iterdir():
            keep_fingerprints(case, prints)
        unverified.take_back(state, file)
        is_proved = file.read_text("utf-8") != DEPLOYMENT
        names = {path.name for path in file.parent.iterdir()}
        assert names == {"deployment.yaml", "tiny-llama", *(["deployment.yaml.r1"] if is_proved else [])}, number
        is_over = unfinished(state, file) is None
        was = past_case(max((state / "cases").iterdir()), context).session
        tried = [one.outcome for one in was.fixes if one.id == SHORTER] if was is not None else []
        session, probe = asyncio.run(go_on(file, state, context))
        assert session.verdict in (("verified", "healthy") if is_proved else ("verified",)), number
        assert file.with_name("deployment.yaml.r1").read_text("utf-8") == DEPLOYMENT
        if not is_over and tried == ["did not hold"]:
            assert len(probe.launches) <= 1, number
        outcomes["proved" if is_proved else "taken back"] = outcomes.get("proved" if is_proved else "taken back", 0) + 1
        assert unfinished(state, file) is None, number
    assert outcomes.keys() == {"proved", "taken back"}
