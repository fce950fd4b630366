"""The tap inside vLLM's processes: every record is sent and still printed, and nothing that fails holds vLLM up."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe import events
from engine_probe.child import log_tap, stacks
from engine_probe.child.text_pipe import TextPipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.timeout(30)

CONFIGURE = """
import json, logging, logging.config, os, sys
logging.config.dictConfig(json.load(open(os.environ["VLLM_LOGGING_CONFIG_PATH"])))
log = logging.getLogger("vllm.v1.engine.core")
"""


class Tapped:
    """A Python whose `vllm` loggers are configured as a load's are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.channel.bind(str(folder / "records"))
        self.channel.setblocking(False)
        source = Path(log_tap.__file__).read_text("utf-8")
        (folder / f"{log_tap.MODULE_NAME}.py").write_text(source, "utf-8")
        (folder / "logging.json").write_text(json.dumps(log_tap.logging_config("INFO")))

    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.folder),
            "VLLM_LOGGING_CONFIG_PATH": str(self.folder / "logging.json"),
            log_tap.CHANNEL_VARIABLE: str(self.folder / "records"),
            log_tap.STACKS_VARIABLE: str(self.folder),
        }

    def run(self, code: str) -> tuple[str, list[dict[str, Any]]]:
        """(what it printed, the records that came)."""
        done = subprocess.run(
            [sys.executable, "-c", CONFIGURE + code], env=self.env(), capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout, list(self._records())

    def _records(self) -> Iterator[dict[str, Any]]:
        with contextlib.suppress(BlockingIOError):
            while True:
                yield json.loads(self.channel.recv(1 << 20))


@pytest.fixture
def tapped(tmp_path: Path) -> Iterator[Tapped]:
    tapped = Tapped(tmp_path)
    yield tapped
    tapped.channel.close()


def test_a_record_is_sent_and_printed(tapped: Tapped) -> None:
    printed, [record] = tapped.run("log.info('Using %s backend', 'FLASH_ATTN'); log.debug('not asked for')")
    assert printed.startswith("INFO ")
    assert printed.endswith("] Using FLASH_ATTN backend\n")
    assert (record["logger"], record["level"], record["message"]) == (
        "vllm.v1.engine.core",
        "INFO",
        "Using FLASH_ATTN backend",
    )
    assert "exception" not in record


def test_an_exception_is_sent_with_its_chain_innermost_first(tapped: Tapped) -> None:
    code = """
def inner(): raise ValueError("too small")
try:
    try: inner()
    except ValueError as error: raise RuntimeError("failed") from error
except RuntimeError: log.exception("EngineCore failed to start.")
"""
    _, [record] = tapped.run(code)
    assert [(one["type"], one["message"]) for one in record["exception"]] == [
        ("ValueError", "too small"),
        ("RuntimeError", "failed"),
    ]
    assert record["exception"][0]["frames"][-1]["function"] == "inner"


def test_a_context_that_was_suppressed_is_no_cause() -> None:
    try:
        try:
            raise KeyError("hidden")
        except KeyError:
            raise ValueError("shown") from None
    except ValueError as error:
        assert [one["type"] for one in log_tap.exception_chain(error)] == ["ValueError"]


def test_a_record_too_large_for_a_datagram_is_sent_short(tapped: Tapped) -> None:
    tapped.channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    _, [record] = tapped.run("log.info('\\U0001f600' * 60_000)")
    assert record["message"] == "\U0001f600" * 4_000


def test_a_forked_process_sends_on_its_own(tapped: Tapped) -> None:
    _, records = tapped.run(
        "log.info('parent')\npid = os.fork()\nlog.info('both')\nif pid: os.waitpid(pid, 0)\nelse: os._exit(0)"
    )
    assert len({record["pid"] for record in records}) == 2
    assert len(list(tapped.folder.glob("stacks-*"))) == 2


@contextlib.contextmanager
def running(code: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A Python that has printed its first line."""
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_a_hung_process_shows_its_stack_each_time_anew(tapped: Tapped) -> None:
    code = "import time\ndef stuck():\n print(flush=True)\n time.sleep(3600)\nstuck()"
    with running(CONFIGURE + code, tapped.env()) as process:
        rows = [stacks.collect(str(tapped.folder), [process.pid], {process.pid: "vllm"}, 10.0)[0] for _ in range(2)]
    for row in rows:
        assert (row["name"], row["unavailable"]) == ("vllm", None)
        assert len([line for line in row["stack"] if line.endswith("in stuck")]) == 1


def test_a_process_without_a_handler_is_not_asked(tapped: Tapped) -> None:
    """The signal would end it, though a process of that pid once left a file."""
    with running("import time; print(flush=True); time.sleep(3600)") as process:
        (tapped.folder / f"stacks-{process.pid}").touch()
        [row] = stacks.collect(str(tapped.folder), [process.pid], {})
        assert row["name"] == "?"
        assert row["unavailable"].startswith("did not answer (state ")
        assert process.poll() is None


def test_a_record_whose_message_cannot_be_made_disturbs_nothing(tapped: Tapped) -> None:
    _, records = tapped.run("logging.raiseExceptions = False\nlog.info('%d', 'x')\nlog.info('next')")
    assert [record["message"] for record in records] == ["next"]


def test_a_keeper_that_has_gone_disturbs_nothing(tapped: Tapped) -> None:
    (tapped.folder / "records").unlink()
    printed, records = tapped.run("log.info('one'); log.info('two')")
    assert (len(printed.splitlines()), records) == (2, [])


def test_vllm_s_own_format_is_used_where_vllm_is_there(tapped: Tapped) -> None:
    code = """
import types
module = types.ModuleType("vllm.logger")
module.DEFAULT_LOGGING_CONFIG = {
    "version": 1,
    "formatters": {"vllm": {"format": "vllm says %(message)s"}},
    "handlers": {"vllm": {"class": "logging.StreamHandler", "formatter": "vllm", "stream": "ext://sys.stdout"}},
}
sys.modules["vllm.logger"] = module
logging.config.dictConfig(json.load(open(os.environ["VLLM_LOGGING_CONFIG_PATH"])))
log.info("hello")
"""
    printed, [record] = tapped.run(code)
    assert (printed, record["message"]) == ("vllm says hello\n", "hello")


def test_uvicorn_still_says_what_goes_wrong_and_what_was_asked(tapped: Tapped) -> None:
    code = """
import logging, sys
sys.modules.pop("uvicorn", None)
sys.stderr = sys.stdout
logging.config.dictConfig(json.load(open(os.environ["VLLM_LOGGING_CONFIG_PATH"])))
logging.getLogger("uvicorn.error").error("[Errno 98] error while attempting to bind on address")
logging.getLogger("uvicorn.access").info("GET /health 200")
"""
    printed, records = tapped.run(code)
    assert printed.splitlines() == [
        "ERROR:     [Errno 98] error while attempting to bind on address",
        "INFO:     GET /health 200",
    ]
    assert records == []


@pytest.mark.parametrize(
    ("line", "is_shown"),
    [
        ("INFO 11-29 10:00:00 [core.py:1] hello", True),
        ("(EngineCore pid=7) ERROR 11-29 10:00:00 [core.py:1] no", True),
        ("INFO:     Application startup complete.", False),
        ("ERROR:    [Errno 98] error while attempting to bind on address", False),
        ("Traceback (most recent call last):", False),
    ],
)
def test_only_vllms_own_lines_are_told_as_records_too(line: str, is_shown: bool) -> None:
    seen: list[events.Event] = []
    pipe = TextPipe("m", tapped=True, emit=seen.append)
    os.write(pipe.writer, f"{line}\n".encode())
    pipe.read()
    pipe.close()
    (text,) = seen
    assert isinstance(text, events.Text)
    assert (text.line, text.also_record) == (line, is_shown)
