"""From a log to ranked causes: covers, places, releases, conditions, rivals, cuts, hangs, what stays unexplained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from engine_probe.command_line import parse_command
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.records import read_text
from engine_probe.strict_yaml import decode_text
from playbooks.compiled import entry_of
from playbooks.diagnosis import Given, diagnose
from playbooks.diagnosis_json import as_object
from playbooks.evidence import Evidence
from playbooks.library import Loaded
from playbooks.offers import offers_of
from playbooks.schema import Playbook, Wording
from playbooks.template import new_playbook
from tui.diagnosis_words import would_tell

if TYPE_CHECKING:
    from playbooks.diagnosis import Diagnosis

BANNER = "(APIServer pid=1) INFO 11-29 10:00:00 [utils.py:233] vLLM API server version 0.11.2\n"
ENGINE = (
    "(EngineCore_DP0 pid=2) INFO 11-29 10:00:01 [core.py:77] Initializing a V1 LLM engine (v0.11.2) with config: "
    "model='acme/small', speculative_config=None\n"
)
ERROR = "(EngineCore_DP0 pid=2) ERROR 11-29 10:00:09 [core.py:842] "
COVER = (
    "(APIServer pid=1) Traceback (most recent call last):\n"
    '(APIServer pid=1)   File "/v/vllm/v1/engine/utils.py", line 5, in wait\n'
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
)


def traceback(last: str, frame: str = "vllm/v1/worker/gpu_worker.py", function: str = "load_model") -> str:
    lines = ("EngineCore failed to start.", "Traceback (most recent call last):",
             f'  File "/v/{frame}", line 7, in {function}', f"    {function}()", *last.split("\n"))  # fmt: skip
    return "".join(f"{ERROR}{line}\n" for line in lines)


def playbook(name: str, *wordings: dict[str, Any], **changes: Any) -> Loaded:
    """One of the template with these wordings and changes."""
    spec, _ = decode_text(new_playbook(name, "configuration"), name, Playbook)
    built = [Wording(id=f"w{number}", **one) for number, one in enumerate(wordings)]
    changes = {"symptoms": msgspec.structs.replace(spec.symptoms, any=built or spec.symptoms.any)} | changes
    spec = msgspec.structs.replace(spec, **changes)
    return Loaded(entry_of(spec, b""), Path(f"{name}.yaml"), spec)


def diagnosed(log: str, *library: Loaded, launch: str | None = None) -> Diagnosis:
    given = Given("vllm.log", Evidence(None if launch is None else parse_command(launch)))
    return diagnose(read_text([log]), library, read_wrappers(), given)


def ids(diagnosis: Diagnosis) -> list[str]:
    return [one.cause.id for one in diagnosis.causes]


TOO_SMALL = playbook("too-small", {"log": r"pool of (?P<limit>\d+) is too small"})


def test_the_cause_is_the_exception_below_the_cover_with_its_line_and_its_fix_filled_in() -> None:
    found = diagnosed(BANNER + ENGINE + traceback("ValueError: pool of 16 is too small") + COVER, TOO_SMALL)
    assert (found.outcome, found.version, found.symptom) == ("failed", "0.11.2", "does-not-start")
    (cause,) = found.causes
    assert (cause.cause.id, cause.cause.confidence, cause.model) == ("too-small", 0.95, "acme/small")
    (line,) = cause.cause.evidence
    assert (line.file, line.line, line.text) == ("vllm.log", 7, "ValueError: pool of 16 is too small")
    (offer,) = offers_of(cause)
    assert (offer.set, offer.unavailable) == ({"args.max-model-len": 16}, None)


def test_a_cover_message_is_no_cause_unless_the_wording_wants_it() -> None:
    log = BANNER + ENGINE + COVER
    wording = {"log": r"Failed core proc\(s\)"}
    assert ids(diagnosed(log, playbook("core", wording))) == ["unexplained"]
    assert ids(diagnosed(log, playbook("core", wording | {"cover": True}))) == ["core"]


def test_a_failure_that_no_playbook_explains_is_said_to_be_so_with_its_root() -> None:
    found = diagnosed(BANNER + ENGINE + traceback("ValueError: never heard of") + COVER, TOO_SMALL)
    (cause,) = found.causes
    assert found.is_unexplained
    assert (cause.cause.id, cause.cause.layer, cause.cause.stage) == ("unexplained", "worker", "weight_load")
    assert cause.cause.evidence[0].text == "ValueError: never heard of"
    assert offers_of(cause) == ()


def test_a_warning_alone_explains_no_failure() -> None:
    warned = ENGINE.replace("INFO", "WARNING").replace("Initializing", "pool of 8 is too small; Initializing")
    found = diagnosed(BANNER + ENGINE + warned + traceback("ValueError: never heard of"), TOO_SMALL)
    assert ids(found) == ["unexplained", "too-small"]
    assert found.is_unexplained


def test_an_error_before_the_root_may_explain_it() -> None:
    log = BANNER + ENGINE + ERROR + "pool of 8 is too small\n" + traceback("RuntimeError: never heard of")
    assert ids(diagnosed(log, TOO_SMALL)) == ["too-small"]


def test_rivals_for_one_text_share_the_confidence_and_the_surer_one_is_first() -> None:
    log = BANNER + ENGINE + traceback("ValueError: pool of 16 is too small")
    possible = playbook("possible", {"log": "pool of", "certainty": "possible"})
    found = diagnosed(log, possible, TOO_SMALL)
    assert ids(found) == ["too-small", "possible"]
    first, second = (one.cause.confidence for one in found.causes)
    assert 0.95 > first > second > 0


def test_between_rivals_of_one_weight_the_narrower_is_first() -> None:
    log = BANNER + ENGINE + traceback("ValueError: pool of 16 is too small")
    narrow = playbook("z-narrow", {"log": r"pool of (?P<limit>\d+)", "when": ["limit < 20"]})
    found = diagnosed(log, TOO_SMALL, narrow)
    assert ids(found) == ["z-narrow", "too-small"]
    assert found.causes[0].cause.confidence == found.causes[1].cause.confidence


@pytest.mark.parametrize(
    ("narrow", "fits"),
    [
        ({"stages": ["weight_load"]}, True),
        ({"stages": ["warmup"]}, False),
        ({"frames": r"gpu_worker\.py:load_model"}, True),
        ({"frames": r"gpu_worker\.py:init_device"}, False),
        ({"along_with": "Initializing a V1 LLM engine"}, True),
        ({"along_with": "Initializing a V9"}, False),
        ({"absent": "Initializing a V9"}, True),
        ({"absent": "Initializing a V1 LLM engine"}, False),
        ({"when": ["limit < 20"]}, True),
        ({"when": ["limit < 10"]}, False),
        ({"when": ["launch.enforce_eager is set"]}, True),
        ({"when": ["launch.enforce_eager is unset"]}, False),
    ],
)
def test_what_narrows_a_wording(narrow: dict[str, Any], fits: bool) -> None:
    one = playbook("narrow", {"log": r"pool of (?P<limit>\d+)", **narrow})
    log = BANNER + ENGINE + traceback("ValueError: pool of 16 is too small")
    found = diagnosed(log, one, launch="vllm serve acme/small --enforce-eager")
    assert ids(found) == (["narrow"] if fits else ["unexplained"])


def test_an_unknown_condition_lowers_the_confidence_and_is_named_as_missing() -> None:
    one = playbook("held", {"log": "pool of", "when": ["gpu.used_by_others_gib > 1"]})
    found = diagnosed(BANNER + ENGINE + traceback("ValueError: pool of 16 is too small"), one)
    assert found.causes[0].cause.confidence < 0.95
    assert next((item.evidence, item.decides) for item in found.missing) == ("gpu processes", ("held",))


@pytest.mark.parametrize(
    ("condition", "evidence", "option"),
    [
        ("launch.dtype is set", "launch", "--launch"),
        ("launch.env.HF_TOKEN is set", "environment", '--launch "NAME=VALUE vllm serve …"'),
        ("model.hidden_size > 1", "config.json", "--model-dir"),
        ("gpu.orphan_gib > 1", "gpu processes", "--host-state"),
        ("packages.torch is set", "engine packages", "--engine"),
        ("neighbours.count > 1", "deployment", "--deployment"),
        ("memory.utilization_now > 0.5", "launch", "--launch"),
        ("gpu.strangers_gib > 1", "gpu processes", "--here"),
    ],
)
def test_what_would_tell_more_names_the_option_that_gives_it(condition: str, evidence: str, option: str) -> None:
    one = playbook("held", {"log": "pool of", "when": [condition]})
    found = diagnosed(BANNER + ENGINE + traceback("ValueError: pool of 16 is too small"), one)
    missing = next(item for item in found.missing if item.evidence == evidence)
    assert missing.decides == ("held",)
    assert option in missing.supplied_by
    assert missing.supplied_by in would_tell(missing)


def test_a_log_that_ends_in_a_failure_has_said_all() -> None:
    one = playbook("held", {"log": "pool of", "when": ["weights.gib > 1"]})
    found = diagnosed(BANNER + ENGINE + traceback("ValueError: pool of 16 is too small"), one)
    assert not [item for item in found.missing if item.evidence == "more of the log"]
    waiting = playbook("waits", {"log": "Initializing a V1 LLM engine", "at_end": True, "when": ["weights.gib > 1"]})
    assert "more of the log" in [item.evidence for item in diagnosed(BANNER + ENGINE, waiting).missing]


@pytest.mark.parametrize(("launch", "confidence"), [(None, 0.45), ("vllm serve acme/small --enforce-eager", 0.95)])
def test_a_condition_that_decides_leaves_a_possibility_while_it_is_unknown(
    launch: str | None, confidence: float
) -> None:
    one = playbook("eager", {"log": "pool of", "when": ["launch.enforce_eager is set"], "if_unknown": "possible"})
    found = diagnosed(BANNER + ENGINE + traceback("ValueError: pool of 16 is too small"), one, launch=launch)
    assert found.causes[0].cause.confidence == confidence


@pytest.mark.parametrize(("release", "confidence"), [(">=0.11", 0.95), ("<0.11", 0.285), (">=0.8,<0.12", 0.95)])
def test_another_release_speaks_against_a_wording(release: str, confidence: float) -> None:
    one = playbook("ranged", {"log": "pool of", "vllm": release})
    found = diagnosed(BANNER + ENGINE + traceback("ValueError: pool of 16 is too small"), one)
    assert found.causes[0].cause.confidence == confidence


def test_what_another_illness_says_rules_a_playbook_out() -> None:
    spec = TOO_SMALL.spec
    symptoms = decode_text("any: [{id: a, log: pool of}]\nunless: [{log: 'is too small'}]", "s", type(spec.symptoms))[0]
    one = playbook("ruled-out", symptoms=symptoms)
    assert ids(diagnosed(BANNER + ENGINE + traceback("ValueError: pool of 16 is too small"), one)) == ["unexplained"]


def test_a_log_that_just_stops_hangs_where_a_playbook_knows_it() -> None:
    waiting = playbook("waits", {"log": "Initializing a V1 LLM engine", "at_end": True})
    found = diagnosed(BANNER + ENGINE, waiting)
    assert (found.outcome, ids(found)) == ("incomplete", ["waits"])
    assert ids(diagnosed(BANNER + ENGINE + traceback("ValueError: no"), waiting)) == ["unexplained"]


def test_a_traceback_that_only_covers_another_is_not_all_that_there_is() -> None:
    cover = "RuntimeError: Engine core initialization failed. See root cause above."
    lines = [
        "Traceback (most recent call last):",
        '  File "/v/vllm/entrypoints/cli/main.py", line 5, in main',
        "    run()",
    ]
    found = diagnosed("\n".join([*lines, cover, ""]), TOO_SMALL)
    assert ids(found) == ["unexplained"]
    assert found.missing[0].evidence == "the log above its first line"
    alone = diagnosed("\n".join([*lines, "ValueError: pool of 16 is too small", ""]), TOO_SMALL)
    assert "the log above its first line" not in [one.evidence for one in alone.missing]
    cut = diagnosed("\n".join([*lines[1:], "ValueError: pool of 16 is too small", ""]), TOO_SMALL)
    assert (ids(cut), cut.missing[0].evidence) == (["too-small"], "the log above its first line")


def test_a_log_cut_above_its_cause_says_where_to_look() -> None:
    found = diagnosed(COVER, TOO_SMALL)
    assert ids(found) == ["unexplained"]
    assert found.missing[0].evidence == "the log above its first line"


def test_a_cause_in_a_log_that_begins_in_the_middle_may_not_be_the_first() -> None:
    found = diagnosed(traceback("ValueError: pool of 16 is too small") + COVER, TOO_SMALL)
    assert ids(found) == ["too-small"]
    assert (found.missing[0].evidence, found.missing[0].decides) == ("the log above its first line", ("too-small",))
    whole = diagnosed(BANNER + ENGINE + traceback("ValueError: pool of 16 is too small"), TOO_SMALL)
    assert "the log above its first line" not in [one.evidence for one in whole.missing]


def test_of_a_model_that_started_again_only_the_last_try_counts() -> None:
    failed = BANNER + ENGINE + traceback("ValueError: pool of 16 is too small") + COVER
    served = failed + (BANNER + ENGINE).replace("pid=1", "pid=11").replace("pid=2", "pid=12")
    served += "(APIServer pid=11) INFO:     Application startup complete.\n"
    assert (diagnosed(served, TOO_SMALL).outcome, ids(diagnosed(served, TOO_SMALL))) == ("healthy", [])


def test_the_stage_of_the_log_counts_where_the_playbook_names_several() -> None:
    one = playbook("staged", {"log": "pool of"}, stage="config", other_stages=["weight_load"])
    found = diagnosed(BANNER + ENGINE + traceback("ValueError: pool of 16 is too small"), one)
    assert found.causes[0].cause.stage == "weight_load"


def test_the_json_has_the_keys_that_scripts_rely_on() -> None:
    log = BANNER + ENGINE + traceback("ValueError: pool of 16 is too small") + COVER
    answer = as_object(diagnosed(log, TOO_SMALL, launch="vllm serve acme/small"))
    assert list(answer)[:7] == ["schema", "outcome", "vllm_version", "symptom", "causes", "missing", "attempts"]
    (cause,) = answer["causes"]
    assert {"id", "family", "kind", "layer", "stage", "confidence", "summary", "model", "evidence", "fixes"} <= set(
        cause
    )
    (fix,) = cause["fixes"]
    assert {"id", "launch", "set", "why", "expect", "risk"} <= set(fix)
    assert (fix["launch"], fix["set"]) == ("small", {"args.max-model-len": 16})
    (attempt,) = answer["attempts"]
    assert attempt["stages"][0]["stage"] == "config"
    assert msgspec.json.decode(msgspec.json.encode(answer)) == answer
