"""What else would help: computed by plans of their own, ranked, none of them applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from playbooks.plan_proposal import advise
from tests.plan_proposal_samples import launch, planned, write_models

if TYPE_CHECKING:
    from pathlib import Path

    from playbooks.placement import Plan
    from playbooks.plan_alternatives import Alternative


@pytest.fixture
def models(tmp_path: Path) -> Path:
    write_models(tmp_path)
    return tmp_path


def by_kind(plan: Plan) -> dict[str, Alternative]:
    return {one.kind: one for one in advise(plan).alternatives}


def test_a_length_that_is_too_long_has_alternatives_with_what_they_buy(models: Path) -> None:
    found = by_kind(planned(launch("a", models / "llama-8b-long"), gpus="1xL4-24GB"))
    four_bits, cache = found["quantised-4-bit"], found["fp8-kv-cache"]
    assert four_bits.set is None, "no argument makes a checkpoint"
    assert four_bits.weights_gib == pytest.approx(15.0 * 0.67, abs=1.2)
    assert four_bits.pool_gib == pytest.approx(four_bits.weights_gib or 0, abs=0.2)
    assert not cache.fits, "half of 16 GiB is more than is left"
    assert found["own-gpus"].fits
    assert "2 GPUs" in found["own-gpus"].what
    assert found["cpu-offload"].set is not None
    assert all(one.costs for one in found.values())


def test_what_is_enough_goes_first(models: Path) -> None:
    alternatives = advise(planned(launch("a", models / "llama-8b-long"), gpus="1xL4-24GB")).alternatives
    ranks = [(not one.all_fit, not one.fits) for one in alternatives]
    assert ranks == sorted(ranks)
    assert alternatives[0].all_fit


def test_an_fp8_cache_needs_a_card_and_a_release_that_can(models: Path) -> None:
    long = launch("a", models / "llama-8b-long")
    assert "fp8-kv-cache" in by_kind(planned(long, gpus="1xL4-24GB", version="0.19.0"))
    assert "fp8-kv-cache" not in by_kind(planned(long, gpus="1xA10-24GB", version="0.19.0"))
    assert "fp8-kv-cache" not in by_kind(planned(long, gpus="1xL4-24GB", version="0.8.5"))


def test_a_quantised_model_is_not_quantised_again(models: Path) -> None:
    found = by_kind(planned(launch("a", models / "qwen-72b-awq"), gpus="1xL4-24GB"))
    assert not [kind for kind in found if kind.startswith("quantised")]


def test_graphs_and_batches_are_named_where_they_take_something(models: Path) -> None:
    found = by_kind(planned(launch("a", models / "llama-8b-long"), gpus="1xL4-24GB", version="0.20.2"))
    assert (found["enforce-eager"].pool_gib or 0) > 0.2
    eager = launch("a", models / "llama-8b-long", enforce_eager=True)
    assert "enforce-eager" not in by_kind(planned(eager, gpus="1xL4-24GB", version="0.20.2"))
