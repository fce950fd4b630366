"""What starts printed and what a later plan takes of it: logs of several releases, and which starts are alike."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_probe.command_line import parse_command
from engine_probe.errors import InputError
from engine_probe.events import Event, Ready, StageEntered
from engine_probe.launch import Deployment, Launch
from engine_probe.logs.records import read_text
from engine_probe.memory.cards import parse_gpus
from engine_probe.memory.learned import Printed, Start, card_key, corrections_for
from engine_probe.memory.learned_args import launch_args
from engine_probe.memory.learned_log import Where, learn_from_log
from engine_probe.memory.learned_lookup import Lookup, learned_or_nothing
from engine_probe.memory.learned_model import Fingerprint, fingerprint_of
from engine_probe.memory.learned_start import learn, learn_after_load
from engine_probe.memory.learned_store import read_learned
from playbooks.context import new_session
from playbooks.lessons import Lessons

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine_probe.memory.learned_args import Setting

MODEL = Fingerprint("c" * 32, "w" * 32)
LAUNCH = parse_command("vllm serve acme/m-7b --tensor-parallel-size 2 --max-model-len 4096")

V1_TP2 = """\
(APIServer pid=10) INFO 03-02 10:11:12 [api_server.py:1772] vLLM API server version 0.13.0
(EngineCore_DP0 pid=20) INFO 03-02 10:11:20 [core.py:93] Initializing a V1 LLM engine (v0.13.0) with config: model='acme/m-7b', dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=2
(Worker_TP0 pid=30) INFO 03-02 10:11:30 [gpu_model_runner.py:3549] Starting to load model acme/m-7b...
(Worker_TP0 pid=30) INFO 03-02 10:11:40 [gpu_model_runner.py:3600] Model loading took 6.75 GiB memory and 9.1 seconds
(Worker_TP1 pid=31) INFO 03-02 10:11:40 [gpu_model_runner.py:3600] Model loading took 6.80 GiB memory and 9.1 seconds
(Worker_TP0 pid=30) INFO 03-02 10:11:45 [gpu_worker.py:375] Available KV cache memory: 60.10 GiB
(Worker_TP1 pid=31) INFO 03-02 10:11:45 [gpu_worker.py:375] Available KV cache memory: 59.90 GiB
(EngineCore_DP0 pid=20) INFO 03-02 10:11:46 [kv_cache_utils.py:1087] GPU KV cache size: 981,376 tokens
(EngineCore_DP0 pid=20) INFO 03-02 10:11:46 [kv_cache_utils.py:1091] Maximum concurrency for 4,096 tokens per request: 239.59x
(Worker_TP0 pid=30) INFO 03-02 10:11:59 [gpu_model_runner.py:4200] Graph capturing finished in 12 secs, took 0.61 GiB
(Worker_TP0 pid=30) INFO 03-02 10:12:00 [gpu_worker.py:500] Free memory on device (78.30/79.25 GiB) on startup. Desired GPU memory utilization is (0.9, 71.32 GiB). Actual usage is 6.75 GiB for weight, 1.23 GiB for peak activation, 0.31 GiB for non-torch memory, and 0.61 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=57912345088`
(APIServer pid=10) INFO:     Application startup complete.
"""  # noqa: E501
V0 = """\
INFO 03-02 10:11:12 api_server.py:712] vLLM API server version 0.7.3
INFO 03-02 10:11:20 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: model='acme/m-7b', dtype=torch.bfloat16, tensor_parallel_size=2
INFO 03-02 10:11:40 model_runner.py:1115] Loading model weights took 6.7581 GB
INFO 03-02 10:11:45 worker.py:267] the current vLLM instance can use total_gpu_memory (79.25GiB) x gpu_memory_utilization (0.90) = 71.33GiB
INFO 03-02 10:11:45 worker.py:267] model weights take 6.76GiB; non_torch_memory takes 0.12GiB; PyTorch activation peak memory takes 1.36GiB; the rest of the memory reserved for KV Cache is 63.09GiB.
INFO 03-02 10:11:46 executor_base.py:111] # cuda blocks: 64604, # CPU blocks: 4096
INFO 03-02 10:11:46 executor_base.py:116] Maximum concurrency for 4096 tokens per request: 252.36x
"""  # noqa: E501
NEWEST = V1_TP2.replace("0.13.0", "0.30.0").replace(
    "6.75 GiB for weight, 1.23 GiB for peak activation, 0.31 GiB for non-torch memory, and",
    "7.15 GiB for consumed memory (weights + non-torch), 1.23 GiB for peak activation, and",
)
NODE = "(EngineCore_DP0 pid=20) INFO 03-02 10:11:44 [cpu.py:1] Explicitly set (0.09/8.09) GiB for KV cache on node 0.\n"
DEBUGGED = (
    "(EngineCore_DP0 pid=20) INFO 03-02 10:11:20 [core.py:93] Initializing a V1 LLM engine (v0.10.2) with config: "
    "model='acme/m-7b', dtype=torch.bfloat16, tensor_parallel_size=2\n"
    "(EngineCore_DP0 pid=20) DEBUG 03-02 10:11:43 [gpu_worker.py:297] Memory profiling takes 14.40 seconds. Total non "
    "KV cache memory: 10.22GiB; torch peak memory increase: 1.40GiB; non-torch forward increase memory: 0.02GiB; "
    "weights "
    "memory: 8.80GiB.\n"
)


def learnt(text: str, launch: Launch = LAUNCH, **where: Any) -> list[Start]:
    return learn_from_log(read_text([text]), launch, replace_where(**where))


def replace_where(**changed: Any) -> Where:
    return Where(MODEL, "NVIDIA H100 80GB HBM3", "a.log", 1000.0)._replace(**changed)


def values(start: Start) -> dict[str, float]:
    return {name: one.value for name, one in start.printed.items()}


def test_a_log_of_two_ranks_gives_the_worst_of_both_with_its_line() -> None:
    (start,) = learnt(V1_TP2)
    assert (start.version, start.card, start.model) == ("0.13.0", "H100-80GB", MODEL)
    assert start.printed == {
        "weights_gib": Printed(6.80, "a.log:5"),
        "activation_gib": Printed(1.23, "a.log:11"),
        "non_torch_gib": Printed(0.31, "a.log:11"),
        "graphs_gib": Printed(0.61, "a.log:10"),
        "kv_pool_gib": Printed(59.90, "a.log:7"),
        "kv_tokens": Printed(981376, "a.log:8"),
        "max_concurrency": Printed(239.59, "a.log:9"),
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            V0,
            {
                "weights_gib": 6.76,
                "activation_gib": 1.36,
                "non_torch_gib": 0.12,
                "kv_pool_gib": 63.09,
                "kv_blocks": 64604,
            },
        ),
        (NEWEST, {"weights_gib": 6.80, "activation_gib": 1.23, "non_torch_gib": 0.35, "graphs_gib": 0.61}),
        (DEBUGGED, {"weights_gib": 8.80, "activation_gib": 1.40, "non_torch_gib": 0.02}),
    ],
)
def test_the_wordings_of_other_releases(text: str, told: dict[str, float]) -> None:
    (start,) = learnt(text)
    found = values(start)
    assert {name: found[name] for name in told} == told


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("vllm serve acme/m-7b", "tensor-parallel-size 2 there, 1 in"),
        ("vllm serve acme/m-7b -tp 2 --max-model-len 8192", "max-model-len 4096 there, 8192"),
        ("vllm serve acme/m-7b -tp 2 --gpu-memory-utilization 0.5", "gpu-memory-utilization 0.9 there, 0.5"),
        ("vllm serve acme/other -tp 2", "the log is of acme/m-7b, not of acme/other"),
    ],
)
def test_a_log_of_another_start_teaches_nothing(command: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        learnt(V1_TP2, parse_command(command))
    assert told in caught.value.message


def test_a_log_without_numbers_or_release_teaches_nothing() -> None:
    assert learnt("") == []
    assert learnt("nothing of vLLM\n" * 3, parse_command("vllm serve m")) == []
    without = "".join(line for line in V1_TP2.splitlines(keepends=True) if "0.13.0" not in line)
    assert learnt(without) == []
    assert [one.version for one in learnt(without, version="0.13.0")] == ["0.13.0"]
    with pytest.raises(InputError, match="not of 0"):
        learnt(V1_TP2, version="0.14.0")


def test_a_log_that_grew_is_the_same_start_and_a_restart_is_another() -> None:
    lines = V1_TP2.splitlines(keepends=True)
    (part,), (whole,) = learnt("".join(lines[:7])), learnt(V1_TP2)
    assert part.id == whole.id
    assert learnt(V1_TP2.replace("10:11", "11:11"))[0].id != whole.id
    assert len({one.id for one in learnt(V1_TP2 + V1_TP2.replace("10:11", "11:11").replace("pid=10", "pid=11"))}) == 2


def start_of(args: Mapping[str, Setting], printed: Mapping[str, float], number: int = 1, **others: Any) -> Start:
    numbers = {name: Printed(value, f"{number}.log:1") for name, value in printed.items()}
    made = Start(f"id{number}", float(number), MODEL, "0.13.0", "H100-80GB", args, numbers)
    return replace(made, **others)


ALL = {"weights_gib": 6.8, "activation_gib": 1.2, "graphs_gib": 0.6, "kv_pool_gib": 59.9, "kv_tokens": 981376.0}
ARGS: dict[str, Setting] = {"tensor-parallel-size": 2, "max-model-len": 4096}


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (ARGS, set(ALL)),
        (ARGS | {"gpu-memory-utilization": 0.5}, {"weights_gib", "activation_gib", "graphs_gib"}),
        (ARGS | {"max-num-seqs": 8}, {"weights_gib"}),
        (ARGS | {"tensor-parallel-size": 4}, set()),
        (ARGS | {"quantization": "fp8"}, set()),
        (ARGS | {"compilation-config.mode": 0}, {"weights_gib"}),
        (ARGS | {"adapters": 2}, {"weights_gib"}),
    ],
)
def test_what_other_arguments_leave_standing(args: dict[str, Setting], names: set[str]) -> None:
    found = corrections_for([start_of(ARGS, ALL)], MODEL, "0.13.0+cu129", "H100", args)
    assert set(found) == names


@pytest.mark.parametrize(
    ("model", "version", "card", "fits"),
    [
        (MODEL, "0.13.0", "NVIDIA H100 80GB HBM3", True),
        (Fingerprint(MODEL.config, None), "0.13.0rc2", "H100-80GB", True),
        (Fingerprint(MODEL.config, "x"), "0.13.0", "H100-80GB", False),
        (Fingerprint("x", None), "0.13.0", "H100-80GB", False),
        (MODEL, "0.13.1", "H100-80GB", False),
        (MODEL, None, "H100-80GB", False),
        (MODEL, "0.13.0", "A100-80GB", False),
    ],
)
def test_only_the_same_model_release_and_card_count(
    model: Fingerprint, version: str | None, card: str, fits: bool
) -> None:
    assert bool(corrections_for([start_of(ARGS, ALL)], model, version, card, ARGS)) is fits


def test_several_starts_give_their_middle_and_their_range() -> None:
    starts = [start_of(ARGS, {"weights_gib": value}, number) for number, value in enumerate((6.8, 6.9, 7.5))]
    found = corrections_for(starts, MODEL, "0.13.0", "H100", ARGS)["weights_gib"]
    assert [found.value, found.low, found.high] == pytest.approx([6.9, 6.795, 7.505])
    assert found.source == "learnt from 3 starts (2.log:1, …)"
    assert found.estimate().source.startswith("learnt")


def test_the_same_arguments_go_before_those_that_are_only_alike() -> None:
    other = start_of(ARGS | {"max-num-seqs": 8}, {"weights_gib": 9.0}, 2)
    found = corrections_for([other, start_of(ARGS, ALL)], MODEL, "0.13.0", "H100", ARGS)["weights_gib"]
    assert (found.value, found.starts, found.kind) == (6.8, 1, "same arguments")


def test_a_cpu_s_pool_counts_only_where_its_size_was_given() -> None:
    fixed: dict[str, Setting] = {"kv-cache-memory-bytes": 1 << 24}
    none: dict[str, Setting] = {}
    for args, has_pool in ((none, False), (fixed, True)):
        start = start_of(args, ALL, card="cpu")
        found = corrections_for([start], MODEL, "0.13.0", "CPU", args)
        assert ("kv_pool_gib" in found) is has_pool
        assert "weights_gib" in found


def test_what_was_predicted_is_kept_beside_it() -> None:
    start = start_of(ARGS, ALL, predicted={"weights_gib": 6.5, "context_gib": 1.0})
    assert start.differences() == {"weights_gib": pytest.approx(0.3)}


def test_arguments_are_kept_without_secrets_and_paths() -> None:
    launch = parse_command(
        "VLLM_USE_V1=1 VLLM_API_KEY=sk-aaaaaaaaaaaaaaaaaaaaaaaa VLLM_CACHE_ROOT=/home/me "
        "vllm serve /home/me/m --api-key sk-aaaaaaaaaaaaaaaaaaaaaaaa --port 8001 --served-model-name secret-name "
        '--tensor-parallel-size 1 --quantization fp8 --speculative-config \'{"model": "/home/me/draft"}\' '
        "--hf-overrides.token=hf_abcdefghijklmnopqrstuvwxyz012345 --enable-lora --lora-modules a=/home/me/a"
    )
    args = launch_args(launch)
    assert {"quantization": "fp8", "env.VLLM_USE_V1": "1", "adapters": 1}.items() <= args.items()
    assert {
        "api-key",
        "port",
        "served-model-name",
        "tensor-parallel-size",
        "env.VLLM_API_KEY",
        "env.VLLM_CACHE_ROOT",
    }.isdisjoint(args)
    text = json.dumps(args)
    assert not any(one in text for one in ("/home", "sk-", "hf_", "secret-name", "draft"))
    assert launch_args(launch.with_arg("speculative-config", '{"model": "/home/me/other"}')) != args


@given(st.dictionaries(st.sampled_from(["dtype", "quantization", "load-format", "x"]), st.text(max_size=60)))
def test_any_argument_can_be_kept(args: dict[str, str]) -> None:
    made = launch_args(Launch("m", "m", args))
    assert json.loads(json.dumps(made)) == made
    assert not any("/" in str(value) for value in made.values())


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("H100-80GB", "H100-80GB"),
        ("CPU", "cpu"),
        ("cpu-64GB", "cpu"),
        ("Odd  one", "Odd one"),
    ],
)
def test_one_name_for_a_card(name: str, key: str) -> None:
    assert card_key(name) == key


def test_a_model_is_told_apart_by_its_configuration_and_the_sizes_of_its_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    bare = fingerprint_of(tmp_path)
    (tmp_path / "a.safetensors").write_bytes(b"12345")
    (tmp_path / "notes.md").write_text("x")
    full = fingerprint_of(tmp_path)
    assert bare.weights is None
    assert bare.fits(full)
    (tmp_path / "a.safetensors").write_bytes(b"123456")
    assert not fingerprint_of(tmp_path).fits(full)
    (tmp_path / "config.json").write_text("{ }")
    assert not fingerprint_of(tmp_path).fits(bare)
    with pytest.raises(InputError, match="cannot be read"):
        fingerprint_of(tmp_path / "missing")


def deployment(folder: Path) -> Deployment:
    (folder / "m-7b").mkdir(exist_ok=True)
    (folder / "m-7b" / "config.json").write_text("{}")
    return Deployment((replace(LAUNCH, model=str(folder / "m-7b")),))


def test_a_log_teaches_and_a_plan_takes_it(tmp_path: Path) -> None:
    log, store = tmp_path / "a.log", tmp_path / "state" / "learned.jsonl"
    log.write_text(V1_TP2)
    made = deployment(tmp_path)
    assert learned_or_nothing(store)[0].starts == ()
    assert learn(made, "m-7b", log, card="H100-80GB", store=store, predicted={"weights_gib": 6.7}) == 1
    assert learn(made, "m-7b", log, card="H100-80GB", store=store) == 0, "the same log again"
    learned, trouble = learned_or_nothing(store)
    assert trouble is None
    assert learned.starts[0].differences() == {"weights_gib": pytest.approx(0.1)}
    (h100,) = parse_gpus("1xH100-80GB")
    found = Lookup(learned, "0.13.0")(made.models[0], h100)
    assert found["kv_pool_gib"].source == "learnt from 1 start (a.log:7)"
    assert Lookup(learned, None)(made.models[0], h100) == {}
    assert Lookup(learned, "0.13.0")(replace(LAUNCH, model=str(tmp_path / "gone")), h100) == {}
    assert str(tmp_path) not in store.read_text()


def test_after_a_load_nothing_is_raised(tmp_path: Path) -> None:
    store = tmp_path / "learned.jsonl"
    (launch,) = deployment(tmp_path).models
    log = tmp_path / "load-1.log"
    assert "is no file" in (learn_after_load(launch, log, store) or "")
    log.write_text("nothing\n")
    assert learn_after_load(launch, log, store)
    log.write_text(V1_TP2.replace("tensor_parallel_size=2", "tensor_parallel_size=4"))
    assert learn_after_load(launch, log, store)
    log.write_text(V1_TP2.replace("79.25", "8.09") + NODE)
    assert learn_after_load(launch, log, store) is None
    assert learn_after_load(launch, log, store) is None, "known already"
    assert [one.card for one in read_learned(store).starts] == ["cpu"]


def test_loads_of_a_session_that_answered_teach_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = deployment(tmp_path)
    seen: list[Event | None] = []
    (tmp_path / "load-3.log").write_text(V1_TP2 + NODE)
    lessons = Lessons(lambda session, event: seen.append(event))
    session = new_session("case", made, "warm", "warm", {})
    session = replace(session, case_folder=str(tmp_path), progress=replace(session.progress, loads={"m-7b": 3}))
    for event in (None, StageEntered("m-7b", stage="serving")):
        lessons.see(session, event)
    lessons.learn()
    assert read_learned().starts == (), "it has not answered"
    lessons.see(session, Ready("m-7b", served_models=["m-7b"], port=8000))
    lessons.learn()
    assert len(read_learned().starts) == 1
    assert len(seen) == 3


def test_a_log_of_another_card_or_none_is_refused(tmp_path: Path) -> None:
    log, made, store = tmp_path / "a.log", deployment(tmp_path), tmp_path / "learned.jsonl"
    log.write_text(V1_TP2)
    for name, path, card, told in (
        ("m-7b", log, "L4-24GB", "a card with 79.25 GiB"),
        ("m-7c", log, "H100", "no model m-7c"),
        ("m-7b", tmp_path, "H100", "is no file"),
        ("m-7b", tmp_path / "none.log", "H100", "is no file"),
    ):
        with pytest.raises(InputError) as caught:
            learn(made, name, path, card=card, store=store)
        assert told in caught.value.message
    assert read_learned(store).starts == ()
