"""Commands become launches and come back as the same words; what cannot be read is one clear error."""

from __future__ import annotations

import copy
import pickle
import random
import shlex
from dataclasses import FrozenInstanceError

import pytest

from engine_probe.command_line import parse_command
from engine_probe.errors import InputError
from engine_probe.flags import flag_table
from engine_probe.launch import Launch

COMMANDS = [
    "vllm serve facebook/opt-125m",
    "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 --gpu-memory-utilization 0.90",
    "vllm serve Qwen/Qwen2.5-7B-Instruct --max_model_len=4k -tp 2 --dtype bfloat16",
    "vllm serve m --no-enable-prefix-caching --enforce-eager",
    "vllm serve m -O3 --port 8001",
    "vllm serve m -O 2 --seed 0",
    "vllm serve m -O=3",
    "vllm serve m -O.level=3 --disable-log-stats",
    "vllm serve m -O '{\"level\": 3}'",
    "vllm serve m -cc.mode=3 -cc.cudagraph_mode NONE",
    "vllm serve m --compilation-config.mode 3 --compilation-config.use_inductor false",
    """vllm serve m --compilation-config '{"level": 3, "cudagraph_capture_sizes": [1, 2, 4]}'""",
    """vllm serve m --speculative-config '{"method":"ngram","num_speculative_tokens":5}' -tp=4""",
    """vllm serve m --hf-overrides "{\\"architectures\\": [\\"LlamaForCausalLM\\"]}\"""",
    "vllm serve m --served-model-name chat chat-latest 'my model' --port 8000",
    "vllm serve m --api-key one two --host 0.0.0.0",
    "vllm serve m --enable-lora --lora-modules sql=/adapters/sql chat=/adapters/chat --max-lora-rank 64",
    "vllm serve m --lora-modules sql=/adapters/sql",
    """vllm serve m --enable-lora --lora-modules '{"name": "a", "path": "/x", "base_model_name": "m"}'""",
    "vllm serve --model m --max-model-len 4096",
    "vllm serve --port 8000 --tensor-parallel-size 2 m",
    "vllm serve --max-model-len=-1 --model=m",
    "vllm serve m --max-model-len -1",
    "python -m vllm.entrypoints.openai.api_server --model m --port 8000",
    "python3 -u -m vllm.entrypoints.openai.api_server --tensor-parallel-size 8 --model /models/x",
    "/opt/vllm/bin/python -m vllm.entrypoints.cli.main serve m --port 1",
    "/opt/vllm/bin/vllm serve /models/Llama-3-70B --pipeline-parallel-size 2 --distributed-executor-backend ray",
    "numactl --cpunodebind=0 vllm serve m --data-parallel-size 2 -dpl 1 -dpa 10.0.0.1 -dpp 13345 --headless",
    "docker run --runtime nvidia --gpus all --name vllm -v ~/.cache:/cache -p 8000:8000 --ipc=host"
    " vllm/vllm-openai:v0.11.0 --model mistralai/Mistral-7B-v0.1 --dtype=half",
    "sudo docker run --rm vllm/vllm-openai@sha256:abc123 m --quantization awq",
    "vllm serve m -q gptq --kv-cache-dtype fp8_e5m2 --enable-chunked-prefill True --swap-space 16",
    'vllm serve m --rope-scaling \'{"rope_type":"yarn","factor":4.0}\' --chat-template ./my\\ template.jinja',
    "vllm serve m --limit-mm-per-prompt.image 2 --limit-mm-per-prompt.video=1",
    "vllm serve m --middleware a.b --middleware c.d --root-path ''",
    "vllm serve $MODEL --download-dir ${HOME}/models --max-num-seqs 16 --max-num-seqs 32",
    "vllm serve m --some-new-flag 7 --other-new-flag --third-new.key+ a --third-new.key+ b",
    "vllm serve m --hf-token --trust-remote-code --allowed-origins '[\"*\"]'",
]


@pytest.mark.parametrize("text", COMMANDS)
def test_words_come_back_as_written(text: str) -> None:
    launch = parse_command(text)
    assert launch.argv() == shlex.split(text)
    assert parse_command(launch.argv()) == launch
    assert parse_command(launch.command()) == launch


@pytest.mark.parametrize("text", COMMANDS)
def test_one_change_keeps_all_other_words(text: str) -> None:
    words = shlex.split(text)
    launch = parse_command(text).with_arg("block-size", 32)
    assert launch.argv() == [*words, "--block-size", "32"]
    assert launch.without_arg("block-size").argv() == words


def test_changed_argument_takes_the_place_of_the_old_one() -> None:
    launch = parse_command("vllm serve m --max_model_len=4k -tp 2 --max-num-seqs 1 --max-num-seqs 2 --seed 1")
    assert launch.with_arg("max-model-len", 2048).argv()[3:5] == ["--max-model-len", "2048"]
    assert launch.with_arg("max-num-seqs", 9).argv()[6:] == ["--max-num-seqs", "9", "--seed", "1"]
    assert launch.without_arg("-tp").argv() == shlex.split(
        "vllm serve m --max_model_len=4k --max-num-seqs 1 --max-num-seqs 2 --seed 1"
    )
    assert launch.with_arg("enable-prefix-caching", False).argv()[-1] == "--no-enable-prefix-caching"
    assert launch.with_arg("no-enable-prefix-caching", True).arg("enable-prefix-caching") is False


def test_canonical_values() -> None:
    launch = parse_command(
        "vllm serve org/Model-7B --max_model_len=25.6k -tp 2 --max-num-batched-tokens 4K --no-enable-prefix-caching"
        ' --gpu-memory-utilization .5 --revision 00123 --speculative-config \'{"b": 1, "a": [2]}\' -q awq'
    )
    assert launch.name == "Model-7B"
    assert dict(launch.args) == {
        "max-model-len": 25_600,
        "tensor-parallel-size": 2,
        "max-num-batched-tokens": 4096,
        "enable-prefix-caching": False,
        "gpu-memory-utilization": 0.5,
        "revision": "00123",
        "speculative-config": '{"a":[2],"b":1}',
        "quantization": "awq",
    }
    assert launch.arg("-tp") == 2
    assert launch.arg("max_num_batched_tokens") == 4096
    assert launch.arg("seed") is None


def test_spelling_does_not_matter_for_equality() -> None:
    one = parse_command("vllm serve m --max_model_len=4k -tp 2 --no-enable-prefix-caching", name="x")
    two = parse_command(
        "python -m vllm.entrypoints.openai.api_server --no-enable-prefix-caching --tensor-parallel-size=2"
        " --max-model-len 4000 --model m",
        name="x",
    )
    assert one == two
    assert one != parse_command("vllm serve m --max-model-len 4001 -tp 2 --no-enable-prefix-caching", name="x")


def test_environment_and_gpus() -> None:
    text = "CUDA_VISIBLE_DEVICES=4,5 VLLM_LOGGING_LEVEL=DEBUG HF_TOKEN='a b' vllm serve m"
    launch = parse_command(text)
    assert launch.gpus == (4, 5)
    assert dict(launch.env) == {"VLLM_LOGGING_LEVEL": "DEBUG", "HF_TOKEN": "a b"}
    assert launch.child_env() == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "4,5",
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "HF_TOKEN": "a b",
    }
    assert launch.command(masked=True) == (
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=4,5 VLLM_LOGGING_LEVEL=DEBUG HF_TOKEN=*** vllm serve m"
    )
    assert parse_command("CUDA_VISIBLE_DEVICES=GPU-1a2b vllm serve m").env["CUDA_VISIBLE_DEVICES"] == "GPU-1a2b"
    assert parse_command("env A=1 vllm serve m").env["A"] == "1"


def test_shell_script_around_the_command() -> None:
    text = (
        "#!/bin/bash\n# serve it\nexport VLLM_USE_V1=1\ncd /work && \\\n"
        "nohup vllm serve m \\\n  --max-model-len 4096 \\\r\n    --port 80 # p\n  --seed 1 > log 2>&1 &\necho"
    )
    launch = parse_command(text)
    assert launch.argv() == ["nohup", "vllm", "serve", "m", "--max-model-len", "4096", "--port", "80", "--seed", "1"]
    assert dict(launch.env) == {"VLLM_USE_V1": "1"}


def test_lora_adapters() -> None:
    on = parse_command("vllm serve m --enable-lora --lora-modules a=/x b=/y")
    assert dict(on.lora) == {"a": "/x", "b": "/y"}
    assert on.arg("enable-lora") is True
    forgotten = parse_command("vllm serve m --lora-modules a=/x b=/y")
    assert forgotten.arg("enable-lora") is False
    assert on != forgotten
    launch = Launch("m", "m", lora={"a": "/x"})
    assert launch.argv() == ["vllm", "serve", "m", "--enable-lora", "--lora-modules", "a=/x"]
    assert launch.with_lora("b", "/y").argv()[-2:] == ["a=/x", "b=/y"]
    assert on.with_lora("b", None).argv() == ["vllm", "serve", "m", "--enable-lora", "--lora-modules", "a=/x"]
    assert parse_command(launch.argv()) == launch


def test_docker_image_is_noted() -> None:
    launch = parse_command("docker run --gpus all --name vllm vllm/vllm-openai:v0.11.0 --model m")
    assert launch.engine is not None
    assert launch.engine.image == "vllm/vllm-openai:v0.11.0"
    assert launch.with_arg("seed", 1).argv()[-4:] == ["--model", "m", "--seed", "1"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("vllm serve 'm --port 1", 1, "the single quote at character 12 is never closed"),
        ('vllm serve m \\\n  --x "', 2, "the double quote at character 22 is never closed"),
        ("vllm serve", 1, "no model"),
        ("vllm serve --port 8000", 1, "no model"),
        ("vllm serve m --max-model-len", 1, 'the flag "--max-model-len" needs a value (at character 14)'),
        ("vllm serve m --max-model-len --port 1", 1, 'the flag "--max-model-len" needs a value'),
        ("vllm serve m extra", 1, 'the word "extra" belongs to no flag, and the model is given already (at'),
        ("vllm serve m --model n", 1, "the model is given twice"),
        ("vllm bench m", 1, "no command that starts vLLM"),
        ("python train.py", 1, "no command that starts vLLM"),
        ("", None, "no command"),
        ("   \n", None, "no command"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(text: str, line: int | None, words: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_command(text, source="script.sh")
    assert words in caught.value.message
    assert (caught.value.file, caught.value.line) == ("script.sh", line)


def test_error_in_words_counts_words() -> None:
    with pytest.raises(InputError, match=r'the flag "-tp" needs a value \(word 4 of the command\)'):
        parse_command(["vllm", "serve", "m", "-tp"])
    with pytest.raises(InputError, match="starts no vLLM"):
        parse_command([])


def test_unknown_flag_is_an_error_when_the_version_is_known() -> None:
    text = "vllm serve m \\\n  --max-modle-len 4096"
    assert parse_command(text).arg("max-modle-len") == 4096
    with pytest.raises(InputError) as caught:
        parse_command(text, vllm_version="0.11.2")
    assert (caught.value.line, caught.value.nearest) == (2, "max-model-len")
    assert "^^^^^^^^^^^^^^^" in str(caught.value)


def random_launch(rng: random.Random) -> Launch:
    words = [
        "x",
        "-x",
        "--x y",
        "a b",
        "",
        "'",
        '"',
        "$HOME",
        "ü",
        "{",
        "-1",
        "1.5",
        "true",
        "None",
        "a=b",
        "\\",
        "#",
        "\n",
    ]
    args: dict[str, bool | int | float | str | tuple[str, ...]] = {}
    for flag in rng.sample(sorted(flag_table().flags.values(), key=lambda f: f.name), 12):
        if flag.name in ("model", "lora-modules", "enable-lora"):
            continue
        if flag.values in ("+", "append"):
            args[flag.name] = tuple(rng.sample(["a", "b c", "d=e", "7"], 2))
        elif flag.type == "bool":
            args[flag.name] = True if flag.values == "on" else rng.random() < 0.5
        elif flag.type in ("int", "size"):
            args[flag.name] = rng.randrange(-1, 10**6)
        elif flag.type == "float":
            args[flag.name] = rng.random()
        elif flag.type == "json":
            args[flag.name] = rng.choice(['{"a":1}', '{"a":{"b":["c d"]}}', "[1,2]"])
        else:
            args[flag.name] = str(rng.choice([w for w in words if flag.values != "?" or not w.startswith("-")]))
    dotted: list[int | float | str] = [3, False, "x y", 0.25]
    args["compilation-config.mode"] = rng.choice(dotted)
    env = {f"V{n}": rng.choice(words) for n in range(rng.randrange(3))}
    gpus = rng.choice([None, (0,), (4, 5)])
    lora = rng.choice([{}, {"a": "/x y"}, {"a": "/x", "b": "org/b"}])
    return Launch("name", rng.choice(["org/m", "/models/a b", "./m"]), args, env, gpus, None, lora)


@pytest.mark.parametrize("seed", range(60))
def test_launch_to_words_and_back(seed: int) -> None:
    launch = random_launch(random.Random(seed))
    assert parse_command(launch.argv(), name="name").args == launch.args
    assert parse_command(launch.command(), name="name") == launch


def test_launch_cannot_be_changed() -> None:
    launch = Launch("a", "m", {"seed": 1}, {"A": "1"})
    with pytest.raises(TypeError):
        launch.args["seed"] = 2  # type: ignore[index]
    with pytest.raises(TypeError):
        launch.env.update(A="2")  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        launch.model = "n"  # type: ignore[misc]
    assert copy.deepcopy(launch) == pickle.loads(pickle.dumps(launch)) == launch
    assert len({launch, Launch("a", "m", {"seed": 1}, {"A": "1"})}) == 1


def test_changes_make_new_launches() -> None:
    launch = Launch("a", "m")
    assert launch.with_env("A", "1").with_gpus([3]).child_env()["CUDA_VISIBLE_DEVICES"] == "3"
    assert launch.with_env("A", "1").with_env("A", None) == launch
    assert launch.with_gpus([3]).with_gpus(None) == launch
    assert launch.with_arg("max_model_len", "4k").without_arg("max-model-len") == launch
