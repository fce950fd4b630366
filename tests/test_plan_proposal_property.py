"""Whatever the models, GPUs and releases: a proposal fits, its file says so, and there is nothing more to propose."""

from __future__ import annotations

import functools
import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine_probe.deployment import deployment_yaml, read_deployment
from engine_probe.launch import Deployment, Launch
from engine_probe.memory.cards import parse_gpus
from engine_probe.memory.read_model import read_model
from engine_probe.revisions import write_changes
from playbooks.placement import plan_of
from playbooks.plan_proposal import propose
from tests.memory_folders import write_config
from tests.plan_proposal_samples import CONFIGS

if TYPE_CHECKING:
    from engine_probe.memory.model import ModelShape
    from playbooks.placement import Plan

MODELS = ("llama-8b", "llama-8b-long", "llama-13b", "llama-70b", "small", "qwen-72b-awq")
HARDWARE = ("1xA100-80GB", "2xL4-24GB", "4xH100-80GB", "8xA100-80GB", "2xA100-80GB,2xL4-24GB", "cpu-64GB")
RELEASES = ("0.6.6", "0.8.5", "0.10.2", "0.16.0", "0.19.0", "0.20.2", "0.33.0", None)
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "tensor-parallel-size": st.sampled_from([1, 2, 4, 8]),
        "gpu-memory-utilization": st.integers(5, 100).map(lambda share: share / 100),
        "max-model-len": st.sampled_from([2048, 4096, 8192, 32768, 131072]),
        "max-num-seqs": st.sampled_from([8, 256, 1024]),
        "kv-cache-memory-bytes": st.integers(1, 90).map(lambda gib: gib << 30),
        "enforce-eager": st.booleans(),
    },
)
Written = list[tuple[str, dict[str, Any], list[int] | None]]
LAUNCHES = st.lists(
    st.tuples(
        st.sampled_from(MODELS), ARGS, st.none() | st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True)
    ),
    min_size=1,
    max_size=4,
)


@functools.cache
def shapes() -> dict[str, ModelShape]:
    folder = Path(tempfile.mkdtemp())
    return {name: read_model(write_config(folder / name, CONFIGS[name])) for name in MODELS}


def plan_for(launches: Written, gpus: str, version: str | None, start: Any) -> Plan:
    models = tuple(
        Launch(f"m{number}", f"/models/{model}", args, gpus=None if on is None else tuple(on))
        for number, (model, args, on) in enumerate(launches)
    )
    return plan_again(Deployment(models, start=start), gpus, version)


def plan_again(deployment: Deployment, gpus: str, version: str | None) -> Plan:
    known = {one.name: shapes()[Path(one.model).name] for one in deployment.models}
    return plan_of(deployment, known, parse_gpus(gpus), version)


@settings(max_examples=40, deadline=None)
@given(LAUNCHES, st.sampled_from(HARDWARE), st.sampled_from(RELEASES), st.sampled_from(["sequential", "parallel"]))
def test_a_proposal_fits_and_is_final(launches: Written, gpus: str, version: str | None, start: str) -> None:
    plan = plan_for(launches, gpus, version, start)
    proposal = propose(plan)
    if proposal is None:
        return
    assert not plan.fits
    after = plan_again(proposal.deployment, gpus, version)
    assert after.fits
    assert propose(after) is None, "there is nothing more to change"
    assert [one.name for one in sorted(proposal.deployment.models, key=lambda one: one.name)] == sorted(
        one.name for one in plan.deployment.models
    )
    pairs = [(one.launch, one.key) for one in proposal.changes]
    assert len(pairs) == len(set(pairs)), "no key twice"
    if after.deployment.start == "parallel":
        for one, other in itertools.combinations(after.models, 2):
            assert not set(one.gpus) & set(other.gpus), "who finds the memory is chance"
    _written_as_a_file(plan, proposal.deployment, [(one.launch, one.key, one.value) for one in proposal.changes])


def _written_as_a_file(plan: Plan, wanted: Deployment, changes: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "deployment.yaml"
        file.write_text("# mine\n" + deployment_yaml(plan.deployment), encoding="utf-8")
        revision = write_changes(file, read_deployment(file), changes)
        text = file.read_text(encoding="utf-8")
        assert text.startswith("# mine\n")
        read = read_deployment(file)
        assert (read.models, read.start) == (wanted.models, wanted.start)
        assert revision.kept.read_text(encoding="utf-8") == "# mine\n" + deployment_yaml(plan.deployment)
