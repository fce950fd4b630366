"""What a probe reports: frozen events, one JSON object a line.

The only file that the console and the child share, so it stays with the standard library and Python 3.9.
Every event has `event` (its kind), `time` (seconds since the epoch) and `model` (the launch's name, or null
when it speaks of the whole probe). Seconds, bytes and tokens carry their unit in the name.
"""

import dataclasses
import json
import time as _time
from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, List, Optional, Type

GRADES = ("dry", "warm", "cold")


@dataclass(frozen=True)
class Event:
    """Common to all kinds. `event` is fixed by the class."""

    event: ClassVar[str] = ""
    model: Optional[str] = None
    time: float = field(default_factory=_time.time)


@dataclass(frozen=True)
class ProbeStarted(Event):
    """The child runs, on the engine's side, and takes orders."""

    event: ClassVar[str] = "probe_started"
    pid: int = 0
    python: str = ""
    python_version: str = ""
    host: str = ""


@dataclass(frozen=True)
class Warming(Event):
    """The warm process has begun to import vLLM."""

    event: ClassVar[str] = "warming"


@dataclass(frozen=True)
class Warmed(Event):
    """The warm process has imported all that a load needs and can be forked."""

    event: ClassVar[str] = "warmed"
    seconds: float = 0.0
    vllm_version: Optional[str] = None
    flags: List[str] = field(default_factory=list)
    """Long option names of this engine's own `vllm serve` parser, without dashes."""


@dataclass(frozen=True)
class Preflight(Event):
    """What was found before a load: who holds the target GPUs, memory that is free, memory that is needed."""

    event: ClassVar[str] = "preflight"
    holders: List[Dict[str, Any]] = field(default_factory=list)
    """One a foreign process: {gpu_index, pid, name, used_gib}; null where the driver does not say."""
    needs_gib: Optional[float] = None
    free_gib: Optional[float] = None
    notes: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Started(Event):
    """A load has begun. `argv` is what runs, `port` where it will serve (0 in a dry load)."""

    event: ClassVar[str] = "started"
    grade: str = "cold"
    pid: int = 0
    argv: List[str] = field(default_factory=list)
    port: int = 0
    notes: List[str] = field(default_factory=list)
    """What differs from the launch as written and why, such as a taken port that was replaced."""


@dataclass(frozen=True)
class Text(Event):
    """One line that the model's processes printed to stdout or stderr; `offset` counts bytes from byte 0."""

    event: ClassVar[str] = "text"
    offset: int = 0
    line: str = ""
    also_record: bool = False
    """True when a `log_record` event carries the same content, so that a viewer shows it once."""


@dataclass(frozen=True)
class LogRecord(Event):
    """One record of a vLLM logger, taken inside the process that logged it."""

    event: ClassVar[str] = "log_record"
    level: str = "INFO"
    logger: str = ""
    """The logger's name: the module that logged, such as `vllm.v1.engine.core`."""
    process: str = ""
    pid: int = 0
    file: str = ""
    line: int = 0
    message: str = ""
    exception: List[Dict[str, Any]] = field(default_factory=list)
    """The chain, innermost cause first: {type, message, frames: [{file, line, function}]}."""


@dataclass(frozen=True)
class StageEntered(Event):
    """The first sign of a stage was seen."""

    event: ClassVar[str] = "stage_entered"
    stage: str = "config"


@dataclass(frozen=True)
class StageLeft(Event):
    """A stage is over: the next was entered, or the load ended in it (`completed` false)."""

    event: ClassVar[str] = "stage_left"
    stage: str = "config"
    seconds: float = 0.0
    completed: bool = True


@dataclass(frozen=True)
class MemorySample(Event):
    """Memory of the model's whole process tree and of the host, at one moment. null: could not be read."""

    event: ClassVar[str] = "memory_sample"
    rss_bytes: Optional[int] = None
    """Sum of resident memory of all processes of the load; shared pages count in each."""
    processes: List[Dict[str, Any]] = field(default_factory=list)
    """One a process: {pid, name, rss_bytes}."""
    host_available_bytes: Optional[int] = None
    host_total_bytes: Optional[int] = None
    read_bytes: Optional[int] = None
    """Bytes that the tree has read from storage since it started."""
    limit_bytes: Optional[int] = None
    """The tightest memory limit of the control groups that the load is in; null: none."""
    limit_used_bytes: Optional[int] = None
    """What is used of it by all that is in that group, without file cache."""


@dataclass(frozen=True)
class ConfigBuilt(Event):
    """A dry load's result: what vLLM made of the arguments, without loading weights."""

    event: ClassVar[str] = "config_built"
    seconds: float = 0.0
    facts: Dict[str, Any] = field(default_factory=dict)
    """Such as {"max_model_len": 4096, "dtype": "bfloat16", "architecture": "LlamaForCausalLM"}."""


@dataclass(frozen=True)
class Ready(Event):
    """`/health` and `/v1/models` have answered."""

    event: ClassVar[str] = "ready"
    seconds: float = 0.0
    served_models: List[str] = field(default_factory=list)
    max_model_len: Optional[int] = None
    port: int = 0


@dataclass(frozen=True)
class RequestAnswered(Event):
    """A request that was asked for has an answer, or an error."""

    event: ClassVar[str] = "request_answered"
    id: str = ""
    path: str = ""
    status: Optional[int] = None
    """HTTP status; null when no answer came (`error` says why)."""
    seconds: float = 0.0
    prompt_tokens: Optional[int] = None
    completion_tokens: Optional[int] = None
    finish_reason: Optional[str] = None
    text: str = ""
    """The first 2,000 characters of the answer's text or body."""
    error: Optional[str] = None
    numbers: List[Optional[float]] = field(default_factory=list)
    """The first 64 numbers of the answer: log probabilities of its tokens, an embedding; null: no finite number."""
    not_finite: Optional[int] = None
    """How many of all its numbers are null, NaN or infinite; null: it has none."""


@dataclass(frozen=True)
class BurstAnswered(Event):
    """Many requests at once, for a while, are over. `error`: why it was cut short, or could not begin."""

    event: ClassVar[str] = "burst_answered"
    id: str = ""
    path: str = ""
    at_once: int = 0
    seconds: float = 0.0
    answered: int = 0
    """Requests with status 200."""
    failed: int = 0
    errors: List[Dict[str, Any]] = field(default_factory=list)
    """The commonest five: {text, count}."""
    p50_seconds: Optional[float] = None
    max_seconds: Optional[float] = None
    completion_tokens: Optional[int] = None
    tokens_per_second: Optional[float] = None
    rss_first_bytes: Optional[int] = None
    """Resident memory of the load's processes in the first third of the time; null: too few samples."""
    rss_last_bytes: Optional[int] = None
    gpu_first_bytes: Optional[int] = None
    """GPU memory of the load's processes; null: no GPU, or the driver does not say whose it is."""
    gpu_last_bytes: Optional[int] = None
    error: Optional[str] = None


@dataclass(frozen=True)
class Failed(Event):
    """The load ended without being asked to."""

    event: ClassVar[str] = "failed"
    reason: str = ""
    """One sentence: what ended, how. Never a diagnosis."""
    exit_code: Optional[int] = None
    signal: Optional[str] = None
    """Such as `SIGKILL`; null when the process exited by itself."""
    processes: List[Dict[str, Any]] = field(default_factory=list)
    """Every process whose end was seen: {pid, name, exit_code, signal}; null exit_code: its parent took it."""
    exceptions: List[Dict[str, Any]] = field(default_factory=list)
    """The first exception chain that any process logged or printed, innermost cause first (see LogRecord)."""
    seconds: float = 0.0
    oom_kills: Optional[int] = None
    """Processes that the kernel killed for memory in the load's control group while it went on; null: not counted."""


@dataclass(frozen=True)
class Hung(Event):
    """No line came, no byte was read and no memory grew for `silent_seconds`."""

    event: ClassVar[str] = "hung"
    silent_seconds: float = 0.0
    stacks: List[Dict[str, Any]] = field(default_factory=list)
    """One a process: {pid, name, stack: [text], unavailable: reason or null}."""


@dataclass(frozen=True)
class Ended(Event):
    """A load is over and what it left was removed. `left_behind`, what is still there, must be empty."""

    event: ClassVar[str] = "ended"
    seconds: float = 0.0
    killed_pids: List[int] = field(default_factory=list)
    removed_shm: List[str] = field(default_factory=list)
    left_behind: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Trouble(Event):
    """Something about the probe itself: a line that is no JSON, a lost child, an engine that cannot run."""

    event: ClassVar[str] = "trouble"
    text: str = ""
    fatal: bool = False


def _kinds() -> Dict[str, Type[Event]]:
    return {kind.event: kind for kind in Event.__subclasses__()}


def encode(event: Event) -> str:
    """One line of JSON, without the line end."""
    content = {"event": event.event}
    content.update({f.name: getattr(event, f.name) for f in dataclasses.fields(event)})
    return json.dumps(content, ensure_ascii=True, separators=(",", ":"))


def decode(line: str) -> Event:
    """The event in `line`; a line that is none becomes a `Trouble` with its text, never an exception."""
    try:
        content = json.loads(line)
        kind = _kinds()[content.pop("event")]
        known = {f.name for f in dataclasses.fields(kind)}
        return kind(**{key: value for key, value in content.items() if key in known})
    except (ValueError, KeyError, TypeError, AttributeError):
        return Trouble(text="unreadable from the probe: " + line[:2000])
