"""Playbooks drafted from cases: valid as they stand, with the error's own words, the fix that held, and no secrets."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import msgspec
import pytest

from engine_probe.errors import InputError
from engine_probe.strict_yaml import decode_text
from playbooks.draft import Library, draft_of
from playbooks.draft_pattern import message_of, pattern_of
from playbooks.library import find, load_library
from playbooks.load import check_file
from playbooks.patterns import CompiledWording, compile_pattern
from playbooks.schema import Playbook, Wording
from playbooks.session import FixOption
from tests import tui_samples as samples
from tests.kept_case_samples import DAY, SHORTER, keep_case, kv_deployment
from tui.cli import main
from tui.drafting import suggested_name, write_draft

LIBRARY = Library(("taken",), {})
LOG = (
    "INFO 11-29 [launcher.py:12] all is well\n",
    "INFO 11-29 vllm_console.probe - warm load of tiny started from here by the console itself\n",
    "(Worker pid=4711) WARNING 11-29 hf_abcdefghijklmnopqrstuvwxyz0123456789 is no token on port 49671 of /home/me\n",
)
LORA = "lora-rank-exceeds-max"
RANK = "ValueError: LoRA rank 64 is greater than max_lora_rank 16."
TO_64 = FixOption(
    id="allow-this-rank", launch="tiny", key="args.max-lora-rank", old_value=None, new_value="64", title="", diff=(),
    why="It takes rank 64.", expect=("load.is_serving is true",), you_lose="memory for 64 ranks", risk="low",
    outcome="verified",
)  # fmt: skip


def lora_session(**fix):
    return replace(
        samples.VERIFIED,
        symptom=replace(samples.SYMPTOM, headline=RANK),
        causes=(replace(samples.CAUSE, id=LORA, hypotheses=()),),
        fixes=(replace(TO_64, **fix),),
        applied_fix=TO_64.id,
    )


def lora_library():
    return Library((), {LORA: find(load_library(), LORA).spec})


def drafted(session, name="my-cause", **more) -> tuple[str, Playbook]:
    family, text = draft_of(session, name, LIBRARY, date(2026, 11, 30), LOG, **more)
    spec, _ = decode_text(text, f"{name}.yaml", Playbook)
    return family, spec


def checked(folder: Path, session, name="my-cause") -> Path:
    _, text = draft_of(session, name, LIBRARY, date(2026, 11, 30), LOG)
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    check_file(path)
    return path


@pytest.mark.parametrize("state", ["verified", "tested", "failed", "unexplained", "verifying"])
def test_a_draft_of_any_case_that_failed_is_valid(tmp_path, state):
    checked(tmp_path, samples.STATES[state])


def test_its_wording_is_the_error_with_numbers_as_groups_and_its_sample_is_the_real_line():
    _, spec = drafted(samples.VERIFIED)
    (wording,) = spec.symptoms.any
    (sample,) = spec.samples.match
    assert sample.line == samples.ERROR
    assert sample.facts["len"] == 4096
    other = samples.ERROR.replace("4096", "262144").replace("0.09", "3.18")
    assert CompiledWording(wording).captured(other)["len"] == 262144
    assert CompiledWording(wording).captured("ValueError: something else") is None


def test_the_fix_that_held_is_its_fix_with_a_claim_that_can_be_refuted():
    family, spec = drafted(samples.VERIFIED)
    (fix,) = spec.fixes
    assert family == "memory"
    assert fix.id == "lower-max-model-len"
    assert set(fix.set) == {"args.max-model-len"}
    assert all(claim.experiment.refute and claim.fixes == [fix.id] for claim in spec.hypotheses)
    (tested,) = spec.tested
    assert (tested.fix, tested.outcome, tested.date) == (fix.id, "verified", "2026-11-30")


def test_a_value_that_the_error_named_is_taken_from_it_the_next_time():
    short = replace(samples.SYMPTOM, headline="ValueError: the length that fits is 1408 tokens")
    _, spec = drafted(replace(samples.VERIFIED, symptom=short))
    (fix,) = spec.fixes
    assert fix.set == {"args.max-model-len": "{is}"}
    assert fix.needs == ["is"]


def draft_with(session, library) -> Playbook:
    _, text = draft_of(session, "my-cause", library, date(2026, 11, 30), LOG)
    return decode_text(text, "my-cause.yaml", Playbook)[0]


def test_a_value_follows_the_rule_of_the_playbook_that_the_fix_came_from():
    (fix,) = draft_with(lora_session(), lora_library()).fixes
    assert (fix.set, fix.needs) == ({"args.max-lora-rank": "{lora.max_rank_needed}"}, ["lora.max_rank_needed"])


def test_a_number_of_the_error_is_not_taken_where_the_playbook_has_a_rule_that_cannot_be_told_here():
    spec = find(load_library(), LORA).spec
    fixed = msgspec.structs.replace(spec.fixes[0], set={"args.max-lora-rank": "{a_group}{another_group}"}, needs=[])
    library = Library((), {LORA: msgspec.structs.replace(spec, fixes=[fixed])})
    (fix,) = draft_with(lora_session(), library).fixes
    assert (fix.set, fix.needs) == ({"args.max-lora-rank": 64}, [])


def test_a_value_of_ones_own_stands_as_it_held_with_its_own_price():
    session = lora_session(new_value="128", proposed="64")
    (fix,) = draft_with(session, lora_library()).fixes
    assert fix.set == {"args.max-lora-rank": 128}
    assert fix.you_lose == "memory for 128 ranks"
    assert "64" not in fix.why


def test_a_draft_names_nothing_of_its_host():
    at = "OSError: cannot read /home/me/models/x of 10.1.2.3:49671 in process pid 4711"
    _, spec = drafted(replace(samples.FAILED, symptom=replace(samples.SYMPTOM, headline=at)))
    (match,), (wording,) = spec.samples.match, spec.symptoms.any
    lines = [match.line, *(one.line for one in spec.samples.no_match)]
    assert not [line for line in lines for word in ("/home", "49671", "4711", "10.1.2.3", "console") if word in line]
    assert any("on port 8000 of /path/to/it" in line for line in lines)
    assert CompiledWording(wording).captured(at) is not None
    assert CompiledWording(wording).captured(match.line) == match.facts


def test_a_title_is_a_whole_sentence():
    assert drafted(samples.FAILED)[1].title == "To serve at least one request with the model's max seq len"
    assert draft_with(lora_session(), lora_library()).title == "The adapter's rank is above --max-lora-rank"


def test_a_draft_takes_nothing_from_the_playbook_that_explains(tmp_path, capsys):
    log = tmp_path / "engine.log"
    log.write_text(f"ERROR 11-29 10:00:00 [core.py:700] {RANK}\n{RANK}\n")

    def confidences() -> dict[str, float]:
        with pytest.raises(SystemExit):
            main(["diagnose", str(log), "--json"])
        return {one["id"]: one["confidence"] for one in json.loads(capsys.readouterr().out)["causes"]}

    before = confidences()
    assert LORA in before
    write_draft(lora_session(), "my-ranks", date(2026, 11, 30))
    assert confidences() == before


def test_where_nothing_held_a_person_is_asked_to_write_it():
    _, spec = drafted(samples.UNEXPLAINED)
    (fix,) = spec.fixes
    assert fix.by_hand is not None
    assert spec.tested == []


def test_secrets_do_not_come_into_a_draft():
    text = "ValueError: token hf_abcdefghijklmnopqrstuvwxyz0123456789 was refused"
    session = replace(samples.FAILED, symptom=replace(samples.SYMPTOM, headline=text))
    _, written = draft_of(session, "my-cause", LIBRARY, date(2026, 11, 30), LOG)
    assert "hf_abcdefghij" not in written


def test_names_that_are_taken_or_no_names_are_refused():
    with pytest.raises(InputError, match="already"):
        drafted(samples.FAILED, "taken")
    with pytest.raises(InputError, match="is no id"):
        drafted(samples.FAILED, "Not A Name")
    with pytest.raises(InputError, match="no family"):
        drafted(samples.FAILED, family="fish")
    with pytest.raises(InputError, match="shows no failure"):
        drafted(samples.LOADING)


@pytest.mark.parametrize(
    ("line", "also", "not_"),
    [
        ("ValueError: a (1), b [2] {3}? x|y *z", "ValueError: a (7), b [8] {9}? x|y *z", "a (1), b [2]"),
        ("OSError: /data/models/x/config.json is gone", "OSError: /other/place.json is gone", "OSError: all is fine"),
        ("12 of 13 are gone", "1 of 2 are gone", "of are gone"),
        ("RuntimeError: 0x7f12ab at 1e5", "RuntimeError: 0xdeadbeef at 1e5", "RuntimeError: at 1e5"),
        ("Error", "Error", "fine"),
    ],
)
def test_a_pattern_has_the_words_and_leaves_open_what_differs(line, also, not_):
    pattern = compile_pattern(pattern_of(line))
    assert pattern.search(line)
    assert pattern.search(also)
    assert not pattern.search(not_)


def test_what_a_library_wraps_around_a_message_is_left_out():
    line = "ValidationError: 1 validation error for ModelConfig\n  Value error, no room for 3 [type=value_error, "
    line += "input_value=x]"
    assert message_of(line) == "no room for 3"
    assert CompiledWording(Wording(id="x", log=pattern_of(line))).captured(line) == {"for": 3}


def test_the_command_and_the_wizard_write_the_same_into_ones_own_folder(tmp_path, capsys):
    session = samples.VERIFIED
    path = write_draft(session, "cache-of-mine", date(2026, 11, 30))
    assert path.name == "cache-of-mine.yaml"
    assert path.parent.name == "memory"
    assert any(one.id == "cache-of-mine" for one in load_library())
    with pytest.raises(InputError, match="already"):
        write_draft(session, "cache-of-mine", date(2026, 11, 30))
    assert suggested_name(session).replace("-", "").isalpha()


def test_a_kept_case_becomes_a_playbook_by_a_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state = tmp_path / "vllm-console"
    case, _ = asyncio.run(keep_case(kv_deployment(tmp_path), state))
    with pytest.raises(SystemExit) as end:
        main(["playbooks", "new", "from-a-case", "--from-case", case.name])
    assert end.value.code == 2
    assert "explains this failure already" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["playbooks", "new", "from-a-case", "--from-case", case.name, "--yes"])
    assert not end.value.code
    path = Path(capsys.readouterr().out.strip())
    spec, _ = decode_text(path.read_text(), str(path), Playbook)
    assert [fix.id for fix in spec.fixes] == [SHORTER]
    assert DAY.isoformat() in case.name
    with pytest.raises(SystemExit) as end:
        main(["playbooks", "new", "another", "--from-case", "no-such-case"])
    assert end.value.code == 2
