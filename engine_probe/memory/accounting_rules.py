"""How a release of vLLM accounts for GPU memory: rows of the tables in data, each with the evidence it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

from engine_probe.flags import Version, parse_version
from engine_probe.memory.estimates import Estimate

Kind = Literal["one", "tp", "tp-moe", "pp"]


@dataclass(frozen=True)
class Rules:
    """One row of data/accounting.tsv, whose head says what each column means."""

    first: Version
    until: Version
    engine: Literal["V0", "V1"]
    is_default: bool
    """Of the engines of this release, the one that it takes by itself."""
    utilization: float
    pool: Literal["growth", "absolute", "consumed"]
    checks_free_memory: bool
    nccl_is_outside: bool
    """NCCL's buffers come before the first look at free memory, so that they lie outside the budget."""
    graphs_inside: bool
    warms_up_sampler: bool
    batch: str
    sampler_bytes: Estimate
    activation_offset_gib: float
    activation_spread_gib: float
    stranded_bytes: float
    stranded_high_bytes: float
    evidence: str

    @property
    def can_estimate(self) -> bool:
        """VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS is read (vllm/envs.py, 0.19.0; not yet in 0.16.0)."""
        return self.first[:2] >= (0, 17)

    @property
    def name(self) -> str:
        """Such as `vLLM 0.17.0 to before 0.20.0 (V1)`."""
        return f"vLLM {_dotted(self.first)} to before {_dotted(self.until)} ({self.engine})"


class Outside(NamedTuple):
    """What a worker holds beside torch's tensors, in GiB."""

    context: Estimate
    non_torch: Estimate


class GraphCosts(NamedTuple):
    """One row of data/graphs.tsv."""

    fixed: float
    per_32_layers: float
    moe: float
    hidden_copies: float
    both_modes: bool
    low: float
    high: float
    evidence: str


def rules_of(version: str | None, wants_v1: bool | None = None) -> tuple[Rules, ...]:
    """The row for a release, by itself or as VLLM_USE_V1 says; every row where the release is not known, newest first.

    A release newer than all rows: all rows of the same engine, newest first: any of it may come back.
    """
    rows = _rules()
    parsed = parse_version(version) if version else None
    if parsed is None:
        return tuple(row for row in reversed(rows) if row.is_default)
    if parsed >= rows[-1].until:
        return tuple(row for row in reversed(rows) if row.is_default and row.engine == "V1")
    fitting = [row for row in rows if row.first <= parsed < row.until]
    if wants_v1 is not None:
        fitting = [row for row in fitting if (row.engine == "V1") is wants_v1] or fitting
    return tuple([row for row in fitting if row.is_default] or fitting)[:1]


def newer_than_known(version: str | None) -> str | None:
    """What is to be said of a release that nobody has read yet; None: it is known, or which one it is is not."""
    parsed, newest = parse_version(version) if version else None, _rules()[-1]
    if parsed is None or parsed < newest.until:
        return None
    return (
        f"vLLM {version} is newer than all that is known here (before {_dotted(newest.until)}): it counts as "
        f"{_dotted(newest.first)}, in wider ranges, and may do otherwise"
    )


@cache
def _rules() -> tuple[Rules, ...]:
    return tuple(_row(cells) for cells in _table("accounting.tsv"))


def _row(cells: list[str]) -> Rules:
    first, until, engine, utilization, pool, check, snapshot, graphs, warmup, batch = cells[:10]
    sampler, low, high, offset, spread, stranded, stranded_high = map(float, cells[10:17])
    return Rules(
        first=_version(first),
        until=_version(until),
        engine="V0" if engine.startswith("V0") else "V1",
        is_default=engine.endswith("*"),
        utilization=float(utilization),
        pool=cast("Literal['growth', 'absolute', 'consumed']", pool),
        checks_free_memory=check == "yes",
        nccl_is_outside=snapshot == "after",
        graphs_inside=graphs == "inside",
        warms_up_sampler=warmup == "yes",
        batch=batch,
        sampler_bytes=Estimate(sampler, low, high, f"declared: {cells[17]}"),
        activation_offset_gib=offset,
        activation_spread_gib=spread,
        stranded_bytes=stranded,
        stranded_high_bytes=stranded_high,
        evidence=cells[17],
    )


def outside_of(rules: Rules, family: str, kind: Kind) -> Outside:
    """What CUDA, NCCL and kernels hold on a card of this family."""
    for cells in _table("outside.tsv"):
        first, until, row_family, row_kind = cells[:4]
        if _holds(first, until, rules) and row_family in (family, "*") and row_kind == kind:
            context, low, high, non_torch, non_torch_low, non_torch_high = map(float, cells[4:10])
            source = f"declared: {cells[10]}"
            return Outside(
                Estimate(context, low, high, source), Estimate(non_torch, non_torch_low, non_torch_high, source)
            )
    raise AssertionError(f"outside.tsv has no row for {family}, {kind}, {rules.name}")


def graph_costs(rules: Rules, what: Literal["captured", "estimated"]) -> GraphCosts:
    """What CUDA graphs take, or what vLLM takes them for when it plans."""
    for cells in _table("graphs.tsv"):
        if _holds(cells[0], cells[1], rules) and cells[2] == what:
            fixed, layers, moe, copies = map(float, cells[3:7])
            return GraphCosts(
                fixed, layers, moe, copies, cells[7] == "both", float(cells[8]), float(cells[9]), cells[10]
            )
    raise AssertionError(f"graphs.tsv has no row for {what}, {rules.name}")


def _holds(first: str, until: str, rules: Rules) -> bool:
    return _version(first) <= rules.first < _version(until)


@cache
def _table(name: str) -> tuple[list[str], ...]:
    lines = (Path(__file__).parent / "data" / name).read_text(encoding="utf-8").splitlines()
    return tuple(line.split("\t") for line in lines if line and not line.startswith("#"))


@cache
def _version(text: str) -> Version:
    parsed = parse_version(text)
    assert parsed is not None
    return parsed


def _dotted(version: Version) -> str:
    return ".".join(map(str, version[:3]))
