"""What holds for any bytes and any way in which they come, tried on many: nothing raises, splits change nothing, and no
control character of a log reaches the terminal.
"""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from vllm_log_samples import LOAD, SHAPES

from engine_probe.logs.attempts import attempts
from engine_probe.logs.covers import read_wrappers
from engine_probe.logs.follow import FollowedLog
from engine_probe.logs.index import LogIndex, open_log
from engine_probe.logs.index_blocks import BLOCK_BYTES, LONGEST_SHOWN_BYTES
from engine_probe.logs.index_keys import without_colours
from engine_probe.logs.index_search import compile_pattern
from engine_probe.logs.index_stream import PipeCutter, Stream
from engine_probe.logs.index_time import Bound, Span
from engine_probe.logs.index_wanted import Wanted
from engine_probe.logs.lines import read_line
from engine_probe.logs.records import read_text
from engine_probe.logs.sources import Source
from engine_probe.logs.stages import Wordings, read_wordings
from engine_probe.redact import _mask_all, mask
from tui.commands.logs_print import LinePrinter
from tui.commands.logs_stages import StagePrinter
from tui.output import Output
from tui.widgets.clean_text import MOST_CHARACTERS, clean
from tui.widgets.log_view_rows import row_of_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine_probe.logs.index_stream import LogLine

repeatable = settings(max_examples=60, deadline=None, derandomize=True, database=None)

LINES = [line + b"\n" for shape in SHAPES.values() for line in shape.split(b"\n")]
PIECES = [
    *(b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"\x1b[0m", b"\x1b[2J", b"\x1b]0;title\x07", b"\x1b]52;c;aGk=\x1b\\"),
    *(b"\x9b31m", b"\xc2\x9b2J", b"\x1bP1;2q", b"\x1b", b"\x08\x7f", b"\xe2\x80\xaeevil", b"\xed\xa0\x80", b"\xf0\x9f"),
    *(b"[bold]x[/]", b"[@click=app.quit]y[/]", b"\\[", b"{", b'{"log": "', b'\\n"}', b'{"asctime": "', b'"message": "'),
    *(b"(INFO) pid=1", b"(APIServer pid=10) INFO 03-02 10:11:12 [", b"a.py:1] ", b"INFO:     1", b"vllm-1  | "),
    *(b"Traceback (most recent call last):\n", b'  File "/x/vllm/a.py", line 1, in f\n', b"ValueError: x\n", b"%|"),
    *(b"99999999999999999999", "٣²𝔘".encode(), b" [repeated 7x across cluster]", b"x" * 300),
]
FAILED_LOAD = (
    (Path(__file__).parent / "data" / "vllm-0.32.0-cpu-kv-too-small.log").read_bytes().splitlines(keepends=True)
)
stretches = st.tuples(st.integers(0, len(FAILED_LOAD)), st.integers(1, 30)).map(
    lambda place: b"".join(FAILED_LOAD[place[0] : sum(place)])
)
contents = st.lists(
    st.sampled_from(LINES) | st.sampled_from(PIECES) | st.binary(max_size=9) | stretches, max_size=30
).map(b"".join)
cuts = st.lists(st.floats(0, 1), max_size=5)


def parts_of(content: bytes, places: list[float]) -> list[bytes]:
    at = [0, *sorted(int(place * len(content)) for place in places), len(content)]
    return [content[start:end] for start, end in pairwise(at)]


@contextlib.contextmanager
def file_of(content: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        path.write_bytes(content)
        yield path


def indexed(log: LogIndex) -> LogIndex:
    while not log.advance():
        pass
    return log


def all_lines(log: LogIndex) -> list[LogLine]:
    return log.lines(0, log.line_count)


def index_lines(content: bytes) -> list[LogLine]:
    with file_of(content) as path:
        log = indexed(open_log(path))
        lines = all_lines(log)
        log.close()
    return lines


@pytest.fixture(scope="module")
def wordings() -> Wordings:
    return read_wordings()


# Splits

HEAD_BYTES = LOAD.index(b"\n") + 1


def of_one_release(content: bytes) -> bytes:
    """Behind a line that tells the release. One that is told later holds for all lines that are read with it."""
    return LOAD[:HEAD_BYTES] + content.replace(b"0.32.0", b"0.13.0")


@repeatable
@given(contents, cuts)
def test_any_split_gives_the_same_records(wordings: Wordings, content: bytes, places: list[float]) -> None:
    assert read_text(parts_of(content, places), wordings=wordings) == read_text([content], wordings=wordings)


@repeatable
@given(contents, cuts)
def test_any_split_gives_the_same_lines_of_an_index(content: bytes, places: list[float]) -> None:
    content = of_one_release(content)
    with file_of(content[:HEAD_BYTES]) as path:
        log = open_log(path)
        for part in parts_of(content[HEAD_BYTES:], places):
            indexed(log)
            with path.open("ab") as file:
                file.write(part)
        lines = all_lines(indexed(log))
        log.close()
    assert lines == index_lines(content)
    assert len(lines) == content.count(b"\n") + (not content.endswith(b"\n") and bool(content))


@repeatable
@given(contents, cuts)
def test_any_split_gives_the_same_lines_of_a_pipe(content: bytes, places: list[float]) -> None:
    stream, cutter = Stream(), PipeCutter()
    content = of_one_release(content)
    parts = [content[:HEAD_BYTES], *parts_of(content[HEAD_BYTES:], places)]
    blocks = [*(cutter.feed(part) for part in parts), cutter.finish()]
    lines = [line for block in blocks if block is not None for line in stream.feed(block)]
    assert lines == index_lines(content)


# Any bytes


@repeatable
@given(contents)
def test_no_bytes_make_reading_raise(wordings: Wordings, content: bytes) -> None:
    records = read_text([content], wordings=wordings)
    assert all(one.first_line <= one.last_line for one in records)
    assert sum(len(one.records) for one in attempts(records, read_wrappers())) == len(records)
    for line in content.decode("utf-8", "replace").split("\n"):
        assert isinstance(read_line(line).message, str)


@repeatable
@given(contents)
def test_no_bytes_make_an_index_raise(content: bytes) -> None:
    with file_of(content) as path:
        log = indexed(open_log(path))
        search = log.search(compile_pattern("INFO"))
        while not search.advance(0.0):
            pass
        assert search.count == sum(b"INFO" in line for line in _without_drawing(log))
        for wanted in (
            Wanted(),
            Wanted(levels=frozenset({"ERROR"}), rank=0, model="m-7b"),
            Wanted(span=Span(since=Bound(b"03-02 10:11:40"))),
        ):
            counting = log.filtering(wanted, counts_only=True)
            while not counting.advance():
                pass
            assert counting.count == len(log.filter(wanted))
        errors = _errors(log)
        assert errors == sorted(set(errors))
        assert log.last_error(log.line_count) == (errors[-1] if errors else None)
        assert [first for first, _ in log.stage_changes()] == sorted({first for first, _ in log.stage_changes()})
        assert log.models() == sorted(log.models())
        assert len(log.tail(5)) <= 5
        log.close()


def _without_drawing(log: LogIndex) -> list[bytes]:
    return [without_colours(log.bytes_of(number)) for number in range(log.line_count)]


def _errors(log: LogIndex) -> list[int]:
    found, line = [], log.next_error(-1)
    while line is not None:
        found.append(line)
        line = log.next_error(line)
    return found


@settings(repeatable, max_examples=25)
@example(b"no time\n" + LOAD, LOAD + b"\n", [0.5])
@given(contents, contents, cuts)
def test_a_filter_that_goes_on_finds_what_one_at_the_end_finds(first: bytes, then: bytes, places: list[float]) -> None:
    with file_of(first) as path:
        log = indexed(open_log(path))
        all_wanted = (
            Wanted(levels=frozenset({"INFO", "ERROR"}), layers=frozenset({"engine", "frontend"})),
            Wanted(model="m-7b"),
            Wanted(span=Span(since=Bound(b"10:11:40"))),
        )
        going = [log.filtering(wanted) for wanted in all_wanted]
        for part in parts_of(then, places):
            for one in going:
                while not one.advance():
                    pass
            with path.open("ab") as file:
                file.write(part)
            indexed(log)
        for wanted, one in zip(all_wanted, going, strict=True):
            while not one.advance(0.0):
                pass
            assert one.selection().mask == log.filter(wanted).mask
            assert one.count == len(one.selection())
        log.close()


@repeatable
@given(contents)
@example(b"TOKENSECRET=abcdef MYKEY = abcdef max_tokens=1")
def test_the_quick_look_lets_no_secret_through(content: bytes) -> None:
    secrets = (
        *("HF_TOKEN=abcdef1", "api_key = 'x'", "--hf-token abc", "?sig=abc", "http://u:p@h", "PASSWORD: x"),
        *("max_tokens=5", "hf_" + "a1" * 12, "Bearer abcdef.1", "X_SECRET='q'", "'x-api-key': 'w'"),
        *('"db_password": "pw1"', r"\"db_password\": \"pw1\"", "--db-password pw4", "token=abc", "my-credential: x"),
    )
    chance = random.Random(content)
    text = content.decode("utf-8", "replace")
    for _ in range(4):
        mixed = text[: chance.randrange(40)] + chance.choice(secrets) + chance.choice((" ", "", "&", "s=")) + text[:60]
        assert mask(mixed) == mask(_mask_all(mixed))


# The terminal


def has_controls(text: str) -> bool:
    return any((ord(sign) < 0x20 and sign != "\t") or 0x7F <= ord(sign) < 0xA0 for sign in text)


@repeatable
@given(contents, st.sampled_from([LinePrinter, StagePrinter]), st.booleans())
def test_nothing_that_is_printed_drives_the_terminal(
    content: bytes, printer: type[LinePrinter | StagePrinter], as_json: bool
) -> None:
    lines = index_lines(LOAD + b"\n" + content)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        printing = printer(Output(as_json=as_json), "no")
        printing.lines(Source("file", "a.log"), lines)
        printing.end()
    printed = output.getvalue().split("\n")
    assert not any(has_controls(line) for line in printed)
    if printer is LinePrinter:
        assert len(printed) == len(lines) + 1


@repeatable
@given(contents)
def test_no_row_of_the_viewer_drives_the_terminal(content: bytes) -> None:
    for line in index_lines(content):
        row = row_of_line(line)
        for text in (row.raw, row.text, row.process, row.clock):
            assert not has_controls(text)
            assert "\t" not in text
            assert "\u202e" not in text
            text.encode()
    shown = clean(content.decode("utf-8", "surrogateescape"), 50)
    assert not has_controls(shown)
    assert len(shown) <= 50 + len(" … 9,999,999 more characters") <= MOST_CHARACTERS


# Long lines, and files that change while they are open


def test_an_endless_line_through_a_pipe_keeps_only_its_start() -> None:
    stream, cutter = Stream(), PipeCutter()
    piece = b"x" * (1 << 20)
    assert all(cutter.feed(piece) is None for _ in range(100))
    block = cutter.feed(b"\nnext\n")
    assert block is not None
    assert len(block) < 2 * LONGEST_SHOWN_BYTES
    assert [line.text[:4] for line in stream.feed(block)] == ["xxxx", "next"]


changes = st.lists(
    st.tuples(st.sampled_from(["append", "cut", "rewrite", "remove", "rotate"]), st.binary(max_size=30)), max_size=8
)


@settings(repeatable, max_examples=40)
@given(changes, st.booleans())
@example([("append", b"x" * (BLOCK_BYTES + 5)), ("cut", b""), ("append", b"\ny")], False)
def test_whatever_happens_to_a_file_its_last_lines_are_known(happens: list[tuple[str, bytes]], is_slow: bool) -> None:
    with file_of(b"one\ntwo\n") as path:
        log = open_log(path)
        followed = FollowedLog(path, log)
        for change, content in happens:
            _change(path, change, content)
            followed.poll()
            log.advance(0.0 if is_slow else 1.0)
            all_lines(log)
        path.touch()
        for _ in range(3):
            followed.poll()
            indexed(log)
        content = path.read_bytes()
        count = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
        shown = [log.bytes_of(number) for number in range(log.line_count - count, log.line_count)]
        assert [line[:100] for line in shown] == [line[:100] for line in content.split(b"\n")[:count]]
        log.close()


def _change(path: Path, change: str, content: bytes) -> None:
    if change == "rewrite":
        path.write_bytes(content)
    elif change in ("remove", "rotate"):
        path.unlink(missing_ok=True)
    if change in ("append", "rotate"):
        with path.open("ab") as file:
            file.write(content)
    elif change == "cut" and path.exists():
        with path.open("r+b") as file:
            file.truncate(0)
