"""Exceptions in printed text, as vLLM 0.32 prints them from several processes at once."""

from __future__ import annotations

from engine_probe.child.tracebacks import Chain, TracebackReader

LOGGED = "(EngineCore pid=7) ERROR 11-29 17:39:04 [core.py:1510] "
START = "Traceback (most recent call last):"


def chains(text: str) -> list[Chain]:
    reader = TracebackReader()
    for line in text.splitlines():
        reader.feed(line)
    return reader.chains


def errors(chain: Chain) -> list[tuple[str, str]]:
    return [(one["type"], one["message"]) for one in chain]


def test_a_logged_traceback_loses_its_prefixes() -> None:
    text = f"""{LOGGED}EngineCore failed to start.
{LOGGED}{START}
{LOGGED}  File "/v/vllm/v1/engine/core.py", line 1478, in run_engine_core
{LOGGED}    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)
{LOGGED}                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
{LOGGED}ValueError: To serve at least one request with the models's max seq len (4096), more is needed."""
    [chain] = chains(text)
    assert errors(chain) == [
        ("ValueError", "To serve at least one request with the models's max seq len (4096), more is needed.")
    ]
    assert chain[0]["frames"] == [{"file": "/v/vllm/v1/engine/core.py", "line": 1478, "function": "run_engine_core"}]


def test_colours_do_not_hide_a_prefix() -> None:
    prefix = "\x1b[0;36m(EngineCore pid=7)\x1b[0;0m ERROR 11-29 17:39:04 [core.py:1510] "
    assert errors(chains(f"{prefix}{START}\n{prefix}KeyError: 'x'")[0]) == [("KeyError", "'x'")]


def test_the_rest_of_a_message_on_indented_lines_belongs_to_it() -> None:
    text = f"""{START}
  File "arg_utils.py", line 1, in create_engine_config
    config = ModelConfig()
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, Invalid repository ID or local directory specified: 'nowhere'.
    For further information visit https://errors.pydantic.dev/2.12/v/value_error
INFO 11-29 17:39:04 [core.py:1] something else
  this is no part of it"""
    [chain] = chains(text)
    assert chain[0]["type"] == "pydantic_core._pydantic_core.ValidationError"
    assert chain[0]["message"].splitlines() == [
        "1 validation error for ModelConfig",
        "Value error, Invalid repository ID or local directory specified: 'nowhere'.",
        "For further information visit https://errors.pydantic.dev/2.12/v/value_error",
    ]


def test_pydantic_names_the_field_on_a_line_that_is_not_indented() -> None:
    text = f"""{START}
  File "/opt/vllm/engine/arg_utils.py", line 2265, in create_engine_config
pydantic_core._pydantic_core.ValidationError: 2 validation errors for CacheConfig
gpu_memory_utilization
  Input should be less than or equal to 1 [type=less_than_equal, input_value=9.0, input_type=float]
    For further information visit https://errors.pydantic.dev/2.14/v/less_than_equal
block_size.literal[1,8]
  Input should be 1 or 8 [type=literal_error, input_value=3, input_type=int]
Process EngineCore:
  no part of it"""
    [chain] = chains(text)
    assert chain[0]["message"].splitlines() == [
        "2 validation errors for CacheConfig",
        "gpu_memory_utilization",
        "Input should be less than or equal to 1 [type=less_than_equal, input_value=9.0, input_type=float]",
        "For further information visit https://errors.pydantic.dev/2.14/v/less_than_equal",
        "block_size.literal[1,8]",
        "Input should be 1 or 8 [type=literal_error, input_value=3, input_type=int]",
    ]


def test_chained_exceptions_are_one_chain_innermost_first() -> None:
    text = f"""{START}
  File "a.py", line 1, in a
OSError: no such file

The above exception was the direct cause of the following exception:

{START}
  File "b.py", line 2, in b
ValueError: cannot load

During handling of the above exception, another exception occurred:

{START}
  File "c.py", line 3, in c
RuntimeError: Engine core initialization failed."""
    [chain] = chains(text)
    assert [one["type"] for one in chain] == ["OSError", "ValueError", "RuntimeError"]


def test_separate_tracebacks_are_separate_chains() -> None:
    text = f'{START}\n  File "a.py", line 1, in a\nKeyError\n\n{START}\n  File "b.py", line 1, in b\nValueError: b'
    assert [errors(chain) for chain in chains(text)] == [[("KeyError", "")], [("ValueError", "b")]]


def test_lines_of_two_processes_mix_without_mixing_their_exceptions() -> None:
    one, two = "(Worker_TP0 pid=1) ", "(Worker_TP1 pid=2) "
    text = f"""{one}{START}
{two}{START}
{one}  File "a.py", line 1, in a
{two}  File "b.py", line 2, in b
{one}ValueError: first
{two}OSError: second
{one}  rest of the first
{two}  rest of the second
{one}The above exception was the direct cause of the following exception:
{two}{START}
{one}{START}
{two}KeyError: 'third'
{one}RuntimeError: fourth"""
    assert [errors(chain) for chain in chains(text)] == [
        [("ValueError", "first\nrest of the first"), ("RuntimeError", "fourth")],
        [("OSError", "second\nrest of the second")],
        [("KeyError", "'third'")],
    ]


def test_text_that_only_looks_like_an_exception_is_none() -> None:
    assert chains('ValueError: nobody raised this\n  File "a.py", line 1, in a\nINFO: fine') == []


def test_a_traceback_that_is_cut_off_leaves_nothing_half() -> None:
    assert chains(f'{START}\n  File "a.py", line 1, in a\nand then something else entirely') == []
