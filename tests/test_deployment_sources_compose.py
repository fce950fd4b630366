"""Docker compose files as deployments: their order, GPUs, paths and variables, and what is wrong in them."""

from __future__ import annotations

import json
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_probe.deployment_sources import read_source
from engine_probe.deployment_sources.compose_variables import filled
from engine_probe.errors import InputError

if TYPE_CHECKING:
    from engine_probe.launch import Deployment, Launch

GPUS_45 = (
    "deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ['4', '5'], capabilities: [gpu]}]}}}"
)


def read(folder: Path, text: str, **env: str) -> Deployment:
    path = folder / "compose.yaml"
    path.write_text(textwrap.dedent(text))
    return read_source(path, env)


def one(folder: Path, service: str, **env: str) -> tuple[Launch, tuple[str, ...]]:
    """The launch of a single service whose keys are given, and the notes."""
    body = textwrap.indent(textwrap.dedent(service).strip(), "    ")
    found = read(folder, f"services:\n  chat:\n{body}\n", **env)
    assert len(found.models) == 1
    return found.models[0], found.notes


def refused(folder: Path, service: str, **env: str) -> InputError:
    with pytest.raises(InputError) as caught:
        one(folder, service, **env)
    return caught.value


def test_two_services_in_the_order_of_their_health_checks(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """\
        x-vllm: &vllm
          image: vllm/vllm-openai:v0.11.0
          ipc: host
          shm_size: 16gb
          volumes: ["/data/models:/models:ro"]
          environment: &env {VLLM_LOGGING_LEVEL: DEBUG}
        services:
          small:
            <<: *vllm
            depends_on: {big: {condition: service_healthy}}
            command: ["--model", "/models/small", "--gpu-memory-utilization", 0.3]
            environment: {<<: *env, CUDA_VISIBLE_DEVICES: "1"}
            deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ["4", "5"]}]}}}
          big:
            <<: *vllm
            command: >
              --model /models/big --tensor-parallel-size ${TP:-4}
              --enable-lora --lora-modules sql=/models/sql
            deploy: {resources: {reservations: {devices: [{capabilities: [gpu], count: 4}]}}}
          web: {image: nginx, depends_on: [small]}
        """,
    )
    big, small = found.models
    assert (big.name, small.name, found.start) == ("big", "small", "sequential")
    assert (big.model, small.model) == ("/data/models/big", "/data/models/small")
    assert big.gpus == (0, 1, 2, 3)
    assert small.gpus == (5,), "CUDA_VISIBLE_DEVICES counts among the GPUs that the container sees"
    assert dict(big.args) == {"tensor-parallel-size": 4}
    assert dict(big.lora) == {"sql": "/data/models/sql"}
    assert dict(small.env) == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert small.arg("gpu-memory-utilization") == 0.3
    assert big.engine is not None
    assert big.engine.image == "vllm/vllm-openai:v0.11.0"
    assert big.engine.run == "docker --gpus all --shm-size 16gb --ipc host -v /data/models:/data/models"


def test_services_that_nothing_holds_back_start_at_the_same_time(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """\
        services:
          b: {image: vllm/vllm-openai, command: --model m/b, depends_on: [a]}
          a: {image: vllm/vllm-openai, command: --model m/a}
        """,
    )
    assert [one.name for one in found.models] == ["a", "b"]
    assert found.start == "parallel"
    assert any("waits for a container to run" in note for note in found.notes)


@pytest.mark.parametrize(
    "service",
    [
        "image: vllm/vllm-openai\ncommand: --model acme/m --max-model-len 4096",
        "image: vllm/vllm-openai\ncommand: [--model, acme/m, --max-model-len, 4096]",
        "image: registry.lan:5000/mirror/vllm-openai:v0.9.2\ncommand: acme/m --max-model-len=4096",
        "image: acme/own\ncommand: vllm serve acme/m --max-model-len 4096",
        "image: acme/own\nentrypoint: [python3, -m, vllm.entrypoints.openai.api_server]\n"
        "command: --model acme/m --max-model-len 4096",
        "image: vllm/vllm-openai\nentrypoint: [bash, -lc]\n"
        'command: ["export X=1 && exec vllm serve acme/m --max-model-len 4096"]',
        "image: vllm/vllm-openai\ncommand: |\n  --model acme/m \\\n  --max-model-len 4096",
        "image: acme/own\nentrypoint: tini --\ncommand: vllm serve acme/m --max-model-len 4096",
    ],
)
def test_every_form_of_the_command(tmp_path: Path, service: str) -> None:
    launch, _ = one(tmp_path, service)
    assert (launch.name, launch.model, launch.arg("max-model-len")) == ("chat", "acme/m", 4096)


@pytest.mark.parametrize(
    ("service", "gpus"),
    [
        ("gpus: all", None),
        ("gpus: [{driver: nvidia, count: 2}]", (0, 1)),
        ("runtime: nvidia\nenvironment: ['NVIDIA_VISIBLE_DEVICES=2,3']", (2, 3)),
        ("environment: {NVIDIA_VISIBLE_DEVICES: '2,3', CUDA_VISIBLE_DEVICES: '1'}", (3,)),
        ("environment: {CUDA_VISIBLE_DEVICES: '6,7'}", (6, 7)),
        ("environment: {NVIDIA_VISIBLE_DEVICES: all}", None),
        (GPUS_45, (4, 5)),
        (f"{GPUS_45}\nenvironment: {{NVIDIA_VISIBLE_DEVICES: '0'}}", (4, 5)),
    ],
)
def test_which_gpus_a_service_gets(tmp_path: Path, service: str, gpus: tuple[int, ...] | None) -> None:
    launch, _ = one(tmp_path, f"image: vllm/vllm-openai\ncommand: --model m/m\n{service}")
    assert launch.gpus == gpus
    assert not {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} & launch.env.keys()


def test_gpus_that_only_have_names_are_said_and_not_guessed(tmp_path: Path) -> None:
    launch, notes = one(
        tmp_path, "image: vllm/vllm-openai\ncommand: --model m/m\nenvironment: {NVIDIA_VISIBLE_DEVICES: GPU-12ab}"
    )
    assert launch.gpus is None
    assert any("GPU-12ab" in note and "not known" in note for note in notes)


def test_a_cuda_index_beyond_the_reserved_gpus_is_refused(tmp_path: Path) -> None:
    error = refused(
        tmp_path,
        f"image: vllm/vllm-openai\ncommand: --model m/m\n{GPUS_45}\nenvironment: {{CUDA_VISIBLE_DEVICES: '2'}}",
    )
    assert "sees only 2" in error.message
    assert error.line is not None


def test_paths_are_mapped_to_the_host(tmp_path: Path) -> None:
    (tmp_path / "models" / "m").mkdir(parents=True)
    launch, notes = one(
        tmp_path,
        """\
        image: vllm/vllm-openai
        command: --model /m/m --chat-template /t/chat.jinja --tokenizer /inside/tok
        volumes:
          - ./models:/m
          - {type: bind, source: /srv/templates, target: /t}
          - cache:/root/.cache/huggingface
        """,
    )
    assert launch.model == str(tmp_path / "models" / "m")
    assert launch.arg("chat-template") == "/srv/templates/chat.jinja"
    assert launch.arg("tokenizer") == "/inside/tok"
    assert any("/inside/tok" in note and "no folder of the host" in note for note in notes)


def test_a_model_in_a_volume_is_named(tmp_path: Path) -> None:
    launch, notes = one(tmp_path, "image: vllm/vllm-openai\ncommand: --model /v/m\nvolumes: [store:/v]")
    assert launch.model == "/v/m"
    assert any("lies in a volume" in note for note in notes)


def test_the_hub_cache_of_a_container_is_the_host_s(tmp_path: Path) -> None:
    launch, _ = one(
        tmp_path, "image: vllm/vllm-openai\ncommand: --model acme/m\nvolumes: [/hub:/root/.cache/huggingface]"
    )
    assert launch.model == "acme/m"
    assert launch.env["HF_HOME"] == "/hub"


def test_variables_come_from_the_environment_then_from_the_file_beside(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# comment\nexport MODEL='acme/of-file'\nTP=2 # two\nQUOTED=\"a ${TP}\"\n")
    service = "image: vllm/vllm-openai\ncommand: --model ${MODEL} -tp ${TP}"
    assert one(tmp_path, service)[0].values() == {"model": "acme/of-file", "tensor-parallel-size": 2}
    assert one(tmp_path, service, TP="8")[0].arg("tensor-parallel-size") == 8


@pytest.mark.parametrize("command", ["--model ${NOWHERE}", "--model m -tp ${NOWHERE}", "--model $NOWHERE/m"])
def test_a_variable_without_a_value_is_an_error_where_it_decides(tmp_path: Path, command: str) -> None:
    error = refused(tmp_path, f"image: vllm/vllm-openai\ncommand: {command}")
    assert "NOWHERE has no value here" in error.message
    assert error.line == 4


def test_a_variable_without_a_value_elsewhere_is_a_note(tmp_path: Path) -> None:
    launch, notes = one(
        tmp_path,
        "image: vllm/vllm-openai:${TAG}\ncommand: --model m\nenvironment: {HF_TOKEN: '${HF_TOKEN}', VLLM_X: '${Y}'}",
    )
    assert dict(launch.env) == {}
    assert sum("has no value here" in note for note in notes) == 3


def test_secrets_stay_in_the_file(tmp_path: Path) -> None:
    launch, notes = one(
        tmp_path,
        "image: vllm/vllm-openai\ncommand: --model m\nenvironment: [HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345]",
    )
    assert "HF_TOKEN" not in launch.env
    assert "hf_abc" not in "\n".join(notes)
    assert any("HF_TOKEN" in note for note in notes)


def test_extends_from_another_file(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "common.yaml").write_text(
        "services:\n  base:\n    image: vllm/vllm-openai\n    volumes: [./w:/w]\n    environment: {A: '1', B: '1'}\n"
    )
    launch, _ = one(
        tmp_path,
        "extends: {file: base/common.yaml, service: base}\ncommand: --model /w/m\nenvironment: {B: '2'}",
    )
    assert launch.model == str(tmp_path / "base" / "w" / "m"), "paths are relative to the file that has them"
    assert dict(launch.env) == {"A": "1", "B": "2"}


def test_copies_and_other_ports_are_told(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "services:\n  a: {image: vllm/vllm-openai, command: --model m, ports: ['9000:8000'], deploy: {replicas: 2}}\n",
    )
    assert [one.name for one in found.models] == ["a-1", "a-2"]
    assert any("published as 9000" in note for note in found.notes)
    assert found.start == "parallel"


@pytest.mark.parametrize(
    ("service", "told", "nearest"),
    [
        ("image: vllm/vllm-openai\ncomand: --model m", 'unknown key "comand"', "command"),
        (
            "image: vllm/vllm-openai\ncommand: --model m --max-model-length 5",
            "no flag --max-model-length",
            "max-model-len",
        ),
        ('image: vllm/vllm-openai\ncommand: --model "m', "a quote is never closed", None),
        ("image: vllm/vllm-openai\ncommand: --model ${M", "never closed with }", None),
        ("image: vllm/vllm-openai\ncommand: --model ${M:?name it}", "M must have a value: name it", None),
        ("image: vllm/vllm-openai\ncommand: --port 1", "no model", None),
        ("image: vllm/vllm-openai\ncommand: [--model, {a: b}]", "one word is wanted", None),
        (
            "image: vllm/vllm-openai\ncommand: --model m\ngpus: [{cout: 2, driver: nvidia}]",
            'unknown key "cout"',
            "count",
        ),
        ("image: vllm/vllm-openai\ncommand: --model m\ngpus: [{count: -5, driver: nvidia}]", "a number of GPUs", None),
        ("image: vllm/vllm-openai\ncommand: --model m\nvolumes: [nothing]", "SOURCE:/path", None),
        ("image: vllm/vllm-openai\ncommand: --model m\nscale: 999999", "a whole number", None),
        ("image: vllm/vllm-openai\ncommand: --model m\ndepends_on: [chatt]", "there is no service chatt", "chat"),
        ("image: vllm/vllm-openai\nextends: {service: chat}", "extends itself", None),
        ("image: vllm/vllm-openai\nextends: {service: x, file: /dev/zero}", "no regular file", None),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, service: str, told: str, nearest: str | None) -> None:
    error = refused(tmp_path, service)
    assert told in error.message
    assert error.nearest == nearest
    assert error.file is not None
    assert error.line is not None or error.file == "/dev/zero"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("services: {}\n", "it has none"),
        ("services: {a: {image: nginx}}\n", "none of its services starts vLLM: a"),
        ("services: [a]\n", "a mapping from name to service"),
        ("services: {a: &a [*a]}\n", "an alias to something that contains it"),
        ("services: {a: {<<: &x {<<: *x}}}\n", "only other mappings"),
        ("servces: 1\nservices: {a: {image: nginx}}\n", 'unknown key "servces"'),
        ("services: {a: {image: x, depends_on: [b]}, b: {image: x, depends_on: [a]}}\n", "wait for each other"),
        ("services: {a: {extends: {service: b}}, b: {extends: {service: a}}}\n", "extends itself"),
        ("services: {a: !!python/object:os.system {}}\n", "plain values only"),
        ('services: {a: {image: "x\0y"}}\n', "not valid YAML"),
        ("services: " + "[" * 20_000, "nested too deeply"),
        ("services: {}\n" + "x-a: y\n" * 40_000, "larger than 200 kB"),
    ],
)
def test_hostile_files_are_errors(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert told in str(caught.value)


def test_anchors_that_multiply_are_an_error(tmp_path: Path) -> None:
    lines = ["x-a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"x-{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefg", "bcdefgh", strict=True)]
    with pytest.raises(InputError, match="aliases expanded"):
        read(tmp_path, "\n".join([*lines, "services: {a: {command: *h}}\n"]))


@pytest.mark.parametrize(
    ("text", "made", "missing"),
    [
        ("a$$b", "a$b", ()),
        ("$A-${A}", "1-1", ()),
        ("${E:-x}${E-x}", "x", ()),
        ("${U:-${A:-z}}", "1", ()),
        ("${A:+y}${U+y}", "y", ()),
        ("${U} $U", "${U} $U", ("U",)),
        ("cost: $ 5", "cost: $ 5", ()),
    ],
)
def test_variables_in_texts(text: str, made: str, missing: tuple[str, ...]) -> None:
    assert filled(text, {"A": "1", "E": ""}) == (made, missing)


@given(st.text(alphabet="$${}:-?+AB a", max_size=40))
def test_any_text_is_filled_or_refused(text: str) -> None:
    try:
        found = filled(text, {"A": "1"})
    except InputError:
        return
    if "$" not in text:
        assert found.text == text
    assert all(name in text for name in found.missing)


@given(st.text(max_size=200))
def test_any_command_gives_a_launch_or_one_error(command: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "compose.yaml"
        path.write_text(f"services:\n  a:\n    image: vllm/vllm-openai\n    command: {json.dumps(command)}\n", "utf-8")
        try:
            found = read_source(path, {})
        except InputError as error:
            assert str(error)
        else:
            assert found.models[0].model
