"""What all tests share: settings and state of their own, and the real engine for those marked `engine`."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from playbooks.lab.choosing import new_seed
from tests.fake_gpus import LIBRARY, FakeDriver, build_library, compiler

if TYPE_CHECKING:
    from pathlib import Path

    from engine_probe.engine import Engine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all-faults", action="store_true", help="every fault of the lab, not a third")
    parser.addoption("--lab-seed", type=int, default=new_seed(), help="chooses the tenth that runs cold")


def pytest_report_header(config: pytest.Config) -> list[str]:
    seed = config.getoption("--lab-seed")
    return [f"a tenth of the faults runs cold: --lab-seed={seed}"] if config.getoption("--all-faults") else []


_LONGEST_ID = 60


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A hostile file of 100,000 brackets is no name for a test: it floods whatever lists them."""
    if isinstance(val, (str, bytes)) and len(val) > _LONGEST_ID:
        shown = val.decode("latin-1") if isinstance(val, bytes) else val
        return f"{argname} {shown[: _LONGEST_ID // 2]}… {len(val)}".encode("ascii", "backslashreplace").decode()
    return None


def pytest_configure() -> None:
    """A shell's background job, and nohup, ignore signals; what tests start would inherit that and never end."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the settings and cases of the person who runs it; the cached engine stays usable."""
    home = tmp_path_factory.mktemp("xdg")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine that `vllm-console` would choose. Absent is a failure, not a skip: half the tests mean nothing."""
    from engine_probe.engine import EngineError
    from engine_probe.engines import choose_engine

    try:
        return choose_engine()
    except EngineError as error:
        pytest.fail(f"{error}\n`make test` installs what the tests need.", pytrace=False)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the test's own: no engine is installed there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stand-in as libnvidia-ml.so.1."""
    if compiler() is None:
        pytest.skip("no C compiler (cc, or the package ziglang) to build the stand-in driver library with")
    return build_library(tmp_path_factory.mktemp("nvml")).parent


@pytest.fixture
def fake_driver(nvml_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """The stand-in with a state of the test's own; nvidia-ml-py of this process and of children finds it."""
    driver = FakeDriver(nvml_folder / LIBRARY, tmp_path)
    driver.load_here(monkeypatch)
    return driver
