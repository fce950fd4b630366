"""`vllm-console diagnose` and `cases`: exit codes, JSON, text, evidence beside the log, reports, kept cases."""

from __future__ import annotations

import errno
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from engine_probe.errors import InputError
from engine_probe.locations import find_locations
from playbooks.diagnosis_page import page
from playbooks.diagnosis_report import headline, markdown
from playbooks.exceptions import cut_between_words
from playbooks.lab.tiny_model import TinyLlama, write_tiny_llama
from tests.test_diagnosis import BANNER, COVER, ENGINE, traceback
from tui.cli import main
from tui.new_file import write_new

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

KV = "kv-cache-too-small-for-max-model-len"
TOO_SMALL = (
    "ValueError: To serve at least one request with the models's max seq len (4096), (0.25 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (0.09 GiB). Based on the available memory, the estimated "
    "maximum model length is 1408. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine."
)
FAILED = BANNER + ENGINE + traceback(TOO_SMALL, "vllm/v1/core/kv_cache_utils.py", "_check_enough") + COVER
SERVED = BANNER + ENGINE + "(APIServer pid=1) INFO:     Application startup complete.\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_text(FAILED, encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", *argv])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    _, out, _ = run(capsys, *argv, "--json")
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_the_root_cause_is_named_with_proof_and_fix(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, str(log), "--launch", "vllm serve acme/small")
    assert code == 1
    assert "acme/small does not start, at memory_planning" in out
    assert KV in out
    assert f"{log}:7" in out
    assert "args.max-model-len = 1408" in out


@pytest.mark.parametrize(
    ("text", "code", "outcome", "cause"),
    [
        (FAILED, 1, "failed", KV),
        (SERVED, 0, "healthy", None),
        (BANNER + ENGINE + traceback("ValueError: never heard of") + COVER, 3, "failed", "unexplained"),
        (BANNER, 3, "incomplete", None),
        ("", 3, "incomplete", None),
    ],
)
def test_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, outcome: str, cause: str | None
) -> None:
    path = tmp_path / "vllm.log"
    path.write_text(text, encoding="utf-8")
    got, out, _ = run(capsys, str(path), "--json")
    found = json.loads(out)
    assert (got, found["outcome"]) == (code, outcome)
    assert [one["id"] for one in found["causes"][:1]] == ([cause] if cause else [])


def test_what_in_the_launch_does_not_fit_the_log_is_said(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, str(log), "--launch", "vllm serve acme/other --gpu-memory-utilizaton 0.9")
    assert "gpu-memory-utilizaton" in out
    assert "did you mean gpu-memory-utilization?" in " ".join(out.split())
    assert "the log tells of the model acme/small, the launch of acme/other" in " ".join(out.split())
    assert answer(capsys, str(log), "--launch", "vllm serve acme/small --max-model-len 16")["notes"] == []


def test_fixes_that_are_no_use_now_are_one_line_each(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, str(log), "--launch", "vllm serve acme/small --max-model-len 4096")
    words = " ".join(out.split())
    assert "refuted (" in words
    assert "refuted: " not in words
    fixes = out.partition("Fixes, one at a time")[2].partition("What would tell more")[0]
    possible, _, rest = fixes.partition(": not now: ")
    assert "price: " in possible
    assert rest
    assert "price: " not in rest


def test_long_lines_of_evidence_end_between_words_with_a_sign() -> None:
    assert cut_between_words("one two three", 13) == "one two three"
    assert cut_between_words("one two three", 12) == "one two …"
    assert cut_between_words("x" * 50, 20) == "x" * 18 + " …"


def test_a_fix_that_only_cpus_have_is_not_offered_for_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vllm.log"
    for device, is_offered in (("cuda", False), ("cpu", True)):
        told = FAILED.replace("speculative_config=None", f"speculative_config=None, device_config={device}")
        path.write_text(told, encoding="utf-8")
        fixes = [one["id"] for one in answer(capsys, str(path))["causes"][0]["fixes"]]
        assert ("enlarge-the-cpu-pool" in fixes) == is_offered


def test_a_log_may_come_through_a_pipe(log: Path) -> None:
    with log.open("rb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "tui.cli", "diagnose", "--json"],
            stdin=pipe,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["causes"][0]["id"] == KV
    assert found["causes"][0]["evidence"][0]["file"] == "standard input"


def test_where_a_log_ends_is_said_when_nothing_else_can_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vllm.log"
    path.write_text(BANNER, encoding="utf-8")
    assert "neither failed nor served in stage config; this log ends at line 1: vLLM API server" in flat(capsys, path)
    path.write_bytes(b"\x7fELF\0\0 nothing of vLLM")
    assert "no line of this log is vLLM's" in flat(capsys, path)
    path.write_text("ERROR 11-29 10:00:00 [core.py:1] ValueError: boom\n", encoding="utf-8")
    assert "unexplained" in flat(capsys, path)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[12345.678901] usb 1-1: new device\n", "the kernel's log (dmesg)"),
        ('10.0.0.1 - - [29/Nov/2025:10:00:00 +0000] "GET /x HTTP/1.1" 200 12 "-" "curl"\n', "an access log"),
        ('{"a": 1}\n{"a": 2}\n', "lines of JSON"),
        ("llama_model_loader: loaded meta data\n", "llama.cpp"),
        ("apiVersion: v1\nkind: Pod\n", "a YAML file"),
        ("\n", "an empty file"),
        ("once upon\na time\n", "is it the right one?"),
    ],
)
def test_a_log_of_something_else_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, kind: str
) -> None:
    path = tmp_path / "some.log"
    path.write_text(text, encoding="utf-8")
    assert kind in flat(capsys, path)


def test_a_load_that_goes_on_is_not_said_to_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vllm.log"
    waiting = (
        "(APIServer pid=1) INFO 11-29 10:00:0{} [core_client.py:9] Waiting for 1 local, 0 remote core engine proc(s)"
    )
    begun = "(EngineCore_DP0 pid=2) INFO 11-29 10:00:02 [gpu_model_runner.py:9] Starting to load model acme/small...\n"
    path.write_text(BANNER + ENGINE + begun + waiting + "proc(s) to start.\n", encoding="utf-8")
    words = flat(capsys, path)
    assert "has not come up" in words
    assert "does not start" not in words
    assert headline(answer(capsys, str(path))).startswith("acme/small has not come up")


def flat(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    """What is printed of a log, on one line."""
    return " ".join(run(capsys, str(path))[1].split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["nowhere.log"], "cannot read nowhere.log"),
        (["a.log", "b.log"], "one log at a time"),
        (["--launch", "vllm serve m", "--deployment", "d.yaml"], "give one of them"),
        (["--model", "m"], "give --deployment too"),
        (["--model-dir", "/nowhere"], "there is no such folder"),
        (["--host-state", "/nowhere.json"], "cannot read /nowhere.json"),
    ],
)
def test_bad_input_is_one_clear_error(capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    code, out, err = run(capsys, *options)
    assert (code, out) == (2, "")
    assert words in err


def test_the_models_files_and_the_host_are_evidence(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write_tiny_llama(log.parent / "m", TinyLlama(num_hidden_layers=1))
    state = log.parent / "host.json"
    gpu = {"index": 0, "total_gib": 79.25, "used_gib": 70.0, "processes": [{"pid": 7, "name": "x", "used_gib": 70.0}]}
    state.write_text(json.dumps({"schema": 1, "gpus": [gpu]}), encoding="utf-8")
    options = ("--launch", "vllm serve acme/small", "--model-dir", str(model), "--host-state", str(state))
    facts = {one["name"]: one for one in answer(capsys, str(log), *options)["facts"]}
    assert facts["model.num_hidden_layers"]["value"] == 1
    assert facts["files.trouble"]["value"] == "none found"
    assert (facts["gpu.free_before_launch_gib"]["value"], facts["gpu.largest_other_pid"]["value"]) == (9.25, 7)
    assert facts["gpu.largest_other_pid"]["origin"] == f"{state}, GPU 0"


def test_of_a_deployment_the_model_that_the_log_tells_is_taken(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployment = log.parent / "d.yaml"
    deployment.write_text(
        "models:\n  - {name: first, model: acme/large, gpus: [0]}\n  - {name: second, model: acme/small, gpus: [0]}\n",
        encoding="utf-8",
    )
    found = answer(capsys, str(log), "--deployment", str(deployment))
    facts = {one["name"]: one["value"] for one in found["facts"]}
    assert (facts["neighbours.count"], facts["neighbours.names"]) == (1, "first")
    assert facts["neighbours.utilization_sum"] == 1.8
    assert found["causes"][0]["fixes"][0]["launch"] == "second"


@pytest.mark.parametrize("suffix", [".md", ".html", ".json"])
def test_a_report_is_written_once_and_holds_no_secret(
    log: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    secret = "hf_" + "a1B2" * 9
    log.write_text(FAILED.replace("Try increasing", f"token {secret} <b>bold</b>"), encoding="utf-8")
    target = log.parent / f"report{suffix}"
    assert run(capsys, str(log), "--report", str(target))[0] == 1
    text = target.read_text(encoding="utf-8")
    assert KV in text
    assert secret not in text
    assert ("<b>bold</b>" in text) == (suffix != ".html")
    code, _, err = run(capsys, str(log), "--report", str(target))
    assert code == 2
    assert "is there already" in err


def test_a_kept_case_is_shown_again_without_its_log(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(log.parent / "state"))
    _, _, err = run(capsys, str(log), "--keep", "--json")
    name = err.split("kept as case ")[1].split(":")[0]
    log.unlink()
    for argv, words in (
        (["list"], name),
        (["show", name], "The KV cache cannot hold one request"),
        (["report", name, "--to", str(log.parent / "again.html")], "again.html"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["cases", *argv])
        assert not ended.value.code
        assert words in capsys.readouterr().out
    assert "<h1>" in (log.parent / "again.html").read_text(encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["cases", "show", name[:-1]])
    assert ended.value.code == 2
    assert f'did you mean "{name}"' in capsys.readouterr().err


def test_pages_and_markdown_are_made_of_a_healthy_log_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vllm.log"
    path.write_text(SERVED, encoding="utf-8")
    found = answer(capsys, str(path))
    assert "nothing is wrong in this log" in markdown(found)
    assert "nothing is wrong in this log" in page(found)


def test_no_secret_of_an_argument_is_printed_written_or_kept(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = "OSError: Can't load tokenizer for 'https://user:hunter3@host/x'."
    log.write_text(BANNER + ENGINE + traceback(last) + COVER, encoding="utf-8")
    launch = "vllm serve acme/small --tokenizer https://user:hunter3@host/x --api-key sesame7 --hf-token 77open"
    written = ""
    for form in ("json", "md", "html"):
        path = tmp_path / f"report.{form}"
        for options in ((), ("--json", "--keep")):
            path.unlink(missing_ok=True)
            _, out, err = run(capsys, str(log), "--launch", launch, "--report", str(path), *options)
            written += out + err + path.read_text(encoding="utf-8")
        written += "".join(file.read_text(encoding="utf-8") for file in _kept_files())
    assert "https://user:***@host/x" in written
    assert [secret for secret in ("hunter3", "sesame7", "77open") if secret in written] == []


def _kept_files() -> list[Path]:
    files = [path for path in find_locations().state.rglob("*") if path.is_file() and "cases" in path.parts]
    assert files
    return files


def test_a_full_disk_leaves_no_part_of_a_report_or_a_case(
    tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    def opened(path: Path, mode: str = "r", *_: object, **__: object) -> Full:
        path.touch()
        assert set(mode) & set("wxa")
        return Full()

    folder = tmp_path / "reports"
    folder.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr("engine_probe.whole_file.os.fdopen", lambda *_: Full())
        code, _, err = run(capsys, str(log), "--keep")
        assert (code, err.count("\n")) == (2, 1)
        assert "cannot keep a case in" in err
        assert "No space left on device" in err
        assert not any(path.is_dir() for path in (find_locations().state / "cases").iterdir())
    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.open", opened)
        with pytest.raises(InputError, match=r"report\.md: No space left on device"):
            write_new(folder / "report.md", "text")
    assert list(folder.iterdir()) == []
    write_new(folder / "report.md", "text")
    assert [(path.name, path.read_text(encoding="utf-8")) for path in folder.iterdir()] == [("report.md", "text")]
    with pytest.raises(InputError, match="is there already"):
        write_new(folder / "report.md", "text")


def test_a_case_is_shown_as_one_object(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, str(log), "--keep")
    (cases_folder,) = {path.parent for path in _kept_files()}
    session = cases_folder.with_name("2026-01-01-0001")
    session.mkdir()
    (session / "report.md").write_text("# It was mended\n", encoding="utf-8")
    for name, kind, key in ((cases_folder.name, "diagnosis", "causes"), (session.name, "session", "report")):
        with pytest.raises(SystemExit):
            main(["cases", "show", name, "--json"])
        shown = json.loads(capsys.readouterr().out)
        assert (shown["case"], shown["kind"]) == (name, kind)
        assert shown[key]


def test_a_person_is_told_once_of_a_log_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tui.commands import diagnose as command

    monkeypatch.setattr(command, "_QUIET_SECONDS", -1.0)
    go_on = command._says_that_it_reads("vllm.log")
    go_on()
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    go_on()
    go_on()
    assert capsys.readouterr().err == "still reading vllm.log …\n"
