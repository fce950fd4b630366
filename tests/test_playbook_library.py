"""The library's own files, the schema for editors, and every mistake that a playbook can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine_probe.strict_yaml import InputError
from playbooks.library import library_folder, load_library, playbook_files
from playbooks.load import check_file, load_files, schema_json
from playbooks.patterns import compile_pattern, is_slow
from playbooks.template import FAMILIES, new_playbook

if TYPE_CHECKING:
    from pathlib import Path

KV = "kv-cache-too-small-for-max-model-len"


def test_every_playbook_loads() -> None:
    library = load_library()
    assert [one.id for one in library] == [path.stem for path in playbook_files(library_folder())]
    assert KV in [one.id for one in library]
    for one in library:
        assert one.path.parent.name == one.spec.family


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.timeout(300)
def test_every_file_passes_every_check(family: str) -> None:
    """Also of files that were compiled by an earlier state of the checks."""
    paths = playbook_files(library_folder() / family)
    assert paths
    for path in paths:
        check_file(path)


def test_the_schema_for_editors_is_up_to_date() -> None:
    """Write it anew: python -c 'from playbooks.load import *; print(schema_json(), end="")' >playbooks/schema.json"""
    kept = (library_folder().parent / "schema.json").read_text(encoding="utf-8")
    assert kept == schema_json()


def test_a_space_is_any_white_space_and_case_does_not_matter() -> None:
    pattern = compile_pattern("max seq len \\((?P<n>\\d+)\\)")
    found = pattern.search("MAX  seq\n   len\t(7)")
    assert found is not None
    assert found["n"] == "7"


@pytest.mark.parametrize(("pattern", "slow"), [("(a+)+$", True), ("(a|a)*b", True), ("GiB of .* free", False)])
def test_catastrophic_patterns_are_found(pattern: str, slow: bool) -> None:
    assert is_slow(compile_pattern(pattern), ("a", " ")) is slow


def check(tmp_path: Path, *changes: tuple[str, str], name: str = "my-illness") -> str:
    """The error of the template with `changes`, empty when it is fine."""
    text = new_playbook("my-illness", "memory")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        load_files([path])
    except InputError as error:
        return str(error)
    return ""


def test_the_template_is_valid(tmp_path: Path) -> None:
    assert check(tmp_path) == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title:", "titel:", 'did you mean "title"'),
        ("kind: configuration", "kind: configuratoin", '"configuration"'),
        ("cost: none", "cost: cheap", "one full start"),
        ('vllm: ">=0.5.5"', "vllm: newest", "no release range"),
        ("wrong \\((?P<limit>", "wrong ((?P<limit>", "does not compile"),
        ("this line says what is wrong \\((?P<limit>\\d+)\\)", "(x+x+)+y (?P<limit>\\d+)", "takes too long"),
        ("facts: {limit: 16}", "facts: {limit: 17}", "yields {'limit': 16}"),
        ('line: "ValueError: this line', 'line: "ValueError: that line', "must match, and does not"),
        ('line: "INFO: everything is fine"', 'line: "this line says what is wrong (1)"', "must not match"),
        ("  any:\n", "  unless: [{log: fine, see: no-such-illness}]\n  any:\n", "no playbook 'no-such-illness'"),
        ("refute: [launch.max_model_len is unset]", "refute: []", "nothing can refute"),
        ("is unset]", "is undone]", "is` comes one of"),
        ("refute: [launch.max_model_len", "refute: [launch.max_model_length", 'did you mean "launch.max_model_len"'),
        ("ask: [launch.max_model_len]", "ask: [launch.max_len]", "no fact 'launch.max_len'"),
        ("ask: [launch.max_model_len]", "run: build-engine-confg", 'did you mean "build-engine-config"'),
        ("      ask: [launch.max_model_len]\n", "", "either `ask` or `run`"),
        ("fixes: [first-fix]", "fixes: [first-fx]", 'did you mean "first-fix"'),
        ("fixes: [first-fix]", "fixes: []", "no hypothesis leads to the fix 'first-fix'"),
        ('set: {args.max-model-len: "{limit}"}', "set: {args.max-model-len: 1, args.dtype: half}", "here are 2"),
        ('set: {args.max-model-len: "{limit}"}', "set: {models: other}", "cannot be set by a playbook"),
        ('set: {args.max-model-len: "{limit}"}', 'set: {args.max-model-len: "{limits}"}', 'did you mean "limit"'),
        ('set: {args.max-model-len: "{limit}"}', "set: {}", "either `set` or `steps`"),
        ("needs: [limit]", "needs: [limit, kv.token]", 'did you mean "kv.tokens"'),
        ("expect: [engine.max_model_len ==", "expect: [engine.max_model_len =", "is no condition"),
        ("expect: [engine.max_model_len == launch.max_model_len]", "expect: []", "must promise something"),
        ("http: GET /health", "http: /health", "not of the form"),
        ("request: one-short-completion", "request: one-short-completon", 'did you mean "one-short-completion"'),
        ("within: 300s", "within: soon", "neither `start` nor seconds"),
        ("http: GET /health", "http: GET /health\n    log: x", "exactly one of"),
        ("  - id: answers\n", "  - id: healthy\n", "is there twice"),
        ("playbook: my-illness ", "playbook: her-illness ", "must equal the file's name"),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, said: str) -> None:
    error = check(tmp_path, (old, new))
    assert said in error
    assert "my-illness.yaml:" in error
    line = error.split("my-illness.yaml:", 1)[1].split(":")[0]
    assert int(line) > 0


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    error = check(tmp_path, ("within: 300s", "within: soon"), ("needs: [limit]", "needs: [limt]"))
    assert "neither `start` nor seconds" in error
    assert "no fact 'limt'" in error


def test_a_wording_without_a_sample_is_a_mistake(tmp_path: Path) -> None:
    error = check(tmp_path, ("samples:\n", "    - {id: other, log: something else}\nsamples:\n"))
    assert "no sample under samples.match proves other" in error


def test_steps_of_one_change_each(tmp_path: Path) -> None:
    one = 'set: {args.max-model-len: "{limit}"}   # exactly one variable'
    steps = "steps: [{set: {args.max-model-len: 8}, expect: [kv.tokens >= 8]}, {set: {gpus: '0'}}]"
    assert check(tmp_path, (one, steps)) == ""
    assert "here are 2" in check(tmp_path, (one, "steps: [{set: {args.max-model-len: 8, gpus: '0'}}]"))


def test_an_id_is_there_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    paths = [tmp_path / folder / "my-illness.yaml" for folder in ("a", "b")]
    for path in paths:
        path.write_text(new_playbook("my-illness", "memory"), encoding="utf-8")
    with pytest.raises(InputError, match="is also that of"):
        load_files(paths)


@pytest.mark.parametrize(("name", "family"), [("My Illness", "memory"), ("my-illness", "memroy")])
def test_a_new_playbook_needs_a_name_and_a_family(name: str, family: str) -> None:
    with pytest.raises(InputError):
        new_playbook(name, family)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("out of memory", "OUT of\n  memory", True),
        ("out of memory", "outof memory", False),
        ("size ?= ?4", "size=4", True),
        ("size ?= ?4", "size  =\n4", True),
        ("a {2,3}b", "a  b", True),
        ("a {2,3}b", "a b", False),
        ("a *b", "ab", True),
        (r"a\ b", "a b", True),
        (r"a\ b", "a  b", False),
    ],
)
def test_spaces_of_a_pattern(pattern: str, text: str, matches: bool) -> None:
    assert (compile_pattern(pattern).fullmatch(text) is not None) == matches
