"""Which packages an engine has, and which of vLLM's own requirements they do not meet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from engine_probe.engine import local_engine
from engine_probe.engine_packages import Packages, Unmet, read_packages
from engine_probe.facts import Known, Unknown
from engine_probe.hardware.watch import look_once
from playbooks.evidence import Evidence, package_facts
from playbooks.evidence_host import HostState, host_facts
from playbooks.monitor_json import as_object

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = local_engine(sys.executable, "the test")


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vLLM's metadata that this Python finds."""
    folder = tmp_path / "vllm-0.11.2.dist-info"
    folder.mkdir()
    wants = ("pytest>=3", "msgspec<0.0.1", "no-such-package>=1", 'colorama>=999; sys_platform == "win32"')
    lines = ["Metadata-Version: 2.1", "Name: vllm", "Version: 0.11.2", *(f"Requires-Dist: {one}" for one in wants)]
    (folder / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.usefixtures("vllm")
def test_what_does_not_meet_the_requirements_is_said_in_a_sentence() -> None:
    found = read_packages(ENGINE)
    assert found.versions["vllm"] == "0.11.2"
    assert found.unmet is not None
    texts = [one.text for one in found.unmet]
    assert [one.name for one in found.unmet] == ["msgspec", "no-such-package"]
    assert texts[0].endswith("is installed, and vLLM wants msgspec<0.0.1")
    assert texts[1] == "no-such-package is not installed, and vLLM wants no-such-package>=1"


def test_without_vllm_nothing_is_known_of_its_requirements() -> None:
    assert read_packages(ENGINE).unmet is None


def test_an_engine_that_says_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="did not say which packages it has"):
        read_packages(local_engine("/bin/echo", "the test"))


def test_packages_are_facts_and_what_is_unmet_is_a_note() -> None:
    packages = Packages({"torch": "2.8.0"}, (Unmet("transformers", ">=4.55", "4.40.0"),))
    facts = package_facts(packages)
    assert facts["packages.torch"] == Known("2.8.0", "measured", "the engine's packages")
    assert facts["packages_unmet.count"] == Known(1, "measured", "the engine's packages")
    assert isinstance(package_facts(None)["packages_unmet.count"], Unknown)
    (note,) = Evidence(packages=packages).notes(None, None, None)
    assert note == "transformers 4.40.0 is installed, and vLLM wants transformers>=4.55"


def test_this_host_is_told_as_a_saved_state_is() -> None:
    state = as_object(look_once(), ())
    facts = host_facts(HostState(state, "this host, now"), None)
    assert facts["host.total_gib"] == Known(state["host"]["ram_total_gib"], "measured", "this host, now")
    assert facts["gpu.count"] == Known(len(state["gpus"]), "measured", "this host, now")
