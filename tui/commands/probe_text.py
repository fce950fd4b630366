"""Probe events in words, one line each, for a person who watches or reads a log of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from engine_probe import events as ev

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.output import Output

_GIB = 1024**3


class ProbePrinter:
    """`show` every event in order. Several models are told apart by a column with their names."""

    def __init__(self, output: Output, verbose: bool, names: tuple[str, ...]) -> None:
        self.output = output
        self.verbose = verbose
        self.saw_records = False
        self._width = max(len(name) for name in names) + 2 if len(names) > 1 else 0
        self._began: float | None = None

    def show(self, event: ev.Event) -> None:
        self.saw_records = self.saw_records or isinstance(event, ev.LogRecord)
        if self.output.as_json:
            self.output.result(_as_mapping(event))
            return
        self._began = self._began if self._began is not None else event.time
        line = self._line(event)
        if line is not None:
            name = (event.model or "").ljust(self._width) if self._width else ""
            first, *more = line.splitlines() or [""]
            self.output.text(f"{event.time - self._began:7.1f} s  {name}{first}", style=_style(event))
            for one in more:
                self.output.text(f"{'':{11 + self._width}}{one}", style=_style(event))

    def _line(self, event: ev.Event) -> str | None:
        if isinstance(event, ev.Text):
            return f"| {event.line}" if self.verbose else None
        words = _WORDS.get(type(event))
        return words(event) if words else None


def _as_mapping(event: ev.Event) -> dict[str, object]:
    return {"event": event.event, **asdict(event)}


def _style(event: ev.Event) -> str:
    if isinstance(event, ev.Failed | ev.Hung) or (isinstance(event, ev.Trouble) and event.fatal):
        return "bold red"
    return "green" if isinstance(event, ev.Ready | ev.ConfigBuilt) else ""


def _preflight(event: ev.Preflight) -> str:
    parts = [f"weights {event.needs_gib:.2f} GiB on disk"] if event.needs_gib is not None else []
    parts += [f"{event.free_gib:.1f} GiB free"] if event.free_gib is not None else []
    parts += [f"GPU {h['gpu_index']} held by pid {h['pid']} ({h['name']})" for h in event.holders]
    return "before    " + "; ".join([*parts, *event.notes])


def _started(event: ev.Started) -> str:
    where = f", port {event.port}" if event.port else ""
    return f"started   {event.grade}{where}: {' '.join(event.argv)}" + "".join(
        f"\n{'':10}note: {n}" for n in event.notes
    )


def _left(event: ev.StageLeft) -> str:
    return f"stage     {event.stage} {'done' if event.completed else 'NOT COMPLETED'} after {event.seconds:.1f} s"


def _ready(event: ev.Ready) -> str:
    length = f", max_model_len {event.max_model_len:,}" if event.max_model_len else ""
    where = f"http://127.0.0.1:{event.port}"
    return f"ready     {where} answers after {event.seconds:.1f} s as {', '.join(event.served_models)}{length}"


def _answered(event: ev.RequestAnswered) -> str:
    if event.status == 200:
        return f"answered  {event.path} 200 in {event.seconds:.2f} s"
    return f"answered  {event.path} {event.status or 'no answer'}: {event.error or event.text[:200]}"


def _failed(event: ev.Failed) -> str:
    killed = [f"{p['name']} (pid {p['pid']}) by {p['signal']}" for p in event.processes if p["signal"]]
    return f"FAILED    {event.reason}" + (f"\n{'':10}ended: {'; '.join(killed)}" if killed else "")


def _hung(event: ev.Hung) -> str:
    rows = []
    for process in event.stacks:
        where = process["unavailable"] or next(
            (s.strip() for s in process["stack"] if s.strip().startswith("File")), "?"
        )
        rows.append(f"\n{'':10}{process['name']} (pid {process['pid']}): {where}")
    return f"HUNG      nothing has moved for {event.silent_seconds:.0f} s" + "".join(rows)


def _ended(event: ev.Ended) -> str:
    left = f"; LEFT BEHIND: {', '.join(event.left_behind)}" if event.left_behind else "; nothing left behind"
    return f"ended     after {event.seconds:.1f} s{left}"


def _config(event: ev.ConfigBuilt) -> str:
    shown = ("max_model_len", "dtype", "architectures", "tensor_parallel_size", "gpu_memory_utilization")
    return "accepted  " + ", ".join(
        f"{name} {event.facts[name]}" for name in shown if event.facts.get(name) is not None
    )


_WORDS: dict[type[ev.Event], Callable[[Any], str | None]] = {
    ev.ProbeStarted: lambda e: f"probe     on {e.host}, Python {e.python_version} ({e.python})",
    ev.Warming: lambda _e: "warming   importing vLLM once; loads are then forked from it",
    ev.Warmed: lambda e: f"warm      vLLM {e.vllm_version} imported in {e.seconds:.1f} s",
    ev.Preflight: _preflight,
    ev.Started: _started,
    ev.StageLeft: _left,
    ev.ConfigBuilt: _config,
    ev.Ready: _ready,
    ev.RequestAnswered: _answered,
    ev.Failed: _failed,
    ev.Hung: _hung,
    ev.Ended: _ended,
    ev.Trouble: lambda e: f"trouble   {e.text.splitlines()[0] if e.text else ''}",
}
