"""Cases that begin from a log: symptom, evidence, causes and fixes without a load; what the log printed as a launch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine_probe.command_line import parse_command
from engine_probe.deployment import read_deployment
from engine_probe.logs.records import read_text
from playbooks import decisions as decide
from playbooks.context import Context, read_context
from playbooks.diagnose import allowed
from playbooks.from_log import command_with
from playbooks.launch_from_log import launch_told
from playbooks.recorded import past_case
from playbooks.symptom_words import codes_of, key_words_of
from tests.test_diagnosis import BANNER, COVER, ENGINE, traceback
from tui.cli import main
from tui.log_case import open_logs
from tui.running import Opening

if TYPE_CHECKING:
    from playbooks.session import Session

ARGS = (
    "(APIServer pid=1) INFO 11-29 10:00:00 [utils.py:253] non-default args: {'model_tag': 'acme/small', "
    "'model': 'acme/small', 'enforce_eager': True, 'gpu_memory_utilization': 0.8, 'api_key': '********', "
    "'limit_mm_per_prompt': {'image': 2}, 'lora_modules': [LoRAModulePath(name='sql', path='/l/sql', base=None)]}\n"
)
TOO_LONG = (
    "ValueError: To serve at least one request with the models's max seq len (65536), (8.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (3.00 GiB). Based on the available memory, the estimated "
    "maximum model length is 24576. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`."
)
LOG = BANNER + ARGS + ENGINE + traceback(TOO_LONG, "vllm/v1/core/kv_cache_utils.py", "check_enough_kv_cache_memory")
LOG += COVER
KV = "kv-cache-too-small-for-max-model-len"
DEPLOYMENT = "models:\n  - name: small\n    model: acme/small\n    args: {enforce-eager: true}\n"


@pytest.fixture(scope="module")
def context() -> Context:
    return read_context()


def driven(opening: Opening, context: Context, *decisions: decide.Decision) -> Session:
    """To its end."""

    async def drive() -> Session:
        run = open_logs(opening, None, ("warm", "cold"), context)
        queue: asyncio.Queue[decide.Decision] = asyncio.Queue()
        for one in (run.begins_with, *decisions, decide.Finish()):
            queue.put_nowait(one)
        try:
            return await run.drive(queue, lambda _session, _event: None)
        finally:
            run.log.close()

    return asyncio.run(drive())


def written(folder: Path, text: str = LOG, name: str = "vllm.log") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_symptom_is_that_of_the_log_and_nothing_is_loaded(tmp_path: Path, context: Context) -> None:
    session = driven(Opening(logs=(written(tmp_path),)), context, decide.ApplyFix("serve-a-shorter-context"))
    symptom = session.symptom
    assert symptom is not None
    assert (symptom.kind, symptom.model, symptom.stage) == ("does-not-start", "small", "engine_build")
    assert symptom.headline == TOO_LONG
    assert (symptom.evidence[0].file, symptom.evidence[0].line) == ("vllm.log", 8)
    assert symptom.codes == ("ValueError",)
    assert {"max-model-len", "gpu-memory-utilization", "KV cache"} <= set(symptom.key_words)
    assert session.causes[0].id == KV
    assert [one.state for one in session.stages if one.stage == "engine_build"] == ["failed"]
    assert session.progress.load_number == 0
    assert session.applied_fix is None
    assert session.no_loads is not None


def test_four_sources_say_what_was_found_or_how_to_give_it(tmp_path: Path, context: Context) -> None:
    symptom = driven(Opening(logs=(written(tmp_path),)), context).symptom
    assert symptom is not None
    log, gpus, files, launch = symptom.sources
    assert log.found.startswith("vllm.log, ")
    assert "--host-state" in gpus.give
    assert "--deployment" in files.give
    assert "enforce-eager" in launch.found
    symptom = driven(Opening(logs=(written(tmp_path, LOG.replace(ARGS, "")),)), context).symptom
    assert symptom is not None
    assert symptom.sources[3].missing == "the log does not print them"


def test_the_launch_that_was_printed_is_one_again_without_its_secrets() -> None:
    told = launch_told(read_text([ARGS]))
    assert told is not None
    launch = told.launch
    assert "line 1" in told.words
    assert (launch.name, launch.model, dict(launch.lora)) == ("small", "acme/small", {"sql": "/l/sql"})
    assert launch.args["gpu-memory-utilization"] == 0.8
    assert "api-key" not in launch.args
    assert launch_told(read_text([BANNER])) is None


CONFIGURED = (
    "INFO 10-22 20:03:00 llm_engine.py:234] Initializing an LLM engine (v0.6.3) with config: model='acme/orbit', "
    "speculative_config=None, tokenizer='acme/orbit', skip_tokenizer_init=False, tokenizer_mode=auto, revision=None, "
    "trust_remote_code=False, dtype=torch.bfloat16, max_seq_len=8192, download_dir=None, load_format=auto, "
    "tensor_parallel_size=2, pipeline_parallel_size=1, disable_custom_all_reduce=True, quantization=awq, "
    "enforce_eager=False, kv_cache_dtype=auto, seed=0, served_model_name=acme/orbit\n"
)


def test_without_arguments_the_engines_configuration_tells_what_is_no_default() -> None:
    told = launch_told(read_text([BANNER, CONFIGURED]))
    assert told is not None
    assert told.launch.model == "acme/orbit"
    assert told.launch.args == {
        "dtype": "bfloat16",
        "max-model-len": 8192,
        "tensor-parallel-size": 2,
        "disable-custom-all-reduce": True,
        "quantization": "awq",
    }
    assert "configuration, line 2" in told.words
    both = launch_told(read_text([ARGS, CONFIGURED]))
    assert both is not None
    assert both.launch.model == "acme/small"  # what was given is better known than what was made of it


def test_the_written_file_says_what_was_read_from_where(tmp_path: Path, context: Context) -> None:
    log = written(tmp_path, CONFIGURED + TOO_LONG + "\n")
    file = tmp_path / "deployment.yaml"
    with pytest.raises(SystemExit):
        main(["diagnose", log, "--write-deployment", str(file)])
    assert "configuration, line 1" in file.read_text().splitlines()[0]
    assert read_deployment(file).models[0].args["tensor-parallel-size"] == 2
    symptom = driven(Opening(logs=(log,)), context).symptom
    assert symptom is not None
    assert "tensor-parallel-size 2" in symptom.sources[3].found
    assert "line 1" in symptom.sources[3].found


def test_the_launch_is_written_as_a_deployment_file_by_a_command_too(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    with pytest.raises(SystemExit):
        main(["diagnose", written(tmp_path), "--write-deployment", str(file)])
    (launch,) = read_deployment(file).models
    assert (launch.name, launch.args["gpu-memory-utilization"]) == ("small", 0.8)
    with pytest.raises(SystemExit) as end:
        main(["diagnose", written(tmp_path, BANNER + ENGINE + COVER), "--write-deployment", str(tmp_path / "x.yaml")])
    assert end.value.code == 2


def test_a_fix_is_shown_as_the_command_that_starts_the_model_with_it(tmp_path: Path, context: Context) -> None:
    session = driven(Opening(logs=(written(tmp_path),)), context)
    fix = next(one for one in session.fixes if one.id == "serve-a-shorter-context")
    command = command_with(session, fix)
    assert command is not None
    launch = parse_command(command)
    assert launch.args["max-model-len"] == 24576
    assert launch.args["enforce-eager"] is True


def test_nothing_is_claimed_of_an_environment_that_a_log_does_not_print(tmp_path: Path, context: Context) -> None:
    session = driven(Opening(logs=(written(tmp_path),)), context)
    of_environment = [one for one in session.fixes if one.key.startswith("env.")]
    assert of_environment
    assert not any("not set" in one.title for one in of_environment)


def test_with_a_deployment_its_own_words_count_and_a_fix_may_be_applied(tmp_path: Path, context: Context) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(DEPLOYMENT)
    run = open_logs(Opening(deployment=file, logs=(written(tmp_path),)), None, ("warm", "cold"), context)
    run.log.close()
    assert run.deployment.path == file
    assert (run.engine is None) == (run.no_loads is not None)


def test_what_may_be_decided_follows_from_what_can_be_loaded(tmp_path: Path, context: Context) -> None:
    session = driven(Opening(logs=(written(tmp_path),)), context)
    assert not allowed(session, decide.Begin())
    assert not allowed(session, decide.RunExperiment(KV, session.causes[0].hypotheses[0].id))
    assert session.case_folder is not None
    past = past_case(Path(session.case_folder), context)
    assert past.trouble is None
    assert [one.step.value for one in past.moments][:2] == ["symptom", "hypotheses"]


def test_a_healthy_log_is_said_to_be_one(tmp_path: Path, context: Context) -> None:
    text = BANNER + ENGINE + "(APIServer pid=1) INFO:     Application startup complete.\n"
    session = driven(Opening(logs=(written(tmp_path, text),)), context)
    assert (session.verdict, session.symptom) == ("healthy", None)


def test_what_no_playbook_knows_is_unexplained_with_its_root(tmp_path: Path, context: Context) -> None:
    text = BANNER + ENGINE + traceback("RuntimeError: the flux capacitor is out of tune") + COVER
    session = driven(Opening(logs=(written(tmp_path, text),)), context)
    assert session.verdict == "unexplained"
    assert session.symptom is not None
    assert "flux capacitor" in session.symptom.headline


def test_of_two_logs_the_one_that_failed_counts(tmp_path: Path, context: Context) -> None:
    fine = BANNER + ENGINE + "(APIServer pid=1) INFO:     Application startup complete.\n"
    logs = (written(tmp_path, fine, "a.log"), written(tmp_path, LOG, "b.log"))
    session = driven(Opening(logs=logs), context)
    assert session.symptom is not None
    assert session.symptom.evidence[0].file == "b.log"


def test_logs_that_cannot_be_read_end_the_case_with_the_reason(tmp_path: Path, context: Context) -> None:
    session = driven(Opening(logs=(str(tmp_path / "none.log"),)), context)
    assert session.verdict == "stopped"
    assert "No such file" in session.notes[0]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("OSError: [Errno 28] No space left on device", ("OSError", "errno 28 (ENOSPC)")),
        ("requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url", ("HTTPError", "HTTP 401")),
        ("RuntimeError: CUDA error: cudaErrorNoDevice", ("RuntimeError", "cudaErrorNoDevice")),
        ("torch.distributed.DistBackendError: ncclSystemError: x", ("DistBackendError", "ncclSystemError")),
        ("died with <Signals.SIGKILL: 9>", ("signal SIGKILL",)),
        ("all is well", ()),
    ],
)
def test_codes_are_pulled_out_of_an_error(text: str, codes: tuple[str, ...]) -> None:
    assert codes_of([text]) == codes
    assert codes_of([text], 3)[-1] == "exit code 3"
    assert codes_of([text], 3, "SIGSEGV")[-1] == "signal SIGSEGV"


def test_key_words_are_flags_and_terms() -> None:
    words = key_words_of(["set --max-model-len or tensor_parallel_size; no CUDA graph, some_other_name"])
    assert words == ("max-model-len", "tensor-parallel-size", "CUDA graph")
