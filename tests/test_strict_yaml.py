"""A YAML file is decoded strictly, and every mistake names its file, its line and what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest

from engine_probe.strict_yaml import MAX_BYTES, InputError, decode_file, decode_text, nearest_word

if TYPE_CHECKING:
    from pathlib import Path


class Part(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    size: int | None = None
    args: dict[str, Any] = {}
    counts: dict[str, int] = {}
    mood: Literal["good", "bad"] = "good"


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    title: str
    parts: list[Part] = []
    single: Part | None = None
    pair: tuple[int, str] | None = None


def error_of(text: str, kind: type[Any] = Whole) -> InputError:
    with pytest.raises(InputError) as caught:
        decode_text(text, "file.yaml", kind)
    return caught.value


def test_values_and_their_lines() -> None:
    text = "# head\ntitle: x\nparts:\n  - name: a\n    args: {k: 1e5, day: 2024-01-01}\n  - name: b\n    size: 0o17\n"
    whole, lines = decode_text(text, "f", Whole)
    assert whole.parts[1].size == 15
    assert whole.parts[0].args == {"k": 100000.0, "day": "2024-01-01"}
    assert lines.line_of(("parts", 1, "size")) == 7
    assert lines.line_of(("parts", 1)) == 6
    assert lines.line_of(("parts", 1, "nowhere", "deep")) == 6
    assert lines.text_of(("parts", 0, "args", "k")) == "1e5"


def test_every_unknown_key_is_reported() -> None:
    error = error_of("tilte: x\nparts:\n  - name: a\n    siez: 1\nsingle: {nmae: b}\n")
    assert [(e.line, e.nearest) for e in (error, *error.more)] == [(1, "title"), (4, "size"), (5, "name")]
    assert str(error).startswith(
        'file.yaml:1: unknown key "tilte"\n'
        "    1 | tilte: x\n"
        "      | ^^^^^\n"
        'allowed: title, parts, single, pair ; did you mean "title"?\n'
        'file.yaml:4: unknown key "siez"\n'
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("title: 1\n", 1, "title: expected text, got a whole number"),
        ("parts: []\n", 1, 'missing key "title"'),
        ("title: x\nparts:\n  - size: 1\n", 3, 'parts.0: missing key "name"'),
        ("title: x\nparts:\n  - name: a\n    counts:\n      one: 1\n      two: x\n", 6, "parts.0.counts.two: "),
        ("title: x\npair: [1, 2]\n", 2, "pair.1: expected text"),
        ("- title: x\n", 1, "expected a mapping, got a list"),
        ("just words\n", 1, "expected a mapping, got text"),
        ("title: x\ntitle: y\n", 2, 'the key "title" is here twice, first in line 1'),
        ("title: [x\n", 2, "not valid YAML"),
        ("title: x\nparts:\n\t- name: a\n", 3, "not valid YAML: a tab stands where blanks must;"),
        ("title: !!python/object:os.system x\n", 1, "the tag tag:yaml.org,2002:python/object:os.system is not allowed"),
        ("title: !secret x\n", 1, "the tag !secret is not allowed"),
        ("title: !!binary aGk=\n", 1, "is not allowed"),
        ("title: x\n? [1]\n: 2\n", 2, "a key must be a word"),
        ("title: &a [*a]\n", 1, "an alias to something that contains it"),
        ("title: *gone\n", 1, "undefined alias"),
        ("title: x\n---\ntitle: y\n", 2, "another document"),
        ("title: x\n<<: 1\n", 2, "only other mappings can be merged"),
        ("", None, "is empty"),
        ("# only a comment\n", None, "is empty"),
        ("title: \x1b[31m\n", None, "not valid YAML"),
        ("[" * 50_000, None, "nested too deeply"),
        ("title: " + "[" * 70 + "]" * 70, 1, "nested more than 60 deep"),
    ],
)  # fmt: skip
def test_one_clear_error(text: str, line: int | None, words: str) -> None:
    error = error_of(text)
    assert error.file == "file.yaml"
    assert error.line == line
    assert words in error.message
    assert "\x1b" not in str(error)


def test_allowed_words_come_with_a_wrong_one() -> None:
    error = error_of("title: x\nparts:\n  - name: a\n    mood: goood\n")
    assert (error.line, error.allowed, error.nearest) == (4, ("bad", "good"), "good")


def test_alias_bomb_is_refused() -> None:
    layers = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10))
    error = error_of(f"l0: &l0 [a, b]\n{layers}\n", dict[str, Any])
    assert "more than 200,000 values" in error.message


def test_merge_bomb_is_refused() -> None:
    layers = "\n".join(f"l{n}: &l{n} {{<<: [{', '.join([f'*l{n - 1}'] * 10)}]}}" for n in range(1, 10))
    error = error_of(f"l0: &l0 {{a: 1}}\n{layers}\n", dict[str, Any])
    assert "more than 200,000 values" in error.message


def test_merge_brings_keys_and_own_keys_win() -> None:
    text = "base: &base {a: 1, b: 2}\nnext: &next\n  <<: *base\n  b: 3\nlast: {<<: [*next, *base], c: 4}\n"
    value, lines = decode_text(text, "f", dict[str, Any])
    assert value["last"] == {"a": 1, "b": 3, "c": 4}
    assert lines.line_of(("last", "b")) == 4


def test_ten_thousand_keys_are_fine() -> None:
    text = "args:\n" + "".join(f"  k{n}: {n}\n" for n in range(10_000))
    value, lines = decode_text(text, "f", dict[str, Any])
    assert len(value["args"]) == 10_000
    assert lines.line_of(("args", "k9999")) == 10_001


def test_secrets_in_the_shown_line_are_masked() -> None:
    error = error_of("title: x\nHF_TOKEN: letmein\n")
    assert "letmein" not in str(error)
    assert error.snippet == "    2 | HF_TOKEN: ***\n      | ^^^^^^^^"


def test_long_line_is_shown_around_the_key() -> None:
    error = error_of("{title: x, single: {name: a, args: {k: '" + "y" * 5000 + "'}, worng: 1}}\n")
    assert error.snippet is not None
    assert "worng" in error.snippet
    first, carets = error.snippet.splitlines()
    assert len(first) < 200
    assert first[carets.index("^") :].startswith("worng")


def test_crlf_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbftitle: x\r\nparts:\r\n  - name: a\r\n    siez: 1\r\n")
    with pytest.raises(InputError) as caught:
        decode_file(path, Whole)
    assert caught.value.line == 4
    assert caught.value.snippet == "    4 |     siez: 1\n      |     ^^^^"


def test_what_is_no_readable_file(tmp_path: Path) -> None:
    cases: dict[str, tuple[bytes | None, str]] = {
        "gone.yaml": (None, "No such file"),
        "latin.yaml": (b"title: x\nparts: \xe9\n", "not UTF-8 text: byte 0xe9"),
        "binary.yaml": (bytes(range(256)), "not UTF-8"),
        "nul.yaml": (b"title: \0\n", "not valid YAML"),
        "big.yaml": (b"#" * (MAX_BYTES + 1), "larger than 5 MB"),
    }
    for name, (content, words) in cases.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=words) as caught:
            decode_file(tmp_path / name, Whole)
        assert caught.value.file == str(tmp_path / name)
    with pytest.raises(InputError, match="is a folder"):
        decode_file(tmp_path, Whole)


def test_nearest_word_folds_case_and_underscores() -> None:
    allowed = ("max-model-len", "max-num-seqs")
    assert nearest_word("MAX_MODEL_LEN", allowed) == "max-model-len"
    assert nearest_word("max-modle-len", allowed) == "max-model-len"
    assert nearest_word("banana", allowed) is None


@pytest.mark.parametrize(
    ("word", "wanted"),
    [("kv-cach", "kv-cache-too-small-for-max-model-len"), ("kv-cahce", "kv-cache-too-small-for-max-model-len"),
     ("KV_CACHE", "kv-cache-too-small-for-max-model-len"), ("port-take", "port-taken"), ("kv", None), ("moon", None)],
)  # fmt: skip
def test_a_word_that_was_not_typed_to_its_end_has_a_nearest(word: str, wanted: str | None) -> None:
    assert nearest_word(word, ("kv-cache-too-small-for-max-model-len", "port-taken", "model")) == wanted
