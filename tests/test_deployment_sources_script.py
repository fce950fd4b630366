"""Shell scripts as deployments: what they start, in which order, and what in them is not understood."""

from __future__ import annotations

import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_probe.deployment_sources import read_source
from engine_probe.errors import InputError

if TYPE_CHECKING:
    from engine_probe.launch import Deployment, Launch

M = "vllm serve acme/m"


def read(folder: Path, text: str, **env: str) -> Deployment:
    path = folder / "start.sh"
    path.write_text(textwrap.dedent(text))
    return read_source(path, env)


def one(folder: Path, text: str, **env: str) -> Launch:
    found = read(folder, text, **env)
    assert len(found.models) == 1, found.notes
    return found.models[0]


def notes_of(folder: Path, text: str) -> str:
    return "\n".join(read(folder, text).notes)


def test_two_servers_with_a_wait_between_them(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """\
        #!/bin/bash
        set -euo pipefail
        # the big one first
        MODEL="acme/big-72b"
        export VLLM_LOGGING_LEVEL=DEBUG
        ARGS=(
          --max-model-len 8192   # short enough
          --served-model-name chat
        )
        CUDA_VISIBLE_DEVICES=0,1,2,3 nohup vllm serve "$MODEL" \\
            --tensor-parallel-size ${TP:-4} "${ARGS[@]}" \\
            --port 8000 > big.log 2>&1 &
        until curl -sf localhost:8000/health; do sleep 1; done
        CUDA_VISIBLE_DEVICES=4 python3 -m vllm.entrypoints.openai.api_server --model acme/small \\
            --port 8001 2>&1 | tee s.log &
        wait
        """,
    )
    big, small = found.models
    assert (big.name, big.model, big.gpus) == ("chat", "acme/big-72b", (0, 1, 2, 3))
    assert big.values() == {
        "model": "acme/big-72b",
        "tensor-parallel-size": 4,
        "max-model-len": 8192,
        "served-model-name": "chat",
        "port": 8000,
    }
    assert (small.model, small.gpus, small.arg("port")) == ("acme/small", (4,), 8001)
    assert dict(big.env) == dict(small.env) == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert found.start == "sequential"
    assert found.notes == ()


@pytest.mark.parametrize(
    ("between", "start", "note"),
    [
        ("", "parallel", ""),
        ("sleep 120", "sequential", "no sign that m is loaded"),
        ("while ! nc -z localhost 8000; do sleep 1; done", "sequential", ""),
        ("curl --retry 100 --retry-connrefused localhost:8000/health", "sequential", ""),
        ("for i in 1 2 3; do echo $i; done", "parallel", ""),
    ],
)
def test_what_stands_between_two_servers_decides_the_start(tmp_path: Path, between: str, start: str, note: str) -> None:
    found = read(tmp_path, f"{M} &\n{between}\nvllm serve acme/n &\n")
    assert found.start == start
    assert note in "\n".join(found.notes)
    assert bool(found.notes) == bool(note)


def test_a_server_without_and_keeps_the_next_from_starting(tmp_path: Path) -> None:
    found = read(tmp_path, f"{M}\nvllm serve acme/n &\n")
    assert found.start == "sequential"
    assert "start.sh:2: it starts only when the server of start.sh:1 has ended" in "\n".join(found.notes)


@pytest.mark.parametrize(
    "line",
    [
        M,
        f"nohup {M} &",
        f"exec {M}",
        f"env -u X A=1 {M}",
        f"sudo -E {M}",
        f"numactl --cpunodebind=0 --membind=0 {M}",
        f"taskset -c 0-7 {M}",
        f"uv run {M}",
        f"/opt/venv/bin/{M}",
        f"cd /srv && {M}",
        f"( {M} ) &",
        f"({M})&",
        f"{{ {M}; }} &",
        f"bash -c '{M}'",
        f'bash -lc "source /x/activate && {M}"',
        f"screen -dmS chat {M}",
        f"screen -dmS chat bash -c '{M}'",
        f"tmux new-session -d -s chat '{M}'",
        f"tmux send-keys -t chat '{M}' C-m",
        f"eval '{M}'",
        "python -m vllm.entrypoints.openai.api_server --model acme/m",
        "python3.12 -u -m vllm.entrypoints.openai.api_server --model=acme/m",
        "docker run -d --gpus all vllm/vllm-openai:latest --model acme/m",
        "docker run --rm -itd --name x acme/own vllm serve acme/m",
        "sudo docker run vllm/vllm-openai --model acme/m",
        "docker run --entrypoint bash acme/own -c 'vllm serve acme/m'",
        f"{M} > /tmp/a.log 2>&1 < /dev/null &",
        f"{M} |& tee a.log",
    ],
)
def test_every_form_of_starting_one(tmp_path: Path, line: str) -> None:
    assert one(tmp_path, f"#!/bin/sh\n{line}\n").model == "acme/m"


@pytest.mark.parametrize(
    "text",
    [
        f"echo {M}",
        f"# {M}",
        f"pkill -f '{M}'",
        f": <<'END'\n{M}\nEND\n",
        f"ps aux | grep '{M}'",
    ],
)
def test_what_only_speaks_of_a_server_starts_none(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, f"{text}\nvllm serve acme/other\n")
    assert [launch.model for launch in found.models] == ["acme/other"]
    assert found.notes == ()


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            f"for i in 0 1; do\n  {M} --port 800$i &\ndone",
            "start.sh:3: a server is started in a for loop from line 2 on",
        ),
        (f"if true; then {M}; fi", "in an if from line 2 on"),
        (f"start() {{\n  {M}\n}}\nstart", "in the function start from line 2 on"),
        (f"function start {{\n  {M}\n}}", "in the function start from line 2 on"),
        (f"start()\n{{\n  {M}\n}}", "in the function start from line 2 on"),
        (f"case $1 in\n a) {M} ;;\nesac", "in a case from line 2 on"),
        (f"false || {M}", "started behind ||"),
        ("vllm serve $(cat model.txt)", "start.sh:2: its model is computed"),
        ("vllm serve `cat model.txt`", "its model is computed"),
        ('vllm serve "$1"', "its model is computed"),
        ("vllm serve ${MODEL##*/}", "its model is computed"),
        ("ssh host vllm serve acme/m", "not understood: ssh host vllm serve acme/m"),
        ("bash <<END\nvllm serve acme/m\nEND", "start.sh:3: a here document that starts vLLM is not read"),
        ("source env.sh", "env.sh is sourced"),
        ("vllm serve acme/x -tp $(nvidia-smi -L | wc -l)", "left as it is written: $(nvidia-smi -L | wc -l)"),
        ("vllm serve acme/x $EXTRA", "not understood, for $EXTRA is computed"),
        ("export CUDA_VISIBLE_DEVICES=$(pick)\nvllm serve acme/x", "CUDA_VISIBLE_DEVICES: it is computed"),
        ("if a; then X=1; fi\nvllm serve acme/$X", "its model is computed"),
        ("vllm serve acme/x \\\n  # --no more\n  --port 1", "it is not part of this command"),
    ],
)
def test_what_is_not_followed_is_named_with_its_line(tmp_path: Path, text: str, note: str) -> None:
    assert note in notes_of(tmp_path, f"vllm serve acme/other &\n{text}\n")


def test_a_number_that_is_computed_stays_as_written(tmp_path: Path) -> None:
    launch = one(tmp_path, f"{M} --tensor-parallel-size $(nvidia-smi -L | wc -l)\n")
    assert launch.arg("tensor-parallel-size") == "$(nvidia-smi -L | wc -l)"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("L=4096\nvllm serve m --max-model-len $L", 4096),
        ("L=40\nL+=96\nvllm serve m --max-model-len ${L}", 4096),
        ("vllm serve m --max-model-len ${L:-4096}", 4096),
        ("L=\nvllm serve m --max-model-len ${L:-4096}", 4096),
        ("A='--max-model-len 4096 --port 1'\nvllm serve m $A", 4096),
        ('A="--max-model-len"\nB=4096\nvllm serve m $A=$B', 4096),
        ("A=(--max-model-len)\nA+=(4096)\nvllm serve m ${A[@]}", 4096),
        ("L=1\n(L=2)\nvllm serve m --max-model-len $L", 1),
        ("L=1\nunset L\nvllm serve m --max-model-len ${L-4096}", 4096),
        ("vllm serve m --max-model-len '$L'", "$L"),
        ("vllm serve m --max-model-len 40\\\n96", 4096),
    ],
)
def test_variables_that_the_script_sets(tmp_path: Path, text: str, value: object) -> None:
    assert one(tmp_path, text + "\n").arg("max-model-len") == value


def test_the_environment_helps_only_where_it_is_given(tmp_path: Path) -> None:
    assert one(tmp_path, "vllm serve $WHICH\n", WHICH="acme/m").model == "acme/m"
    with pytest.raises(InputError, match="its model is computed"):
        read(tmp_path, "vllm serve $WHICH\n")


def test_folders_are_relative_to_the_script(tmp_path: Path) -> None:
    (tmp_path / "models" / "m").mkdir(parents=True)
    assert one(tmp_path, 'cd "$(dirname "$0")"\nvllm serve ./models/m\n').model == str(tmp_path / "models" / "m")
    assert one(tmp_path, "cd models\nvllm serve m\n").model == str(tmp_path / "models" / "m")


def test_docker_run_gives_gpus_paths_and_options(tmp_path: Path) -> None:
    launch = one(
        tmp_path,
        """\
        docker run -d --name chat --gpus '"device=6,7"' --ipc=host --shm-size 8g \\
          -v /data/models:/models -e CUDA_VISIBLE_DEVICES=1 -e HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 \\
          -p 8002:8000 vllm/vllm-openai:v0.9.2 --model /models/m
        """,
    )
    assert (launch.name, launch.model, launch.gpus) == ("chat", "/data/models/m", (7,))
    assert launch.engine is not None
    assert launch.engine.run == "docker --gpus all --shm-size=8g --ipc=host -v /data/models:/data/models"
    assert dict(launch.env) == {}


def test_a_secret_is_named_once_and_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, f"export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345\n{M} &\nvllm serve acme/n &\n")
    assert all("HF_TOKEN" not in launch.env for launch in found.models)
    assert sum("HF_TOKEN" in note for note in found.notes) == 1
    assert "hf_abc" not in "\n".join(found.notes)


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    assert [one.name for one in read(tmp_path, f"{M} &\n{M} --port 1 &\n").models] == ["m", "m-2"]


@pytest.mark.parametrize(
    ("text", "told", "line"),
    [
        (f'{M}\nvllm serve "x', "the double quote at character", 2),
        ("X=$(foo\nvllm serve y", "the ( at character 4 is never closed", 1),
        ("\n\nvllm serve --port 1", "no model", 3),
        ("\nvllm serve acme/m --max-model-length 5", "no flag --max-model-length", 2),
        ("\ndocker run --gpu all vllm/vllm-openai --model m", "unknown option", 2),
        ("docker run --gpus some vllm/vllm-openai --model m", "all, a number or device=0,1", 1),
        ("vllm serve \0x", "NUL byte", 1),
        ("", "starts no vLLM", None),
        ("ls\n", "starts no vLLM", None),
        ("vllm serve m --port 1 &\n" * 9_000, "larger than 200 kB", None),
        ("vllm serve m &\n" * 300, "more than 200 servers", 201),
        ("A=aaaaaaaaaa\n" + 'A="$A$A"\n' * 60 + 'vllm serve "$A"\n', "its model is computed", None),
        ("vllm serve m " + "`" * 4_999, "is never closed", 1),
        ("X=" + "${Y:-" * 500 + "}" * 500 + "\nvllm serve $X\n", "its model is computed", None),
    ],
)
def test_mistakes_and_hostile_scripts_are_errors(tmp_path: Path, text: str, told: str, line: int | None) -> None:
    path = tmp_path / "start.sh"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_source(path, {})
    assert told in str(caught.value)
    assert caught.value.line == line


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "start.sh"
    path.write_bytes(b"#!/bin/sh\n\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_source(path, {})


PIECES = st.sampled_from(
    [
        *(
            "vllm serve m",
            " --port 1",
            "\n",
            " && ",
            " &\n",
            "|",
            "(",
            ")",
            "{ ",
            "; }",
            "'",
            '"',
            "$X",
            "${X:-1}",
            "$(a)",
        ),
        *(
            "`b`",
            "<<E\n",
            "E\n",
            "if a; then ",
            "fi\n",
            "for i in 1; do ",
            "done\n",
            "#",
            "\\\n",
            "X=1",
            "A=(",
            " 2>&1 ",
        ),
        *("docker run ", "bash -c ", "eval ", "export ", "f() ", "~/", "é", "\t"),
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
def test_any_script_gives_a_deployment_or_one_error(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "start.sh"
        path.write_text(text, "utf-8")
        try:
            found = read_source(path, {})
        except InputError as error:
            assert str(error)
        else:
            assert found.models
            assert len({launch.name for launch in found.models}) == len(found.models)


def test_a_file_is_told_by_what_is_in_it(tmp_path: Path) -> None:
    for name, text in (
        ("a", "#!/bin/sh\nvllm serve acme/m\n"),
        ("b.yml", "services: {m: {image: vllm/vllm-openai, command: --model acme/m}}\n"),
        ("c.yml", "models:\n  - {name: m, model: acme/m}\n"),
        ("d.yaml", "engine: {python: python3}\nmodels:\n  - {name: m, model: acme/m}\n"),
        ("e", "vllm serve acme/m"),
    ):
        (tmp_path / name).write_text(text)
        assert read_source(tmp_path / name, {}).models[0].model == "acme/m", name
