"""Hand-made sessions, events and a driver that replays them, for tests of the console.

`python tests/tui_samples.py [STATE]` opens the console on one of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import ScreenStackError
from textual.css.query import NoMatches

from engine_probe import events as ev
from engine_probe.facts import Fact, Known, Unknown
from engine_probe.hardware.gpus import Gpu, GpuState
from engine_probe.hardware.host import HostState
from engine_probe.hardware.reading import Reading
from engine_probe.launch import Deployment, Launch
from engine_probe.run_log import RunLog
from engine_probe.stage_names import STAGES
from playbooks import decisions as decide
from playbooks.progress import Progress
from playbooks.session import (
    Cause,
    Check,
    Evidence,
    FixOption,
    Hypothesis,
    Outcome,
    Session,
    Source,
    StageTime,
    Step,
    Symptom,
    Verdict,
)
from tests.monitor_samples import FakeWatch
from tui.running import Backend, CannotOpenError, EngineView, Opening
from tui.widgets.live_log import LiveLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.screen import Screen

    from playbooks.alert import Alert

NOON = 1_796_040_000.0
ERROR = (
    "ValueError: To serve at least one request with the model's max seq len (4096), (0.25 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (0.09 GiB). Based on the available memory, the estimated "
    "maximum model length is 1408. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine."
)
LAB = Deployment(
    models=(Launch("tiny", "tiny-llama", {"enforce-eager": True, "kv-cache-memory-bytes": 100663296}, gpus=None),),
)
NAMES = STAGES


def stages(*seconds: float, state: str = "running") -> tuple[StageTime, ...]:
    """As many stages as there are seconds; the last is in `state`."""
    told = [
        StageTime(name, "done" if i < len(seconds) - 1 else state, seconds[i])
        for i, name in enumerate(NAMES[: len(seconds)])
    ]
    return (*told, *(StageTime(name, "not reached") for name in NAMES[len(seconds) :]))


SYMPTOM = Symptom(
    kind="does-not-start",
    model="tiny",
    stage="memory_planning",
    layer="engine",
    headline=ERROR,
    evidence=(
        Evidence("engine.log", 72, ERROR),
        Evidence("engine.log", 164, "RuntimeError: Engine core initialization failed. See root cause above."),
        Evidence("launch", None, "max-model-len is not given: the model's own 4,096 is used"),
    ),
    sources=(
        Source("log", "143 lines, load-1.log"),
        Source(
            "GPUs and memory",
            "free host memory 20.1 GiB; host memory 23.4 GiB; no GPU: the NVML library is not installed",
        ),
        Source(
            "config.json and files",
            missing="there is no folder tiny on this host",
            give="download the model, or name its folder on this host",
        ),
        Source("launch arguments", "enforce-eager, kv-cache-memory-bytes 96 MiB"),
    ),
    codes=("ValueError", "exit code 1"),
    key_words=("gpu-memory-utilization", "max-model-len", "KV cache"),
)
NOBODY_CHOSE = Hypothesis(
    id="context-longer-than-anyone-asked-for",
    claim="Nobody chose this length; it is the model's own maximum.",
    experiment="read: max-model-len as launched",
    cost="none, 0 s",
    fixes=("lower-max-model-len",),
)
TOO_SMALL = Hypothesis(
    id="kv-memory-fixed-too-small",
    claim="The KV cache was given a fixed size that is too small for one full request.",
    experiment="read: kv-cache-memory-bytes as launched",
    cost="none, 0 s",
    fixes=("raise-kv-memory",),
)
OTHERS = Hypothesis(
    id="another-process-holds-memory",
    claim="Another process holds the memory that the cache would get.",
    experiment="read: free host memory",
    cost="none, 0 s",
)
CAUSE = Cause(
    id="kv-cache-too-small-for-max-model-len",
    title="The KV cache cannot hold one request of max_model_len",
    summary="The weights loaded, but the memory left for the KV cache is smaller than what a single request of full "
    "length needs, so vLLM stops before serving anything.",
    family="memory",
    kind="resource",
    layer="engine",
    stage="memory_planning",
    confidence=0.82,
    evidence=SYMPTOM.evidence[:1],
    hypotheses=(NOBODY_CHOSE, TOO_SMALL, OTHERS),
)
SECOND = Cause(
    id="no-memory-for-cache-blocks",
    title="No memory is left for any cache block",
    summary="The weights alone use up the budget.",
    family="memory",
    kind="configuration",
    layer="worker",
    stage="memory_planning",
    confidence=0.11,
    evidence=(),
    hypotheses=(
        Hypothesis(
            "weights-fill-budget", "The weights alone exceed the budget.", "read: weights on one worker", "none, 0 s"
        ),
    ),
)
LOWER = FixOption(
    id="lower-max-model-len",
    launch="tiny",
    key="args.max-model-len",
    old_value=None,
    new_value="1408",
    title="max-model-len of tiny: 4,096 (the model's own, not set) → 1,408",
    diff=("@@ -4,3 +4,4 @@", "     args:", "       enforce-eager: true", "+      max-model-len: 1408"),
    why="0.09 GiB of KV cache hold 1,408 tokens; one request of 4,096 needs 0.25 GiB.",
    expect=("kv.tokens >= launch.max_model_len",),
    promises=("KV cache tokens ≥ 1,408",),
    you_lose="requests longer than 1,408 tokens",
    risk="low",
)
RAISE = FixOption(
    id="raise-kv-memory",
    launch="tiny",
    key="args.kv-cache-memory-bytes",
    old_value="100663296",
    new_value="301989888",
    title="kv-cache-memory-bytes of tiny: 96 MiB → 288 MiB (301,989,888 bytes)",
    diff=(
        "@@ -4,3 +4,3 @@",
        "     args:",
        "       enforce-eager: true",
        "-      kv-cache-memory-bytes: 100663296",
        "+      kv-cache-memory-bytes: 301989888",
    ),
    why="One request of 4,096 tokens needs 0.25 GiB.",
    expect=("kv.tokens >= engine.max_model_len",),
    promises=("KV cache tokens ≥ 4,096",),
    you_lose="0.19 GiB of host memory",
    risk="low",
)
FP8 = replace(
    RAISE,
    id="fp8-kv",
    key="args.kv-cache-dtype",
    title="kv-cache-dtype of tiny: not set → fp8",
    new_value="fp8",
    old_value=None,
    expect=("kv.tokens >= engine.max_model_len",),
    promises=("KV cache tokens ≥ 4,096",),
    you_lose="some accuracy",
    risk="medium",
    unavailable="the CPU engine has no fp8 KV cache",
)
CHECKS = (
    Check("starts", "starts", "serving in ≤ 60 s", "18.2 s", Outcome.PASS),
    Check(
        "kv",
        "what the fix promised",
        "KV cache tokens ≥ 1,408 (max-model-len as launched)",
        "1,536",
        Outcome.PASS,
        brief="KV cache tokens ≥ 1,408",
    ),
    Check("health", "health and models", "200", "200 in 0.0 s", Outcome.PASS),
    Check("full", "one request of 1,408 tokens", "answers", None, Outcome.RUNNING),
    Check("load", "16 requests for 20 s", "all answer, no memory growth"),
    Check("gpu", "GPU memory after", "≤ before", None, Outcome.ABSTAIN, reason="this host has no GPU", optional=True),
)

RUNS = Progress("observing", open=("tiny",))
DECIDING = Progress("deciding")
FRESH = Session(case="2026-11-29-0007", deployment=LAB, model="tiny", grade="cold", verify_grade="cold")
LOADING = replace(
    FRESH,
    progress=RUNS,
    running="cold load of tiny: the model's weights are read",
    stages=stages(8.9, 0.3, 6.1, 8.2, 0.6),
)
FAILED = replace(
    FRESH,
    progress=DECIDING,
    step=Step.HYPOTHESES,
    stages=stages(8.9, 0.3, 6.1, 8.2, 0.6, 0.2, state="failed"),
    symptom=SYMPTOM,
    causes=(CAUSE, SECOND),
)
TESTED = replace(
    FAILED,
    step=Step.FIX,
    causes=(
        replace(
            CAUSE,
            hypotheses=(
                replace(
                    NOBODY_CHOSE,
                    verdict=Verdict.CONFIRMED,
                    because=("max-model-len as launched: not set",),
                ),
                replace(TOO_SMALL, verdict=Verdict.RUNNING),
                replace(
                    OTHERS, verdict=Verdict.REFUTED, because=("free host memory 21.8 GiB > 0.25 GiB (KV cache needed)",)
                ),
            ),
        ),
        replace(SECOND, hypotheses=(replace(SECOND.hypotheses[0], verdict=Verdict.INCONCLUSIVE),)),
    ),
    fixes=(LOWER, RAISE, FP8),
)
VERIFYING = replace(
    TESTED,
    progress=Progress("verifying", open=("tiny",)),
    step=Step.VERIFY,
    running="verifying on a cold load: one request of 1,408 tokens",
    stages=stages(8.7, 0.3, 6.0, 8.1, 0.6, 0.2, 1.1, 4.0),
    applied_fix="lower-max-model-len",
    revision=1,
    checks=CHECKS,
)
VERIFIED = replace(
    VERIFYING,
    progress=DECIDING,
    running=None,
    verdict="verified",
    stages=stages(8.7, 0.3, 6.0, 8.1, 0.6, 0.2, 1.1, 24.0, state="done"),
    fixes=(replace(LOWER, outcome="verified"), RAISE, FP8),
    checks=(
        *CHECKS[:3],
        replace(CHECKS[3], measured="answers in 3.1 s", outcome=Outcome.PASS),
        replace(CHECKS[4], measured="412 answered, +0.00 GiB", outcome=Outcome.PASS),
        CHECKS[5],
    ),
    report_path="cases/2026-11-29-0007/report.md",
)
UNEXPLAINED = replace(FAILED, causes=(), verdict="unexplained")
EXPERIMENT = Hypothesis(
    id="weights-are-damaged",
    claim="The files of the weights are damaged.",
    experiment="load the model with random weights: args.load-format dummy",
    cost="seconds",
    verdict=Verdict.RUNNING,
)
EXPERIMENTING = replace(
    FAILED,
    progress=Progress("experimenting", open=("tiny",)),
    running="trying: load the model with random weights",
    causes=(replace(CAUSE, hypotheses=(EXPERIMENT, *TESTED.causes[0].hypotheses[::2])), TESTED.causes[1]),
)
"""One experiment runs, one claim is confirmed, one refuted, one inconclusive."""
RESTORE = replace(
    LOWER,
    id="restore-the-file",
    key="files.model.safetensors",
    new_value="whole/tiny",
    title="model.safetensors of tiny: from whole/tiny",
    diff=(),
    why="The file ends in the middle of a tensor; the one beside is whole.",
    expect=("files.damaged_file is unset",),
    promises=("damaged file: none",),
    you_lose="nothing; the damaged file stays beside it",
    commands=("mv tiny/model.safetensors tiny/model.safetensors.r1", "cp whole/tiny/model.safetensors tiny/"),
    way_back=("mv tiny/model.safetensors.r1 tiny/model.safetensors",),
)
BY_HAND = replace(
    LOWER,
    id="give-the-container-memory",
    key="host.memory_limit",
    title="by hand: give the container memory",
    diff=(),
    by_hand="docker update --memory 32g vllm-0",
    why="The limit of the container is smaller than the model.",
    you_lose="memory that other containers could use",
    risk="yours to judge",
)
OUTSIDE = replace(TESTED, fixes=(RESTORE, BY_HAND, LOWER))
FROM_LOG = replace(
    TESTED,
    fixes=(LOWER, BY_HAND),
    log_sources=("vllm.log",),
    no_loads="there is no deployment file: what the log printed of the launch can be written as one",
    symptom=replace(
        SYMPTOM,
        sources=(
            Source("log", "vllm.log, 143 lines, 20,113 bytes"),
            Source(
                "GPUs and memory",
                missing="no state of the host was given",
                give="--host-state FILE, a saved `vllm-console monitor --once --json` of that host, or --here",
            ),
            Source(
                "config.json and files",
                missing="the log does not hold them",
                give="--deployment FILE, whose model is on this host",
            ),
            Source("launch arguments", "enforce-eager, kv-cache-memory-bytes 96 MiB (the log printed them)"),
        ),
    ),
)
NO_ENGINE = replace(FRESH, verdict="cannot run", notes=("No vLLM was found: python3 has no module vllm.",))

LOG = (
    "(APIServer pid=2601) INFO 11-29 17:38:40 [api_utils.py:286] non-default args: {'model': 'tiny-llama', 'port': 1}",
    "(APIServer pid=2601) WARNING 11-29 17:38:40 [system_utils.py:255] Found ulimit of 20000 and failed to raise it",
    "(APIServer pid=2601) INFO 11-29 17:38:49 [model.py:733] Resolved architecture: LlamaForCausalLM",
    "(EngineCore pid=2620) INFO 11-29 17:38:55 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: "
    "model='tiny-llama', dtype=torch.bfloat16, max_seq_len=4096, load_format=auto, tensor_parallel_size=1",
    "(Worker pid=2632) INFO 11-29 17:39:03 [parallel_state.py:1906] world_size=1 rank=0 local_rank=0 backend=gloo",
    "(Worker pid=2632) INFO 11-29 17:39:03 [cpu_model_runner.py:68] Starting to load model tiny-llama...",
    "(Worker pid=2632) INFO 11-29 17:39:03 [weight_utils.py:1108] Checkpoint size: 0.02 GiB. Available RAM: 21.82 GiB.",
    "(EngineCore pid=2620) ERROR 11-29 17:39:04 [core.py:1510] EngineCore failed to start.",
    f"(EngineCore pid=2620) ERROR 11-29 17:39:04 [core.py:1510] {ERROR}",
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
)
HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]0;a title\x07 \x1b[2J\x1b[H gone?",
    "[bold red]markup[/] [@click=app.quit]press[/] [/nothing]",
    "nul \x00 bell \x07 back\x08 return \r tab\there",
    "wide 模型加载失败 シャード 🚀🚀",
    "right-to-left \u202eevil\u202c שלום عربى",
    "combining e\u0301\u0301\u0301\u0301 zero\u200bwidth",
    "x" * 1_000_000,
    "lone \udc80 surrogate",
)

NO_GPU = "NVML cannot be loaded: libnvidia-ml.so.1 is not on this host"


def measured(value: float) -> Known:
    return Known(value, "measured", "a test")


HOST = Reading(
    time=NOON,
    host_name="node7",
    gpus=GpuState(unavailable=NO_GPU),
    host=HostState(
        ram_total_gib=measured(23.4),
        ram_available_gib=measured(20.1),
        swap_total_gib=measured(0.0),
        swap_free_gib=measured(0.0),
        shm_total_gib=measured(11.7),
        shm_free_gib=measured(11.68),
        cgroup_limit_gib=Unknown("this process is in no container with a limit"),
        cgroup_used_gib=measured(3.1),
    ),
)


def a100(index: int, used_gib: Fact) -> Gpu:
    return Gpu(index, f"GPU-{index}", "A100-80GB", measured(79.3), used_gib, Unknown("not asked for"), ())


HOST_WITH_GPUS = replace(
    HOST,
    gpus=GpuState((a100(0, measured(71.8)), a100(1, measured(0.4)), a100(2, Unknown("the driver does not say")))),
)
ENGINE = EngineView(version="0.32.0", where="/opt/vllm/bin/python")
MISSING = EngineView(missing="python3 has no module vllm, and none was installed for the console")


def log_events(lines: Sequence[str] = LOG) -> list[ev.Event]:
    return [ev.Text(model="tiny", time=NOON, offset=0, line=line) for line in lines]


@dataclass
class FakeRun:
    """Replays `told`, then answers decisions as `answers` says, until a decision ends it."""

    told: Sequence[tuple[Session, ev.Event | None]]
    answers: Callable[[Session, decide.Decision], Sequence[Session]] = lambda session, decision: ()
    ends: bool = False
    decided: list[decide.Decision] = field(default_factory=list)
    finished: bool = False
    log: RunLog = field(default_factory=RunLog)

    holders: tuple[str, ...] = ()
    temporary: bool = False
    begins_with: decide.Decision | None = field(default_factory=decide.Begin)

    @property
    def session(self) -> Session:
        return FRESH

    async def drive(self, decisions, on_change):
        session = FRESH
        try:
            self.decided.append(await decisions.get())
            self.log.open_privately()
            for session, event in self.told:
                if event is not None:
                    self.log.add(event)
                on_change(session, event)
                await asyncio.sleep(0)
            self.log.flush()
            while not self.ends:
                decision = await decisions.get()
                self.decided.append(decision)
                if isinstance(decision, decide.Finish):
                    break
                for answer in self.answers(session, decision):
                    session = answer
                    on_change(session, None)
        finally:
            self.finished = True
        return session


def replaying(session: Session, lines: Sequence[str] = LOG, *, ends: bool = False) -> FakeRun:
    """The log first, a memory sample, then `session` as it is."""
    told: list[tuple[Session, ev.Event | None]] = [(LOADING, event) for event in log_events(lines)]
    if session.running:
        sample = ev.MemorySample(model="tiny", time=NOON, rss_bytes=int(1.3 * 1024**3))
        told.append((session, sample))
    return FakeRun([*told, (session, None)], ends=ends or session.verdict is not None)


def whole_case(session: Session, decision: decide.Decision) -> Sequence[Session]:
    """Answers like the real driver would, at once."""
    if isinstance(decision, decide.RunExperiment):
        return (TESTED,)
    if isinstance(decision, decide.ApplyFix):
        return (VERIFYING, replace(VERIFIED, report_path=None))
    if isinstance(decision, decide.Undo):
        return (replace(TESTED, revision=2),)
    if isinstance(decision, decide.Stop):
        return (replace(session, running=None, progress=DECIDING),)
    return ()


def backend(
    run: FakeRun | str = "no such case",
    host: Reading = HOST,
    engine: EngineView = ENGINE,
    exports: Path = Path("exports"),
    alerts: tuple[Alert, ...] = (),
) -> Backend:
    """A world of its own, at a clock that stands still. `run` as text: nothing can be opened, and why."""

    def open_case(_opening: Opening) -> FakeRun:
        if isinstance(run, str):
            raise CannotOpenError(run)
        return run

    return Backend(
        open_case=open_case,
        watch=lambda: FakeWatch([host]),
        find_alerts=lambda _reading, _before: alerts,
        find_engine=lambda: engine,
        clock=lambda: NOON,
        exports=exports,
        cpu_seconds=lambda: 0.0,
    )


STATES = {
    "loading": LOADING,
    "failed": FAILED,
    "tested": TESTED,
    "verifying": VERIFYING,
    "verified": VERIFIED,
    "unexplained": UNEXPLAINED,
    "experimenting": EXPERIMENTING,
    "outside": OUTSIDE,
    "from-log": FROM_LOG,
    "no-engine": NO_ENGINE,
}


def main(state: str = "whole") -> None:
    from tui.app import ConsoleApp

    run = (
        FakeRun([*((LOADING, event) for event in log_events()), (FAILED, None)], whole_case)
        if state == "whole"
        else replaying(STATES[state])
    )
    with contextlib.suppress(KeyboardInterrupt):
        ConsoleApp(backend(run), start="monitor" if state == "whole" else "wizard").run()


def lines_shown(screen: Screen) -> int:
    """How many lines of the case's log its pane knows of."""
    log = screen.query_one(LiveLog).opened
    return log.index.line_count if log is not None else 0


async def until(pilot, condition, seconds=60.0):
    """Let the console work until `condition()` holds; a screen that is not there yet is no reason to fail."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        await pilot.pause(0.01)
        with contextlib.suppress(NoMatches, ScreenStackError):
            if condition():
                return
    raise AssertionError("the condition never held")


async def until_still(pilot):
    """Until the picture has not changed for a while: a busy host draws late."""
    last, same = "", 0
    while same < 5:
        await pilot.pause(0.02)
        picture = pilot.app.export_screenshot()
        same = same + 1 if picture == last else 0
        last = picture


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
