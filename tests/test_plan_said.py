"""What `vllm-console plan` says beside its numbers: notes, what is free, what there is none of, bad input."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from engine_probe.facts import Known
from engine_probe.hardware import gpus as gpus_module
from engine_probe.hardware.gpus import Gpu, GpuState
from engine_probe.launch import Launch
from tests import memory_configs as configs
from tests.memory_folders import write_config
from tests.memory_plans import planned, shape_of
from tui.cli import main
from tui.widgets.plan_detail import details

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Plan = Callable[..., tuple[int, str, str]]

SHORT = "args: {max-model-len: 8192}"


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Plan:
    """Of launches as the file has them, with options; the models are llama-8b, llama-70b and qwen."""
    for name, config in (("llama-8b", configs.LLAMA_8B), ("llama-70b", configs.LLAMA_70B), ("qwen", configs.QWEN_05B)):
        write_config(tmp_path / name, config)

    def run(launches: str, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "deployment.yaml"
        path.write_text(f"models:\n{launches}\n", encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            main(["plan", str(path), *options])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run


def object_of(found: tuple[int, str, str]) -> dict[str, Any]:
    read = json.loads(found[1])
    assert isinstance(read, dict)
    return read


@pytest.mark.parametrize("share", ["0.15", "0.22"])
def test_nothing_that_a_plan_says_looks_like_a_secret(plan: Plan, share: str) -> None:
    small = (
        f"  - {{name: a, model: llama-8b, gpus: [0], args: {{max-model-len: 8192, gpu-memory-utilization: {share}}}}}"
    )
    _, out, _ = plan(small, "--gpus", "1xH100-80GB", "--vllm", "0.19.0")
    assert "cpu-offload-gb" in out
    assert "***" not in out


@pytest.mark.parametrize("cache", ["gpu-memory-utilization: 0.92", "kv-cache-memory-bytes: 30G"])
def test_ranks_on_a_cpu_are_proposed_a_cache_that_all_of_them_have_room_for(plan: Plan, cache: str) -> None:
    args = f"{{max-model-len: 8192, tensor-parallel-size: 2, {cache}}}"
    found = object_of(
        plan(f"  - {{name: a, model: llama-8b, args: {args}}}", "--gpus", "cpu-64GB", "--vllm", "0.32.0", "--json")
    )
    (model,) = found["models"]
    assert (model["fits"], model["why_not"]["id"]) == (False, "kv-cache-bytes-exceed-memory")
    assert len(found["proposal"]["changes"]) == 1
    assert found["proposal"]["margins_gib"]["a"] >= 0


def card(index: int, used_gib: float = 0.0) -> Gpu:
    sizes = {"total_gib": 79.65, "cuda_total_gib": 79.19, "used_gib": used_gib, "reserved_gib": 0.46}
    facts: dict[str, Any] = {name: Known(size, "measured", "NVML") for name, size in sizes.items()}
    free = Known(79.19 - used_gib, "measured", "NVML")
    return Gpu(index=index, uuid=f"GPU-{index}", name="NVIDIA H100 80GB HBM3", processes=(), free_gib=free, **facts)


def host_with(monkeypatch: pytest.MonkeyPatch, *gpus: Gpu) -> None:
    state = GpuState(gpus) if gpus else GpuState(unavailable="no driver is loaded")
    monkeypatch.setattr(gpus_module, "read_gpus", lambda: state)


@pytest.mark.parametrize(
    ("visible", "gpus", "unused", "give"),
    [
        (0, "[6]", "not used: the gpus of a ([6]).", "--gpus 8xA100-80GB --vllm 0.19.0 plans GPUs"),
        (2, "[1]", "not used: the gpus of a ([1]), the 2 GPUs of this host.", "--vllm 0.19.0 plans this host's GPUs"),
        (1, None, "not used: the 1 GPU of this host.", "--vllm 0.19.0 plans this host's GPUs"),
        (0, None, None, None),
    ],
)
def test_a_build_for_cpus_says_which_gpus_it_leaves_unused(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, visible: int, gpus: str | None, unused: str | None, give: str | None
) -> None:
    host_with(monkeypatch, *map(card, range(visible)))
    named = "" if gpus is None else f"gpus: {gpus}, "
    args = "args: {max-model-len: 4096, kv-cache-memory-bytes: 1G}"
    launches = f"  - {{name: a, model: qwen, {named}{args}}}"
    found = object_of(plan(launches, "--vllm", "0.32.0+cpu", "--json"))
    assert [one["name"] for one in found["gpus"]] == ["CPU"]
    notes = " ".join(found["notes"])
    assert ("is a build for CPUs" in notes) is (unused is not None)
    assert (unused or "") in notes
    assert (give or "") in notes


def test_a_gpu_that_others_fill_is_left_for_one_that_is_free(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, with GPU 0 full and GPUs 6 and 7 free."""
    host_with(monkeypatch, *(card(index, 0.0 if index > 5 else 76.0) for index in range(8)))
    launches = "".join(
        f"  - {{name: {name}, model: llama-8b, gpus: [{gpu}], {SHORT}}}\n" for name, gpu in (("a", 0), ("b", 6))
    )
    code, out, _ = plan(launches, "--vllm", "0.19.0")
    assert code == 1
    assert "proposal: with one change all models fit" in out
    assert "  +  gpus: [7]" in out


def test_a_release_newer_than_all_is_a_note_and_told_as_unknown(plan: Plan) -> None:
    found = object_of(
        plan(f"  - {{name: a, model: llama-8b, {SHORT}}}", "--gpus", "1xH100", "--vllm", "1.9.0", "--json")
    )
    assert found["notes"][0].startswith("vLLM 1.9.0 is newer than all that is known here")
    assert found["models"][0]["sources"]["accounting"].startswith(
        "declared: an unknown release of vLLM, counted as vLLM 0."
    )


@pytest.mark.parametrize("used_gib", [0.0, 2.25])
def test_what_is_free_is_one_number_wherever_it_is_told(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, used_gib: float
) -> None:
    host_with(monkeypatch, card(0, used_gib))
    two = f"  - {{name: a, model: llama-8b, {SHORT}}}\n  - {{name: b, model: qwen, {SHORT}}}"
    found = object_of(plan(two, "--vllm", "0.19.0", "--json"))
    free = found["gpus"][0]["free_gib"]
    taken = sum(one["gib"] for one in found["gpus"][0]["models"])
    assert free == pytest.approx(79.19 - used_gib - taken, abs=0.01)
    assert f"{free:.1f} GiB are beside a" in found["models"][1]["why_not"]["text"]
    _, out, _ = plan(two, "--vllm", "0.19.0")
    assert f"  {free:.1f} free" in out
    assert f"{free:.1f} GiB are beside a" in " ".join(out.split())
    assert "free: torch's total, less other processes and models, CUDA contexts counted" in out


def test_bars_of_a_host_hold_all_ranks(plan: Plan) -> None:
    args = "{max-model-len: 8192, tensor-parallel-size: 2, gpu-memory-utilization: 0.4}"
    one = f"  - {{name: a, model: llama-8b, args: {args}}}"
    _, out, _ = plan(one, "--gpus", "cpu-64GB", "--vllm", "0.32.0")
    assert "  12.8 free" in out  # 64 - 2 x 0.4 x 64


NO_CACHE = {
    "weights above the card": ("llama-70b", "max-model-len: 8192"),
    "a budget below the weights": ("llama-8b", "max-model-len: 8192, gpu-memory-utilization: 0.15"),
    "a share that is not free": ("llama-8b", "max-model-len: 8192, gpu-memory-utilization: 1.0"),
    "a cache above what is left": ("llama-8b", "max-model-len: 8192, kv-cache-memory-bytes: 75G"),
}


@pytest.mark.parametrize("case", NO_CACHE)
def test_what_a_cache_would_hold_is_not_told_of_a_model_that_ends_before_it(plan: Plan, case: str) -> None:
    model, args = NO_CACHE[case]
    launch = f"  - {{name: a, model: {model}, gpus: [0], args: {{{args}}}}}"
    code, out, _ = plan(launch, "--gpus", "1xH100", "--vllm", "0.19.0")
    assert code == 1
    assert "at once" not in out.split("proposal")[0]
    (told,) = object_of(plan(launch, "--gpus", "1xH100", "--vllm", "0.19.0", "--json"))["models"]
    assert not told["fits"]
    assert {told[key] for key in ("kv_tokens", "max_concurrency", "kv_blocks", "longest_model_len")} == {None}
    assert told["kv_bytes_per_token"] in (131072, 327680)


def test_a_cache_that_is_too_short_tells_what_it_holds(plan: Plan) -> None:
    long = "  - {name: a, model: llama-8b, args: {max-model-len: 131072}}"
    code, out, _ = plan(long, "--gpus", "1xL4-24GB", "--vllm", "0.19.0")
    assert code == 1
    assert "34144 tokens would fit" in " ".join(out.split())
    assert "0.26 requests of 131072 tokens at once" in out
    assert "proposal: with one change all models fit" in out


def test_a_pool_below_nothing_is_said_to_be_short(plan: Plan) -> None:
    launch = "  - {name: a, model: llama-70b, gpus: [0], args: {max-model-len: 8192}}"
    _, out, _ = plan(launch, "--gpus", "1xH100", "--vllm", "0.19.0")
    assert "  KV pool      none: 62.33 GiB short " in out


def test_where_a_number_comes_from_fits_on_its_line_and_is_whole_in_json(plan: Plan) -> None:
    """The widest number too has a space after it."""
    launch = "  - {name: a, model: llama-70b, gpus: [0], args: {max-model-len: 8192}}"
    _, out, _ = plan(launch, "--gpus", "1xH100", "--vllm", "0.19.0")
    lines = [line for line in out.splitlines() if re.search(r" (computed|declared|measured): ", line)]
    assert len(lines) == 7
    assert max(map(len, lines)) <= 81
    assert "(129.45 to 133.39) computed: config.json" in out
    (told,) = object_of(plan(launch, "--gpus", "1xH100", "--vllm", "0.19.0", "--json"))["models"]
    assert max(map(len, told["sources"].values())) > 100


@pytest.mark.parametrize(
    ("gpus", "version", "key", "value", "costs"),
    [
        ("1xL40S", "0.19.0", "args.kv-cache-memory-bytes", 16 << 30, "12.0 GiB more of each of its GPUs"),
        ("1xL4", "0.19.0", "args.max-model-len", 32768, "requests above 32,768 tokens are refused"),
        ("cpu-64GB", "0.32.0", "args.kv-cache-memory-bytes", 257 << 26, "12.1 GiB more of the host's memory"),
        ("cpu-24GB", "0.32.0", "args.max-model-len", 30720, "requests above 30,720 tokens are refused"),
    ],
)
def test_a_cache_of_a_fixed_size_that_is_too_short_grows_or_the_length_shrinks(
    plan: Plan, gpus: str, version: str, key: str, value: int, costs: str
) -> None:
    """One request of 131,072 tokens needs 16 GiB, newer releases keep one block for none, and 4 GiB are set: there is
    room for more, or there is not.
    """
    launch = "  - {name: a, model: llama-8b, args: {max-model-len: 131072, kv-cache-memory-bytes: 4G}}"
    found = object_of(plan(launch, "--gpus", gpus, "--vllm", version, "--json"))
    assert found["models"][0]["why_not"]["id"] == "kv-cache-too-small-for-max-model-len"
    (change,) = found["proposal"]["changes"]
    assert change["set"] == {key: value}
    assert change["costs"].startswith(costs)
    assert found["proposal"]["margins_gib"]["a"] >= 0


@pytest.mark.parametrize(("share", "is_told"), [(0.9, True), (0.15, False)])
def test_the_screen_s_detail_tells_no_capacity_of_a_cache_that_is_not_there(
    tmp_path: Path, share: float, is_told: bool
) -> None:
    shapes = {"llama-8b": shape_of(tmp_path / "llama-8b", configs.LLAMA_8B)}
    args = {"max-model-len": 8192, "gpu-memory-utilization": share}
    made = planned(shapes, [Launch("a", "llama-8b", args=args)], "1xH100-80GB")
    text = details(made, made, "a", 160).plain
    assert ("KV tokens" in text) is is_told
    assert ("5.23 GiB short" in text) is not is_told
    assert re.search(r"per token +131,072", text)


def test_weights_above_all_gpus_are_the_reason_even_where_too_few_are_named(plan: Plan) -> None:
    launch = "  - {name: a, model: llama-70b, gpus: [0], args: {max-model-len: 8192, tensor-parallel-size: 2}}"
    _, out, _ = plan(launch, "--gpus", "2xT4", "--vllm", "0.19.0")
    assert "65.7 GiB of weights" in " ".join(out.split("no proposal")[1].split())


def test_ranks_that_cannot_be_are_fewer_on_a_cpu(plan: Plan) -> None:
    launch = "  - {name: a, model: qwen, args: {max-model-len: 8192, tensor-parallel-size: 3}}"
    found = object_of(plan(launch, "--gpus", "cpu-64GB", "--vllm", "0.32.0", "--json"))
    sets = {key: value for one in found["proposal"]["changes"] for key, value in one["set"].items()}
    assert sets["args.tensor-parallel-size"] in (1, 2)
