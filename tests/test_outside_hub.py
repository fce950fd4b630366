"""A file from the hub, by the engine's own huggingface_hub: into its place, or one clear error and nothing changed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_probe.engine import Engine, local_engine, ssh_engine
from engine_probe.errors import InputError
from engine_probe.launch import Deployment, Launch
from engine_probe.outside.model_folder import cached_snapshot
from engine_probe.outside.work import Work
from playbooks.effects import WriteRevision
from playbooks.outside_changes import make, take_back
from tests.outside_samples import WEIGHTS, models, names, state
from tests.venvs import make_venv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playbooks.outside_changes import Made

# Stands for huggingface_hub: the hub is a folder, and what it was asked is written down.
HUB = """
import json, os, shutil
def hf_hub_download(repo_id, filename, revision, local_dir):
    hub = os.environ["TEST_HUB"]
    with open(os.path.join(hub, "asked.json"), "w") as file:
        json.dump([repo_id, filename, revision, os.environ.get("HF_ENDPOINT")], file)
    if os.path.exists(os.path.join(hub, "down")):
        raise OSError("We couldn't connect to 'https://huggingface.co' to load the files: Connection refused")
    os.makedirs(os.path.join(local_dir, ".cache"), exist_ok=True)
    return shutil.copy(os.path.join(hub, filename), os.path.join(local_dir, filename))
"""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Engine]:
    """The hub's folder, the damaged model, the engine."""
    whole, broken = models(tmp_path)
    stand_in = make_venv(tmp_path / "venv")
    stand_in.add_package("huggingface_hub", {"__init__.py": HUB})
    monkeypatch.setenv("TEST_HUB", str(whole))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return whole, broken, local_engine(stand_in.python, "a test")


def restore(broken: Path, engine: Engine | None, env: Mapping[str, str] | None = None) -> Made:
    launch = Launch("chat", str(broken), env=dict(env or {}))
    effect = WriteRevision(Deployment((launch,)), "chat", f"files.{WEIGHTS}", "hub:acme/chat@v1")
    return make(effect, engine, (), lambda _: None, Work())


def test_it_comes_from_the_hub_and_goes_back(places: tuple[Path, Path, Engine]) -> None:
    hub, broken, engine = places
    before, all_names = state(broken / WEIGHTS), names(broken)
    made = restore(broken, engine, {"HF_ENDPOINT": "https://mirror.example"})
    assert (broken / WEIGHTS).read_bytes() == (hub / WEIGHTS).read_bytes()
    asked = (hub / "asked.json").read_text("utf-8")
    assert asked == f'["acme/chat", "{WEIGHTS}", "v1", "https://mirror.example"]'
    assert made.told[0].startswith(f"{broken / WEIGHTS} is replaced by that of hub:acme/chat@v1")
    for one in made.changes:
        take_back(one)
    assert (state(broken / WEIGHTS), names(broken)) == (before, all_names)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("down", f"{WEIGHTS} of acme/chat cannot be fetched: the hub cannot be reached: OSError: We couldn't connect"),
        ("offline", f"{WEIGHTS} of acme/chat cannot be fetched: HF_HUB_OFFLINE is set"),
        ("damaged", "it was not put in place"),
        ("far", "runs elsewhere"),
        ("none", "this session has no engine"),
    ],
)
def test_what_cannot_be_fetched_changes_nothing(trouble: str, said: str, places: tuple[Path, Path, Engine]) -> None:
    hub, broken, engine = places
    before, all_names = state(broken / WEIGHTS), names(broken)
    if trouble == "down":
        (hub / "down").touch()
    elif trouble == "damaged":
        shutil.copy(broken / WEIGHTS, hub / WEIGHTS)
    asked = {"far": ssh_engine("gpu7", "a test"), "none": None}.get(trouble, engine)
    with pytest.raises(InputError, match=said):
        restore(broken, asked, {"HF_HUB_OFFLINE": "1"} if trouble == "offline" else None)
    assert (state(broken / WEIGHTS), names(broken)) == (before, all_names)


def test_stopped_while_it_is_fetched(places: tuple[Path, Path, Engine]) -> None:
    _, broken, engine = places
    all_names = names(broken)
    work = Work()
    work.stop()
    launch = Launch("chat", str(broken))
    effect = WriteRevision(Deployment((launch,)), "chat", f"files.{WEIGHTS}", "hub:acme/chat")
    with pytest.raises(InputError, match="it was stopped"):
        make(effect, engine, (), lambda _: None, work)
    assert names(broken) == all_names


def test_a_model_that_is_no_folder_here(places: tuple[Path, Path, Engine]) -> None:
    _, _, engine = places
    with pytest.raises(InputError, match="acme/chat is no folder of this host"):
        restore(Path("acme/chat"), engine)


def cached(tmp_path: Path, broken: Path) -> Path:
    """The damaged model as the hub's cache holds it: links into blobs. Its snapshot."""
    repo = tmp_path / "hub" / "models--acme--chat"
    snapshot = repo / "snapshots" / "abc123"
    snapshot.parent.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("abc123")
    shutil.copytree(broken, snapshot)
    (repo / "blobs").mkdir()
    for one in list(snapshot.iterdir()):
        one.rename(repo / "blobs" / one.name)
        one.symlink_to(Path("../../blobs") / one.name)
    return snapshot


def test_a_model_in_the_cache_is_found_by_its_name(
    places: tuple[Path, Path, Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken, engine = places
    snapshot = cached(tmp_path, broken)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    launch = Launch("chat", "acme/chat")
    assert cached_snapshot(launch, {"HF_HUB_CACHE": str(tmp_path / "hub")}) == snapshot
    assert cached_snapshot(launch, {"HF_HOME": str(tmp_path)}) == snapshot
    assert cached_snapshot(launch.with_arg("revision", "abc123"), {"HF_HOME": str(tmp_path)}) == snapshot
    assert cached_snapshot(launch.with_arg("revision", "v2"), {"HF_HOME": str(tmp_path)}) is None
    assert cached_snapshot(launch, {"HF_HOME": str(tmp_path / "none")}) is None
    blob = tmp_path / "hub" / "models--acme--chat" / "blobs" / WEIGHTS
    before, link = state(blob), state(snapshot / WEIGHTS)
    effect = WriteRevision(Deployment((launch,)), "chat", f"files.{WEIGHTS}", str(whole))
    made = make(effect, engine, (), lambda _: None, Work())
    assert state(blob) == before
    assert (snapshot / WEIGHTS).read_bytes() == (whole / WEIGHTS).read_bytes()
    take_back(made.changes[0])
    assert (state(blob), state(snapshot / WEIGHTS)) == (before, link)
