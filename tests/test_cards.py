"""GPUs by name: the catalogue, words such as 8xA100-80GB, drivers' names, sizes of unknown cards, live readings."""

from __future__ import annotations

import re

import pytest

from engine_probe.errors import InputError
from engine_probe.facts import Known, Unknown
from engine_probe.hardware.gpus import Gpu, GpuState
from engine_probe.hardware.host import HostState
from engine_probe.memory.cards import CPU, catalogue, find_model, host_card, live_cards, parse_gpus, unlisted


def measured(value: float) -> Known:
    return Known(value, "measured", "NVML")


def test_every_card_of_the_catalogue_is_less_than_its_name_says_and_within_its_range() -> None:
    rows = {model.name: model for model in catalogue().values()}
    assert len(rows) > 60
    for model in rows.values():
        total = model.total_gib
        assert total.low <= total.value <= total.high, model.name
        assert total.high <= model.nominal_gb, model.name
        assert total.source.startswith("declared: catalogue of GPUs"), model.name


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("A100-80GB", "A100-80GB"),
        ("H100", "H100-80GB"),
        ("RTX4090-24GB", "RTX-4090-24GB"),
        ("4090", "RTX-4090-24GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA GeForce RTX 3090", "RTX-3090-24GB"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-ADA-48GB"),
        ("NVIDIA RTX A6000", "RTX-A6000-48GB"),
        ("Tesla T4", "T4-16GB"),
        ("AMD Instinct MI300X", "MI300X-192GB"),
    ],
)
def test_a_card_is_known_by_what_people_and_drivers_call_it(word: str, name: str) -> None:
    model = find_model(word)
    assert model is not None
    assert model.name == name


def test_groups_are_numbered_through() -> None:
    cards = parse_gpus("2xH100-80GB, 1 x L4-24GB")
    assert [(card.index, card.name) for card in cards] == [(0, "H100-80GB"), (1, "H100-80GB"), (2, "L4-24GB")]
    assert [card.total_gib.value for card in cards] == [79.19, 79.19, 22.05]
    others = cards[0].others_gib
    assert not isinstance(others, Unknown)
    assert others.value == 0


def test_an_unknown_card_counts_by_the_size_in_its_name_with_a_wide_range() -> None:
    (card, *rest) = parse_gpus("4xFOO-32GB")
    assert len(rest) == 3
    assert card.family == "unknown"
    assert card.model.capability is None
    assert 29 < card.total_gib.low < card.total_gib.value < card.total_gib.high < 32
    assert "not in the catalogue" in card.total_gib.source


def test_a_known_card_of_another_size_keeps_its_family() -> None:
    (card,) = parse_gpus("H100-96GB")
    assert card.family == "hopper"
    assert card.total_gib.high < 96


def test_only_the_card_itself_counts_as_an_a100() -> None:
    assert parse_gpus("A100-80GB")[0].counts_as_a100
    assert not parse_gpus("A800-80GB")[0].counts_as_a100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("8xA10O", 'no GPU "A10O" is known; add its size'),
        ("8xB20O-x", "no GPU"),
        ("", "is no GPU; write it like 8xA100-80GB"),
        ("0xA100-80GB", "is no GPU at all"),
        ("8xA100-80GB,,L4", "is no GPU"),
        ("FOO-0GB", 'no GPU "FOO-0GB" is known'),
        ("2000xA100-80GB", "at most 1024 GPUs"),
        ("1000000000xA100-80GB", "at most 1024 GPUs"),
        (f"{'1' * 5000}xA100-80GB", "at most 1024 GPUs"),
        ("1024xA100-80GB,L4", "at most 1024 GPUs"),
        (f"{'1' * 40}A100-80GB", "is no GPU"),
        ("cpu-1e400GB", "from cpu-1GB to cpu-65536GB"),
        ("cpu--1GB", "from cpu-1GB to cpu-65536GB"),
        ("cpu-65537GB", "from cpu-1GB to cpu-65536GB"),
        ("cpu-64GB,1xA100-80GB", "described alone"),
        ("8xA100-80GB\x1b[31m", "is no GPU"),
        ("8xA100-80GB\nit fits", "--gpus 8xA100-80GB␊it fits: "),
    ],
)
def test_what_is_no_gpu_is_one_clear_error(text: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        parse_gpus(text)


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("L4-24GBxL4", "L4-24GB"),
        ("4xH100-80GBB", "H100-80GB"),
        ("8xA100-80GB8", "A100-80GB"),
        ("H100 80GB junk", "H100-80GB"),
        ("1xH100-80GB-80GB", "H100-80GB"),
        ("8xx100-80GB", "H100-80GB"),
        ("A100-80GB x 4", "A100-80GB"),
        ("H10O-80GB", "H100-80GB"),
        ("L4O-48GB", "L40-48GB"),
        ("A6OOO-48GB", "RTX-A6000-48GB"),
        ("H100-800GB", "H100-80GB"),
        ("A100-80", "A100-80GB"),
        ("2xcpu-64GB", "cpu-64GB"),
        ("cpu-64", "cpu-64GB"),
        ("cpu", "cpu-64GB"),
    ],
)
def test_a_word_that_only_begins_like_a_gpu_is_refused_with_the_nearest_one(word: str, near: str) -> None:
    with pytest.raises(InputError) as error:
        parse_gpus(word)
    assert error.value.nearest == near


def test_a_size_written_otherwise_is_that_of_the_catalogue() -> None:
    assert {parse_gpus(word)[0].name for word in ("A100 80G", "A100-80GiB", "A100_80 GB")} == {"A100-80GB"}


def test_a_card_that_counts_by_its_name_is_said() -> None:
    (said,) = unlisted(parse_gpus("2xRTX-4099-48GB,1xL4"))
    assert said.startswith(
        "RTX-4099-48GB is not in the catalogue of GPUs; its size less what drivers usually keep: 44.2 to"
    )
    assert "known and near: RTX-409" in said
    assert unlisted(parse_gpus("8xH100-80GB")) == ()


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(InputError) as error:
        parse_gpus("4xRTX-4091")
    assert error.value.nearest == "RTX-4090"


def gpu(name: str, **facts: Known | Unknown) -> Gpu:
    unknown = Unknown("not asked in this test")
    sizes = {"total_gib": unknown, "used_gib": unknown, "free_gib": unknown, **facts}
    return Gpu(index=3, uuid="GPU-1", name=name, processes=(), **sizes)


def test_a_live_card_has_the_total_that_cuda_sees_and_what_others_use() -> None:
    sizes = {"total_gib": 79.65, "cuda_total_gib": 79.11, "used_gib": 12.5, "reserved_gib": 0.5}
    read = gpu("NVIDIA H100 80GB HBM3", **{name: measured(size) for name, size in sizes.items()})
    (card,) = live_cards(GpuState((read,)))
    assert (card.index, card.name, card.family) == (3, "NVIDIA H100 80GB HBM3", "hopper")
    assert card.total_gib.value == 79.11
    assert card.total_gib.source.startswith("measured")
    others = card.others_gib
    assert not isinstance(others, Unknown)
    assert others.value == 12.5  # what is in use is told without the reserve


def test_an_older_driver_counts_its_reserve_as_in_use() -> None:
    (card,) = live_cards(GpuState((gpu("NVIDIA A100-SXM4-80GB", total_gib=measured(80.0), used_gib=measured(12.9)),)))
    others = card.others_gib
    assert not isinstance(others, Unknown)
    assert others.value == pytest.approx(12.9 - 0.75)
    assert others.low <= others.value <= others.high


def test_where_the_reserve_is_not_told_the_catalogue_says_what_torch_sees() -> None:
    (card,) = live_cards(GpuState((gpu("NVIDIA A100-SXM4-80GB", total_gib=measured(80.0)),)))
    assert card.total_gib.value == 79.25
    assert isinstance(card.others_gib, Unknown)


def test_a_live_card_that_nobody_knows_is_measured() -> None:
    (card,) = live_cards(GpuState((gpu("ACME Accelerator", total_gib=measured(100.0), used_gib=measured(1.0)),)))
    assert (card.family, card.model.capability) == ("unknown", None)
    assert card.total_gib.low < card.total_gib.value <= card.total_gib.high == 100.0


def test_without_a_gpu_the_error_says_what_to_give() -> None:
    with pytest.raises(InputError, match=r"no libnvidia-ml.*--gpus 8xA100-80GB"):
        live_cards(GpuState(unavailable="no libnvidia-ml"))


def test_a_host_without_gpus_is_one_card_up_to_its_limit() -> None:
    unknown = Unknown("not asked in this test")
    four = (unknown, unknown, unknown, unknown)
    host = HostState(measured(64.0), measured(10.0), *four, measured(16.0), measured(1.0))
    card = host_card(host)
    assert (card.family, card.total_gib.value) == (CPU, 16.0)
    (described,) = parse_gpus("cpu-64GB")
    assert (described.family, described.total_gib.value) == (CPU, 64.0)
