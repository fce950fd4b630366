"""Deployment files: read strictly, changed one line at a time, undone to the byte."""

from __future__ import annotations

import stat
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.command_line import parse_command
from engine_probe.deployment import change, deployment_yaml, diff, diff_launch, read_deployment
from engine_probe.errors import InputError
from engine_probe.launch import Deployment, EngineSpec, Launch
from engine_probe.revisions import Revision, undo_revision, write_revision

if TYPE_CHECKING:
    from pathlib import Path

FILE = """\
# Two models on one host.   Do not touch the spacing!
engine:   {python: /opt/vllm/bin/python}   # ours

start:  sequential
models:
# the big one
-   name: chat-70b        # odd indentation is ours
    model: "org/Chat-70B"
    gpus: [0,1,   2, 3]
    args:
         tensor-parallel-size:   4    # one per GPU
         'gpu-memory-utilization': 0.90

         max_model_len: 8_192
         no-enable-prefix-caching: true
    # environment comes last
    env: { VLLM_LOGGING_LEVEL: INFO,   RETRIES: 010 }

# the small one
-
    name: code-13b
    model: org/code-13b
    gpus:
      - 0
    args: {}
    lora:
      support: adapters/support   # trained in May

# the end
"""


def written(folder: Path, text: str = FILE) -> Path:
    path = folder / "deployment.yaml"
    path.write_bytes(text.encode())
    return path


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def lines_that_differ(before: str, after: str) -> tuple[list[str], list[str]]:
    old, new = before.splitlines(), after.splitlines()
    gone = [line for line in old if line not in new]
    come = [line for line in new if line not in old]
    assert [line for line in old if line not in gone] == [line for line in new if line not in come]
    return gone, come


def test_reads_what_is_written(tmp_path: Path) -> None:
    deployment = read_deployment(written(tmp_path))
    assert deployment.engine == EngineSpec(python="/opt/vllm/bin/python")
    assert deployment.start == "sequential"
    chat, code = deployment.models
    assert (chat.name, chat.model, chat.gpus) == ("chat-70b", "org/Chat-70B", (0, 1, 2, 3))
    assert dict(chat.args) == {
        "tensor-parallel-size": 4,
        "gpu-memory-utilization": 0.9,
        "max-model-len": 8192,
        "enable-prefix-caching": False,
    }
    assert dict(chat.env) == {"VLLM_LOGGING_LEVEL": "INFO", "RETRIES": "010"}
    assert dict(code.lora) == {"support": "adapters/support"}
    assert code.argv()[-3:] == ["--enable-lora", "--lora-modules", "support=adapters/support"]


def test_paths_are_relative_to_the_file_and_folders_win_over_hub_ids(tmp_path: Path) -> None:
    (tmp_path / "org" / "model").mkdir(parents=True)
    (tmp_path / "chat.jinja").write_text("x")
    text = (
        "models:\n- {name: a, model: org/model, args: {chat-template: chat.jinja, tokenizer: org/other}}\n"
        "- {name: b, model: org/other}\n- {name: c, model: ./gone}\n- {name: d, model: /abs/gone}\n"
    )
    a, b, c, d = read_deployment(written(tmp_path, text)).models
    assert a.model == str(tmp_path / "org" / "model")
    assert dict(a.args) == {"chat-template": str(tmp_path / "chat.jinja"), "tokenizer": "org/other"}
    assert (b.model, c.model, d.model) == ("org/other", str(tmp_path / "gone"), "/abs/gone")


def test_values_mean_what_the_command_line_means(tmp_path: Path) -> None:
    text = (
        "models:\n- name: m\n  model: org/m\n  args:\n    max-model-len: 4k\n    revision: 123e4567\n    tp: 2\n"
        "    served-model-name: [a, b]\n    compilation-config: {mode: 3, sizes: [1, 2]}\n    enforce_eager: true\n"
        "    speculative-config.method: ngram\n    optimization-level: 3\n"
    )
    (launch,) = read_deployment(written(tmp_path, text)).models
    same = parse_command(
        "vllm serve org/m --max-model-len 4000 --revision 123e4567 -tp 2 --served-model-name a b --enforce-eager -O3"
        ' --speculative-config.method ngram --compilation-config \'{"sizes": [1,2], "mode": 3}\'',
        name="m",
    )
    assert launch == same
    assert parse_command(launch.argv(), name="m") == launch


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("models:\n- {name: a, modle: m}\n", 2, 'unknown key "modle"'),
        ("modles: []\n", 1, 'unknown key "modles"'),
        ("models:\n- name: a\n  model: m\n  args:\n    max-modle-len: 1\n", 5, 'unknown key "max-modle-len": '),
        ("models:\n- name: a\n  model: m\n  engine: {pyhton: x}\n", 4, 'unknown key "pyhton"'),
        ("models:\n- name: a\n  model: m\n  gpus: [0, x]\n", 4, "models.0.gpus.1: expected a whole number, got text"),
        ("models:\n- name: a\n  model: m\n  gpus: 0\n", 4, "models.0.gpus: expected"),
        ("models:\n- name: a\n  model: m\n  gpus: [true]\n", 4, "expected a whole number, got true or false"),
        ("models:\n- name: a\n  model: m\n  gpus: [0, -1]\n", 4, "-1 is no GPU index"),
        ("models:\n- name: a\n  model: m\n  gpus: [1,\n    1]\n", 5, "1 is here twice"),
        ("models:\n- name: a\n  model: m\n  gpus: []\n", 4, "at least one is wanted"),
        ("models:\n- name: a\n  model: m\n- name: a\n  model: n\n", 4, 'the name "a" is taken already in line 2'),
        ("models: []\n", 1, "at least one is wanted"),
        ("models:\n- name: a\n", 2, 'models.0: missing key "model"'),
        ("models: {}\n", 1, "models: expected a list, got a mapping"),
        ("start: paralel\nmodels:\n- {name: a, model: m}\n", 1, "start: invalid"),
        ("models:\n- name: a\n  model: m\n  args:\n    tp: 1\n    tensor_parallel_size: 2\n", 6, "once more"),
        ("models:\n- name: a\n  model: m\n  args:\n    model: n\n", 5, "beside args"),
        ("models:\n- name: a\n  model: m\n  args:\n    seed:\n", 5, "a value is wanted"),
        ("models:\n- name: a\n  model: m\n  args:\n    enforce-eager: 3\n", 5, "true or false is wanted"),
        ("models:\n- name: a\n  model: m\n  args:\n    max-num-seqs: true\n", 5, "a number is wanted"),
        ("models:\n- name: a\n  model: m\n  args:\n    dtype: [half]\n", 5, "one value is wanted, not a list"),
        ("models:\n- name: a\n  model: m\n  args:\n    api-key: {a: b}\n", 5, "api-key: words are wanted"),
        ("models:\n- name: a\n  model: m\n  args:\n    middleware: [a, {b: c}]\n", 5, "words are wanted"),
        ("models:\n- name: a\n  model: m\n  env:\n    A: [1]\n", 5, "models.0.env.A: expected"),
        ("models:\n- name: a\n  model: ''\n", 3, "a folder or a hub id is wanted"),
        ("engine: {image: a, ssh: b}\nmodels:\n- {name: a, model: m}\n", 1, "one way, not two: image and ssh"),
        ("engine: {}\nmodels:\n- {name: a, model: m}\n", 1, "engine: name"),
        ("models:\n- name: a\n\tmodel: m\n", 3, "a tab"),
        ("models:\n- name: !!python/object:os.system a\n  model: m\n", 2, "is not allowed"),
        ("models:\n- name: a\n  name: b\n", 3, "is here twice, first in line 2"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_deployment(path)
    assert words in caught.value.message
    assert (caught.value.file, caught.value.line) == (str(path), line)


def test_more_models_than_a_host_has_are_refused_before_anything_is_done_with_them(tmp_path: Path) -> None:
    text = "models:\n" + "".join(f"- {{name: m{number}, model: m}}\n" for number in range(501))
    with pytest.raises(InputError, match="501 are named, and at most 500 are read") as caught:
        read_deployment(written(tmp_path, text))
    assert caught.value.line == 502
    with pytest.raises(InputError, match="at most 256,000 are read"):
        read_deployment(written(tmp_path, text * 30))


def test_all_unknown_flags_are_named_at_once(tmp_path: Path) -> None:
    text = "models:\n- {name: a, model: m, args: {max-modle-len: 1, gpu-memory-utilisation: 0.5, banana: 1}}\n"
    with pytest.raises(InputError) as caught:
        read_deployment(written(tmp_path, text))
    errors = (caught.value, *caught.value.more)
    assert [error.nearest for error in errors] == ["max-model-len", "gpu-memory-utilization", None]
    with pytest.raises(InputError, match="max-modle-len"):
        read_deployment(tmp_path / "deployment.yaml", frozenset({"banana", "gpu-memory-utilisation"}))


def test_new_file_reads_back_as_the_same_deployment(tmp_path: Path) -> None:
    models = (
        Launch("a b", "/abs/m", {"-tp": 2, "speculative-config": '{"a":"it\'s"}', "served-model-name": ("yes", "1")},
               {"A": "true", "B": "1e5", "C": "x: y # z", "D": "", "E": "ü\x07"}, (0, 1)),
        Launch("b", "org/m", {"enable-prefix-caching": False, "gpu-memory-utilization": 1e-05, "revision": "0123"},
               lora={"x": "/y"}, engine=EngineSpec(image="vllm/vllm-openai:v0.11.0", run="podman")),
    )  # fmt: skip
    deployment = Deployment(models, EngineSpec(ssh="host"), "parallel")
    path = written(tmp_path, deployment_yaml(deployment))
    assert replace(read_deployment(path), path=None) == deployment


ONE_LINE: list[tuple[str, str, Any, str, str]] = [
    ("chat-70b", "args.tensor-parallel-size", 2, "         tensor-parallel-size:   4    # one per GPU",
     "         tensor-parallel-size:   2    # one per GPU"),
    ("chat-70b", "args.gpu-memory-utilization", 0.55, "         'gpu-memory-utilization': 0.90",
     "         'gpu-memory-utilization': 0.55"),
    ("chat-70b", "args.max-model-len", 4096, "         max_model_len: 8_192", "         max_model_len: 4096"),
    ("chat-70b", "args.enable-prefix-caching", True, "         no-enable-prefix-caching: true",
     "         no-enable-prefix-caching: false"),
    ("chat-70b", "args.kv-cache-dtype", "fp8", "", "         kv-cache-dtype: fp8"),
    ("chat-70b", "args.tensor-parallel-size", None, "         tensor-parallel-size:   4    # one per GPU", ""),
    ("chat-70b", "args.no-enable-prefix-caching", None, "         no-enable-prefix-caching: true", ""),
    ("chat-70b", "gpus", (4, 5), "    gpus: [0,1,   2, 3]", "    gpus: [4, 5]"),
    ("chat-70b", "gpus", None, "    gpus: [0,1,   2, 3]", ""),
    ("chat-70b", "env.RETRIES", "11", "    env: { VLLM_LOGGING_LEVEL: INFO,   RETRIES: 010 }",
     '    env: { VLLM_LOGGING_LEVEL: INFO,   RETRIES: "11" }'),
    ("chat-70b", "env.NEW", "x y", "    env: { VLLM_LOGGING_LEVEL: INFO,   RETRIES: 010 }",
     '    env: { VLLM_LOGGING_LEVEL: INFO,   RETRIES: 010, NEW: "x y" }'),
    ("chat-70b", "env.VLLM_LOGGING_LEVEL", None, "    env: { VLLM_LOGGING_LEVEL: INFO,   RETRIES: 010 }",
     "    env: { RETRIES: 010 }"),
    ("chat-70b", "env.RETRIES", None, "    env: { VLLM_LOGGING_LEVEL: INFO,   RETRIES: 010 }",
     "    env: { VLLM_LOGGING_LEVEL: INFO }"),
    ("chat-70b", "model", "/models/other", '    model: "org/Chat-70B"', "    model: /models/other"),
    ("chat-70b", "lora.new", "/x", "", "    lora: {new: /x}"),
    ("code-13b", "args.seed", 7, "    args: {}", "    args: {seed: 7}"),
    ("code-13b", "env.A", "1", "", '    env: {A: "1"}'),
    ("code-13b", "lora.support", "/x", "      support: adapters/support   # trained in May",
     "      support: /x   # trained in May"),
    ("code-13b", "lora.other", "/y", "", "      other: /y"),
    ("code-13b", "deployment.launches.chat-70b.args.seed", 7, "", "         seed: 7"),
]  # fmt: skip


@pytest.mark.parametrize(("launch", "key", "value", "gone", "come"), ONE_LINE)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_one_line_of_the_file_differs(
    tmp_path: Path, launch: str, key: str, value: Any, gone: str, come: str, newline: str
) -> None:
    path = written(tmp_path, FILE.replace("\n", newline))
    before = path.read_bytes()
    deployment = read_deployment(path)
    revision = write_revision(path, deployment, launch, key, value)
    after = path.read_bytes().decode()
    assert lines_that_differ(FILE, after.replace("\r\n", "\n")) == ([gone] * bool(gone), [come] * bool(come))
    assert after.count("\r\n") == (after.count("\n") if newline == "\r\n" else 0)
    assert read_deployment(path) == revision.after == change(deployment, launch, key, value)
    assert revision.kept.read_bytes() == before
    signs = [line[0] for line in revision.diff if line[0] in "+-"]
    assert signs in (["-", "+"], ["+"], ["-"])
    assert undo_revision(path, revision) == deployment
    assert path.read_bytes() == before
    assert not revision.kept.exists()


def test_block_list_becomes_one_line(tmp_path: Path) -> None:
    path = written(tmp_path)
    write_revision(path, read_deployment(path), "code-13b", "gpus", "4")
    assert lines_that_differ(FILE, path.read_text()) == (["    gpus:", "      - 0"], ["    gpus: [4]"])


def test_last_key_of_a_mapping_takes_the_mapping_with_it(tmp_path: Path) -> None:
    path = written(tmp_path)
    write_revision(path, read_deployment(path), "code-13b", "lora.support", None)
    gone, come = lines_that_differ(FILE, path.read_text())
    assert (gone, come) == (["    lora:", "      support: adapters/support   # trained in May"], [])


def test_the_word_unset_takes_an_argument_away(tmp_path: Path) -> None:
    path = written(tmp_path)
    before = read_deployment(path)
    name = next(iter(before.models[0].args))
    revision = write_revision(path, before, before.models[0].name, f"args.{name}", "unset")
    assert name not in read_deployment(path).models[0].args
    undo_revision(path, revision)
    assert path.read_text() == FILE


def test_models_start_one_after_the_other_or_together(tmp_path: Path) -> None:
    path = written(tmp_path, "start: parallel  # at once\nmodels:\n  - {name: a, model: m}\n")
    revision = write_revision(path, read_deployment(path), None, "deployment.start", "sequential")
    assert path.read_text() == "start: sequential  # at once\nmodels:\n  - {name: a, model: m}\n"
    assert revision.diff == ("-  start: parallel", "+  start: sequential")
    with pytest.raises(InputError, match=r"one of two ways(.|\n)*sequential"):
        write_revision(path, read_deployment(path), None, "deployment.start", "sequentially")


def test_order_moves_items_with_their_comments(tmp_path: Path) -> None:
    path = written(tmp_path)
    deployment = read_deployment(path)
    revision = write_revision(path, deployment, None, "deployment.order", "code-13b, chat-70b")
    text = path.read_text()
    assert sorted(text.splitlines()) == sorted(FILE.splitlines())
    assert [launch.name for launch in read_deployment(path).models] == ["code-13b", "chat-70b"]
    assert text.index("# the small one") < text.index("code-13b") < text.index("chat-70b") < text.index("# the end")
    assert revision.diff == ("-  deployment.order: [chat-70b, code-13b]", "+  deployment.order: [code-13b, chat-70b]")
    undo_revision(path, revision)
    assert path.read_text() == FILE


@pytest.mark.parametrize(
    ("text", "come"),
    [
        ("models: [{name: a, model: m}]", "models: [{name: a, model: m, args: {seed: 1}}]"),
        ("models:\n  - name: a\n    model: m\n    args:\n", "    args: {seed: 1}"),
        ("models:\n  - name: a\n    model: m\n    args: # none yet\n", "    args: {seed: 1} # none yet"),
        ("models:\n- name: a\n  args: {\n      max-num-seqs: 1,\n    }\n  model: m", "      max-num-seqs: 1, seed: 1"),
        ("models:\n  - model: m\n    name: a", "    args: {seed: 1}"),
        ("models:\n  - args:\n      seed: 0\n    model: m\n    name: a\n", "      seed: 1"),
        ("models:\n  - model: m\n    name: a\n    args:\n      dtype: >-\n        half\n\n\n# end\n", "      seed: 1"),
        ("x: &s 5\nmodels: []\n", ""),
    ],
)  # fmt: skip
def test_other_ways_to_write_the_file(tmp_path: Path, text: str, come: str) -> None:
    path = written(tmp_path, text)
    if not come:
        with pytest.raises(InputError):
            read_deployment(path)
        return
    write_revision(path, read_deployment(path), "a", "args.seed", 1)
    assert come in path.read_text().splitlines()
    assert read_deployment(path).models[0].arg("seed") == 1


def test_aliased_values_are_never_changed_for_others(tmp_path: Path) -> None:
    text = (
        "models:\n- name: a\n  model: m\n  args: &common\n    seed: &s 1\n- name: b\n  model: m\n  args: *common\n"
        "- name: c\n  model: m\n  args:\n    <<: *common\n    max-num-seqs: *s\n"
    )
    path = written(tmp_path, text)
    deployment = read_deployment(path)
    for launch in ("a", "b"):
        with pytest.raises(InputError, match=r"shared|alone"):
            write_revision(path, deployment, launch, "args.seed", 2)
    assert path.read_text() == text
    assert names_in(tmp_path) == ["deployment.yaml"]
    revision = write_revision(path, deployment, "c", "args.max-num-seqs", 9)
    assert "    max-num-seqs: 9" in path.read_text()
    write_revision(path, revision.after, "c", "args.seed", 5)
    assert [launch.arg("seed") for launch in read_deployment(path).models] == [1, 1, 5]


def test_changed_file_is_not_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path)
    deployment = read_deployment(path)
    path.write_text(FILE + "# a colleague was here\n")
    with pytest.raises(InputError, match="changed on disk"):
        write_revision(path, deployment, "chat-70b", "args.seed", 1)
    with pytest.raises(InputError, match="changed on disk"):
        write_revision(path, replace(deployment, digest=None), "chat-70b", "args.seed", 1)
    assert path.read_text().endswith("here\n")
    assert names_in(tmp_path) == ["deployment.yaml"]
    revision = write_revision(path, read_deployment(path), "chat-70b", "args.seed", 1)
    path.write_text("other")
    with pytest.raises(InputError, match="changed on disk"):
        undo_revision(path, revision)
    assert path.read_text() == "other"


def test_kept_file_that_changed_is_no_way_back(tmp_path: Path) -> None:
    path = written(tmp_path)
    revision = write_revision(path, read_deployment(path), "chat-70b", "args.seed", 1)
    revision.kept.write_text("models: []\n")
    with pytest.raises(InputError, match="since it was kept"):
        undo_revision(path, revision)
    assert read_deployment(path) == revision.after


def test_revisions_are_numbered_on_and_undone_in_turn(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "deployment.yaml.r7").write_text("kept by hand")
    deployment = read_deployment(path)
    revisions: list[Revision] = []
    for seed in (1, 2, 3):
        before = revisions[-1].after if revisions else deployment
        revisions.append(write_revision(path, before, "chat-70b", "args.seed", seed))
    assert [revision.kept.name for revision in revisions] == [f"deployment.yaml.r{n}" for n in (8, 9, 10)]
    with pytest.raises(InputError):
        undo_revision(path, revisions[0])
    for revision in reversed(revisions):
        undo_revision(path, revision)
    assert path.read_text() == FILE
    assert (tmp_path / "deployment.yaml.r7").read_text() == "kept by hand"


def test_link_mode_and_byte_order_mark_stay(tmp_path: Path) -> None:
    real = tmp_path / "real" / "d.yaml"
    real.parent.mkdir()
    real.write_bytes(b"\xef\xbb\xbf" + FILE.encode())
    real.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(real)
    revision = write_revision(link, read_deployment(link), "chat-70b", "args.seed", 1)
    assert link.is_symlink()
    assert real.read_bytes().startswith(b"\xef\xbb\xbf# Two")
    assert "seed: 1" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == stat.S_IMODE(revision.kept.stat().st_mode) == 0o640
    assert revision.kept == real.with_name("d.yaml.r1")
    assert names_in(real.parent) == ["d.yaml", "d.yaml.r1"]


def test_nothing_is_written_for_a_change_that_cannot_be(tmp_path: Path) -> None:
    path = written(tmp_path)
    deployment = read_deployment(path)
    cases: list[tuple[str | None, str, int | str, str]] = [
        ("chat-7b", "args.seed", 1, 'no launch "chat-7b"'),
        ("chat-70b", "arg.seed", 1, "cannot be changed in a deployment"),
        ("chat-70b", "files.config", 1, "cannot be changed in a deployment"),
        ("chat-70b", "gpus", "0,0", "different whole numbers"),
        ("chat-70b", "gpus", "GPU-1", "different whole numbers"),
        (None, "deployment.order", "chat-70b", "names every launch once"),
        ("chat-70b", "args.banana", 1, 'unknown key "banana"'),
        ("chat-70b", "args.tensor-parallel-size", 4, "nothing to change"),
        (None, "args.seed", 1, "no launch"),
    ]
    for launch, key, value, words in cases:
        with pytest.raises(InputError, match=words):
            write_revision(path, deployment, launch, key, value)
    assert path.read_text() == FILE
    assert names_in(tmp_path) == ["deployment.yaml"]


def test_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    deployment = read_deployment(path)

    def full(*_args: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine_probe.revisions.os.fsync", full)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        write_revision(path, deployment, "chat-70b", "args.seed", 1)
    assert path.read_text() == FILE
    assert names_in(tmp_path) == ["deployment.yaml"]


def test_diff_shows_one_line_for_one_change() -> None:
    a = Launch("a", "m", {"max-model-len": 8192}, {"HF_TOKEN": "x"}, (0,))
    deployment = Deployment((a, Launch("b", "m")))
    changed = change(deployment, "a", "args.max-model-len", 4096)
    assert diff(deployment, changed) == ("   a:", "-  args.max-model-len: 8192", "+  args.max-model-len: 4096")
    assert diff_launch(a, a.with_gpus([4])) == ("-  gpus: [0]", "+  gpus: [4]")
    assert diff_launch(a, a.with_arg("seed", 1)) == ("+  args.seed: 1",)
    assert diff_launch(a, a.without_arg("max-model-len")) == ("-  args.max-model-len: 8192",)
    assert diff_launch(a, a.with_env("HF_TOKEN", "y")) == ("-  env.HF_TOKEN: ***", "+  env.HF_TOKEN: ***")
    assert diff(deployment, deployment) == ()
    assert diff(deployment, replace(deployment, models=(a,))) == ("-  launch: b",)
    assert diff(Deployment((a,)), change(Deployment((a,)), None, "args.seed", 1)) == ("+  args.seed: 1",)


def test_ten_thousand_keys_are_read_and_changed(tmp_path: Path) -> None:
    env = "".join(f"    V{number}: x\n" for number in range(10_000))
    path = written(tmp_path, f"models:\n- name: a\n  model: m\n  env:\n{env}")
    deployment = read_deployment(path)
    write_revision(path, deployment, "a", "env.V9999", "z")
    assert path.read_text().endswith("    V9998: x\n    V9999: z\n")
