"""Root causes of a log's failed loads: the line that tells why, whatever the log's size and however it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine_probe.logs.index import LogIndex, open_log
from engine_probe.logs.roots import Cause, Roots

if TYPE_CHECKING:
    from pathlib import Path

_WHERE = "(EngineCore_0 pid=12) ERROR 11-29 10:00:02 [core.py:708]"
_FAILED = f"""\
(APIServer pid=9) INFO 11-29 10:00:01 [api_server.py:1977] vLLM API server version 0.11.2
(APIServer pid=9) INFO 11-29 10:00:01 [utils.py:1] non-default args: {{'model_tag': 'acme/m-7b', 'model': 'acme/m-7b'}}
(EngineCore_0 pid=12) INFO 11-29 10:00:01 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='a'
{_WHERE} EngineCore failed to start.
{_WHERE} Traceback (most recent call last):
(APIServer pid=9) INFO 11-29 10:00:02 [utils.py:1] Waiting for 1 local, 0 remote core engine proc(s) to start.
{_WHERE}   File "/x/vllm/v1/engine/core.py", line 699, in run_engine_core
{_WHERE}     engine_core = EngineCoreProc(*args, **kwargs)
{_WHERE} ValueError: To serve at least one request, 8.0 GiB KV cache is needed.
(APIServer pid=9) Traceback (most recent call last):
(APIServer pid=9)   File "/x/vllm/v1/engine/utils.py", line 815, in wait_for_engine_startup
(APIServer pid=9)     raise RuntimeError(
(APIServer pid=9) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
""".splitlines()


def opened(path: Path, lines: list[str]) -> LogIndex:
    path.write_text("".join(line + "\n" for line in lines))
    log = open_log(path)
    while not log.advance():
        pass
    return log


def found(log: LogIndex) -> Roots:
    roots = Roots(log)
    while not roots.advance():
        pass
    return roots


def test_the_cause_of_each_load_is_the_line_of_the_exception_at_its_root(tmp_path: Path) -> None:
    roots = found(opened(tmp_path / "a.log", [*_FAILED, *_FAILED]))
    text = "ValueError: To serve at least one request, 8.0 GiB KV cache is needed."
    assert [(cause.line, cause.text) for cause in roots.causes] == [(8, text), (8 + len(_FAILED), text)]
    assert roots.causes[0] == Cause(8, text, "a")
    assert (roots.next_from(0), roots.next_from(9), roots.next_from(100)) == (8, 8 + len(_FAILED), None)
    assert (roots.last_before(8), roots.last_before(9)) == (None, 8)
