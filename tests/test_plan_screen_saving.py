"""A plan that is saved: asked first, each change a revision, taken back byte by byte; proposals tried and saved."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from engine_probe.deployment import read_deployment
from tests.plan_samples import SIX, TWO, console, plan_of, row_of, write_plan
from tests.test_monitor_screen import drawn, text_of
from tests.test_tui_console import keys_of
from tests.tui_samples import until
from tui import plan_proposed
from tui.plan_whatif import with_gpus
from tui.screens.dialogs import AskText, Confirm
from tui.widgets.plan_advice import Proposed
from tui.widgets.words import Words


def files_beside(path):
    return sorted(one.name for one in path.parent.iterdir() if one.is_file())


async def confirmed(pilot):
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, Confirm))
    return app.screen.query_one("#about", Words).shown.plain


async def test_saving_asks_and_undo_gives_every_byte_back(tmp_path):
    path = write_plan(tmp_path)
    before = path.read_bytes()
    app = console(path)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await plan_of(pilot)
        await pilot.press("minus", "l", "minus", "enter")
        about = await confirmed(pilot)
        assert "+  args.gpu-memory-utilization: 0.89" in about
        assert "-  args.max-model-len: 4096" in about
        assert "+  args.max-model-len: 3072" in about
        assert "With this: does not fit: code-8b on GPU 0." in about
        assert "deployment.yaml.r1" in about
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        assert path.read_bytes() == before
        await pilot.press("w")
        await confirmed(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "Saved: " in keys_of(app))
        text = path.read_text(encoding="utf-8")
        assert "max_model_len: 3072" in text
        assert "# half of the host" in text
        assert "# nobody said where" in text
        assert files_beside(path) == ["deployment.yaml", "deployment.yaml.r1"]
        assert "*" not in row_of(app, "2 code-8b")
        assert drawn(app)[1].endswith("saved")
        await pilot.press("u", "minus", "z")
        assert path.read_text(encoding="utf-8") == text
        await pilot.press("z")
        await until(pilot, lambda: "As it was before: " in keys_of(app))
        assert path.read_bytes() == before
        assert files_beside(path) == ["deployment.yaml"]
        assert "0.90 " in row_of(app, "2 code-8b")


async def test_what_was_saved_can_be_taken_back_after_reading_again(tmp_path):
    path = write_plan(tmp_path)
    before = path.read_bytes()
    app = console(path)
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        await pilot.press("minus", "enter")
        await confirmed(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "Saved: " in keys_of(app))
        await pilot.press("R")
        await plan_of(pilot)
        await pilot.press("z")
        await until(pilot, lambda: "As it was before: " in keys_of(app))
        assert path.read_bytes() == before


async def test_a_file_that_changed_meanwhile_is_not_written_to(tmp_path):
    path = write_plan(tmp_path)
    app = console(path)
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        await pilot.press("minus")
        path.write_text(TWO + "# mine\n", encoding="utf-8")
        await pilot.press("enter")
        await confirmed(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "has changed on disk since it was read" in keys_of(app))
        assert path.read_text(encoding="utf-8") == TWO + "# mine\n"
        assert files_beside(path) == ["deployment.yaml"]
        assert "0.89*" in row_of(app, "2 code-8b")


async def test_the_order_is_saved_too(tmp_path):
    path = write_plan(tmp_path, SIX)
    app = console(path)
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        await pilot.press("O", "O", "enter")
        assert "deployment.order" in await confirmed(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "Saved: " in keys_of(app))
        names = [model.name for model in read_deployment(path).models]
        assert names == ["chat-70b", "code-8b", "lite-moe", "tiny-too", "tiny", "vision-27b"]


COMPOSE = """\
services:
  chat:
    image: vllm/vllm-openai:v0.19.0
    command: --model {folder}/llama-8b --max-model-len 4096
"""


async def test_what_came_from_a_compose_file_is_saved_as_a_new_file(tmp_path):
    write_plan(tmp_path)
    path = tmp_path / "docker-compose.yml"
    path.write_text(COMPOSE.format(folder=tmp_path), encoding="utf-8")
    before = path.read_bytes()
    app = console(path)
    async with app.run_test(size=(120, 36)) as pilot:
        screen = await plan_of(pilot)
        assert "docker-compose.yml · vLLM 0.19.0" in drawn(app)[0]
        await pilot.press("minus", "enter")
        await until(pilot, lambda: isinstance(app.screen, AskText))
        app.screen.query_one(Input).value = str(tmp_path / "deployment.yaml")
        await pilot.press("enter")
        await until(pilot, lambda: "is there already" in text_of(app))
        app.screen.query_one(Input).value = str(tmp_path / "new.yaml")
        await pilot.press("enter")
        await until(pilot, lambda: "new.yaml" in drawn(app)[0])
        await until(pilot, lambda: screen.state is not None)
        (launch,) = read_deployment(tmp_path / "new.yaml").models
        assert launch.arg("gpu-memory-utilization") == 0.89
        assert path.read_bytes() == before


# Proposals


@pytest.fixture
def proposes(monkeypatch):
    """That code-8b goes to GPU 4."""

    def propose(plan):
        deployment = with_gpus(plan.deployment, "code-8b", (4,))
        return Proposed(deployment, (("code-8b: GPUs [4]", "GPU 0 is full; 79.2 GiB are free on GPU 4"),))

    monkeypatch.setattr(plan_proposed, "proposed_for", propose)


async def test_a_proposal_is_shown_with_its_reasons_tried_and_taken_back(tmp_path, proposes):
    app = console(write_plan(tmp_path))
    async with app.run_test(size=(120, 36)) as pilot:
        await plan_of(pilot)
        await until(pilot, lambda: "one change and all fit" in text_of(app))
        await until(pilot, lambda: "79.2 GiB are free on GPU 4" in text_of(app))
        await pilot.press("p")
        assert drawn(app)[0].endswith("all fit")
        assert " 4* " in row_of(app, "2 code-8b")
        assert "none needed" in text_of(app)
        await pilot.press("z")
        assert "does not fit" in drawn(app)[0]


async def test_enter_saves_what_is_proposed_where_nothing_is_tried(tmp_path, proposes):
    path = write_plan(tmp_path)
    before = path.read_bytes()
    app = console(path)
    async with app.run_test(size=(80, 24)) as pilot:
        await plan_of(pilot)
        await until(pilot, lambda: "one change and all fit" in text_of(app))
        await pilot.press("enter")
        about = await confirmed(pilot)
        assert "+  gpus: [4]" in about
        assert "With this: all fit." in about
        assert "GPU 0 is full" in about
        await pilot.press("enter")
        await until(pilot, lambda: "Saved: " in keys_of(app))
        assert read_deployment(path).models[1].gpus == (4,)
        await pilot.press("z")
        await until(pilot, lambda: "As it was before: " in keys_of(app))
        assert path.read_bytes() == before
