"""Finding, naming and checking engines, against real Pythons with a stand-in vLLM."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from engine_probe import engines
from engine_probe.engine import Engine, EngineError, container_engine, local_engine, ssh_engine
from engine_probe.engine_check import check_engine
from engine_probe.engine_names import engine_of_spec, named_engine, python_of_script
from engine_probe.errors import InputError
from engine_probe.launch import EngineSpec
from tests.venvs import StandIn, add_vllm, make_venv


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    return add_vllm(make_venv(tmp_path / "venv"))


@pytest.fixture
def bare_host(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    """A host on which nothing is found, until a test puts something there."""
    monkeypatch.delenv(engines.ENGINE_VARIABLE, raising=False)
    monkeypatch.setattr(engines, "_is_installed_here", lambda: False)
    monkeypatch.setattr(engines, "_running", lambda: iter(()))
    monkeypatch.setenv("PATH", str(own_cache / "nothing"))


def write_script(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def write_settings(content: str) -> Path:
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "vllm-console" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    return path


# What a command looks like when it travels


def test_a_local_command_is_not_quoted() -> None:
    assert local_engine("/v/bin/python", "").argv("-c", "print('a b')") == ["/v/bin/python", "-c", "print('a b')"]


def test_ssh_gets_one_word_that_a_shell_takes_apart_again() -> None:
    command = ssh_engine("me@node7", "").argv("-c", "print('a b')\n$HOME")
    assert command[-2] == "me@node7"
    assert shlex.split(command[-1]) == ["python3", "-c", "print('a b')\n$HOME"]


def test_variables_travel_inside_the_command() -> None:
    engine = Engine(("docker", "exec", "-i", "vllm", "python3"), "container:vllm", "", env={"A": "b c"})
    assert engine.argv("-V") == ["docker", "exec", "-i", "vllm", "env", "A=b c", "python3", "-V"]
    assert not engine.is_local


# How a person names an engine


def test_names_of_containers_images_pods_and_hosts() -> None:
    assert named_engine("container:vllm", "").prefix == ("docker", "exec", "-i", "vllm", "python3")
    assert named_engine("pod:prod/vllm-0", "").prefix[:7] == ("kubectl", "exec", "-i", "-n", "prod", "vllm-0", "--")
    assert named_engine("ssh:node7", "").label == "ssh:node7"
    image = engine_of_spec(EngineSpec(image="vllm/vllm-openai:v0.19.0", run="podman --gpus all"), "")
    assert image.prefix[:6] == ("podman", "run", "--rm", "-i", "--gpus", "all")
    assert image.prefix[-4:] == ("--entrypoint", "env", "vllm/vllm-openai:v0.19.0", "python3")


@pytest.mark.parametrize("text", ["container:--privileged", "ssh:-oProxyCommand=x", "pod:", "image:a b"])
def test_a_name_that_a_tool_would_take_for_an_option_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="names no container, image, pod or host"):
        named_engine(text, "--engine")


def test_a_path_may_be_a_python_a_venv_or_a_script(stand_in: StandIn) -> None:
    script = write_script(stand_in.folder / "bin" / "vllm", f"#!{stand_in.python}\nimport sys\n")
    for text in (stand_in.python, str(stand_in.folder), str(script)):
        assert named_engine(text, "").python == stand_in.python


def test_paths_that_are_no_engine_say_what_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for text, said in ((str(tmp_path / "no"), "there is no engine"), (str(tmp_path), "has no bin/python")):
        with pytest.raises(InputError, match=said) as raised:
            named_engine(text, "--engine")
        assert "container:NAME" in str(raised.value)
    with pytest.raises(InputError, match="not executable"):
        named_engine(str(tmp_path / "file"), "--engine")


def test_the_interpreter_of_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "vllm"
    write_script(tmp_path / "bin" / "python3", "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    cases = {
        "#!/v/bin/python3.11\n": "/v/bin/python3.11",
        "#!/bin/sh\n'''exec' \"/a long/bin/python\" \"$0\" \"$@\"\n' '''\n": "/a long/bin/python",
        "#!/usr/bin/env python3\n": str(tmp_path / "bin" / "python3"),
        "#!/bin/bash\nexec docker run vllm\n": None,
        "#!/bin/sh '\n": None,
        "\x7fELF": None,
        "#!": None,
    }
    for content, python in cases.items():
        script.write_text(content)
        assert python_of_script(script) == python, content


# Which engine is chosen


def test_nothing_found_says_where_was_looked_and_the_two_ways_on(bare_host: None) -> None:
    with pytest.raises(EngineError) as raised:
        engines.choose_engine()
    for words in ("`vllm` on PATH", "the managed engine", "vllm-console engine install", "--engine"):
        assert words in str(raised.value)
    assert engines.find_engines() == []


def test_the_named_engine_wins_then_the_variable_then_the_settings(
    bare_host: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_settings("engine: {container: from-settings}\n")
    assert engines.choose_engine().label == "container:from-settings"
    assert str(path) in engines.choose_engine().found_by
    monkeypatch.setenv(engines.ENGINE_VARIABLE, "container:from-variable")
    assert engines.choose_engine().label == "container:from-variable"
    assert engines.choose_engine("ssh:from-option").label == "ssh:from-option"


def test_vllm_on_path_is_found(bare_host: None, monkeypatch: pytest.MonkeyPatch, stand_in: StandIn) -> None:
    write_script(stand_in.folder / "bin" / "vllm", f"#!{stand_in.python}\n")
    monkeypatch.setenv("PATH", str(stand_in.folder / "bin"))
    found = engines.choose_engine()
    assert (found.python, found.found_by) == (stand_in.python, "`vllm` on PATH")


def test_a_python_without_vllm_is_passed_over_even_in_a_folder_that_has_one(
    bare_host: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = make_venv(tmp_path / "empty")
    write_script(empty.folder / "bin" / "vllm", f"#!{empty.python}\n")
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(empty.folder / "bin"))
    with pytest.raises(EngineError):
        engines.choose_engine()


def test_a_running_server_of_this_user_is_found(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path, stand_in: StandIn
) -> None:
    script = write_script(stand_in.folder / "bin" / "vllm", "print('up', flush=True); input()\n")
    with subprocess.Popen(
        [stand_in.python, str(script), "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        found = [engine for engine in engines.find_engines() if engine.python == stand_in.python]
        server.communicate(b"\n")
    assert [engine.found_by for engine in found] == [f"running server (pid {server.pid})"]


def test_what_a_probe_has_started_is_no_running_server(
    monkeypatch: pytest.MonkeyPatch, own_cache: Path, stand_in: StandIn, tmp_path: Path
) -> None:
    script = write_script(stand_in.folder / "bin" / "vllm", "print('up', flush=True); input()\n")
    words = [stand_in.python, str(script), "serve"]
    keeper = write_script(tmp_path / "child.zip", f"import subprocess\nsubprocess.run({words!r})\n")
    with subprocess.Popen([sys.executable, str(keeper)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as probe:
        assert probe.stdout is not None
        assert probe.stdout.readline() == b"up\n"
        found = [engine for engine in engines.find_engines() if engine.python == stand_in.python]
        probe.communicate(b"\n")
    assert found == []


# The settings file


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("engin: {python: x}\n", 'did you mean "engine"'),
        ("engine:\n  container: a\n  ssh: b\n", "config.yaml:3: an engine is reached one way"),
        ("engine: {run: podman}\n", "name `python`, `container`"),
        ("managed: {requirement: 3}\n", "config.yaml:1"),
    ],
)
def test_mistakes_in_the_settings_are_said_with_their_line(bare_host: None, content: str, said: str) -> None:
    write_settings(content)
    with pytest.raises(InputError) as raised:
        engines.choose_engine()
    assert said in str(raised.value)


# Checking


def test_a_working_engine(stand_in: StandIn) -> None:
    report = check_engine(local_engine(stand_in.python, "--engine"))
    assert report.import_ok
    assert report.troubles == ()
    assert (report.vllm_version, report.torch_version, report.device) == ("0.32.0+cpu", "2.13.0+cpu", "cpu")
    assert report.python_version == ".".join(map(str, sys.version_info[:3]))
    assert report.executable == stand_in.python


NMS = 'raise RuntimeError("operator torchvision::nms does not exist")\n'
WRAPPED_NMS = (
    'try:\n    raise RuntimeError("operator torchvision::nms does not exist")\n'
    'except RuntimeError as e:\n    raise ModuleNotFoundError("Could not import module X") from e\n'
)
LIBRARY = 'raise ImportError("libcudart.so.13: cannot open shared object file: No such file or directory")\n'
MISSING = "import compressed_tensors_that_nobody_installed\n"
KILLED = "import os, signal\nos.kill(os.getpid(), signal.{})\n"


@pytest.mark.parametrize(
    ("init", "trouble", "text", "fix"),
    [
        (NMS, "torchvision-build-mismatch", "operator torchvision::nms does not exist", "uninstall -y torchvision"),
        (WRAPPED_NMS, "torchvision-build-mismatch", "operator torchvision::nms does not exist", "uninstall"),
        (LIBRARY, "shared-library-missing", "libcudart.so.13", "libcudart.so.13"),
        (MISSING, "module-missing", "compressed_tensors_that_nobody_installed", "reinstall"),
        ("import json\nfrom json import nothing_of_it\n", "package-version-mismatch", "nothing_of_it", "reinstall"),
        ("raise ValueError('what is this')\n", "import-failed", "ValueError: what is this", ""),
        (KILLED.format("SIGILL"), "illegal-instruction", "SIGILL", "AVX2"),
        (KILLED.format("SIGKILL"), "import-died", "SIGKILL", "memory"),
        ("import os\nos.write(2, b'bad luck')\nos._exit(3)\n", "import-died", "exit code 3: bad luck", ""),
    ],
)
def test_an_import_that_fails_is_named_with_its_own_words(
    tmp_path: Path, init: str, trouble: str, text: str, fix: str
) -> None:
    broken = add_vllm(make_venv(tmp_path / "v"), init)
    report = check_engine(local_engine(broken.python, ""))
    assert not report.import_ok
    assert [found.id for found in report.troubles] == [trouble]
    assert text in report.troubles[0].text
    assert fix in report.troubles[0].fix
    assert report.torch_version == "2.13.0+cpu"


@pytest.mark.parametrize(
    ("version", "trouble"), [(None, "vllm-dist-info-missing"), ("0.32.0", "vllm-dist-info-without-cpu")]
)
def test_metadata_that_vllm_does_not_find_itself_by(tmp_path: Path, version: str | None, trouble: str) -> None:
    made = add_vllm(make_venv(tmp_path / "v"), version=version)
    report = check_engine(local_engine(made.python, ""))
    assert [found.id for found in report.troubles] == [trouble]
    assert "vllm-0.32.0+cpu.dist-info" in report.troubles[0].fix


def test_an_import_without_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    init = (
        "import subprocess, sys\n"
        f"open({str(lock)!r}, 'w').close()\n"
        "subprocess.run([sys.executable, '-c', 'input()'], stdin=subprocess.Popen(['sleep', '600'], "
        "stdout=subprocess.PIPE).stdout)\n"
    )
    made = add_vllm(make_venv(tmp_path / "v"), init)
    report = check_engine(local_engine(made.python, ""), timeout_s=2)
    assert lock.exists()
    assert [found.id for found in report.troubles] == ["import-timeout"]


def test_a_python_without_vllm(tmp_path: Path) -> None:
    report = check_engine(local_engine(make_venv(tmp_path / "v").python, ""))
    assert [found.id for found in report.troubles] == ["vllm-not-installed"]


def test_what_is_no_python(tmp_path: Path) -> None:
    for content in ("#!/bin/sh\necho hello\n", "no program at all"):
        script = write_script(tmp_path / "python", content)
        report = check_engine(local_engine(str(script), ""))
        assert [found.id for found in report.troubles] == ["not-a-python"]


OLD = """#!/bin/sh
echo '{"vllm_console_check": "about", "python": "3.8.10", "executable": "/python3", "versions": {}, "origin": null}'
"""


def test_a_python_that_is_too_old(tmp_path: Path) -> None:
    report = check_engine(local_engine(str(write_script(tmp_path / "python", OLD)), ""))
    assert [found.id for found in report.troubles] == ["python-too-old"]
    assert report.python_version == "3.8.10"


@pytest.mark.parametrize(
    ("tool", "said", "trouble"),
    [
        ("docker", "Error response from daemon: No such container: vllm", "container-not-running"),
        ("docker", "Error response from daemon: container 12ab is not running", "container-not-running"),
        ("docker", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "container-tool-unreachable"),
        ("docker", 'exec: "python3": executable file not found in $PATH: unknown', "no-python-there"),
        ("ssh", "me@node7: Permission denied (publickey,password).", "ssh-refused"),
        ("ssh", "ssh: Could not resolve hostname node7: Name or service not known", "ssh-refused"),
        ("ssh", "bash: line 1: python3: command not found", "no-python-there"),
    ],
)
def test_a_way_that_does_not_lead_to_a_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, said: str, trouble: str
) -> None:
    write_script(tmp_path / tool, f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(said)} >&2\nexit 1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = container_engine("vllm", "") if tool == "docker" else ssh_engine("node7", "")
    report = check_engine(engine)
    assert [(found.id, found.text) for found in report.troubles] == [(trouble, said)]


def test_a_greeting_and_a_far_shell_do_not_disturb_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: StandIn
) -> None:
    """As ssh does: print a greeting, join the words, give them to a shell."""
    write_script(tmp_path / "ssh", '#!/bin/sh\necho "Welcome {}"\nfor last; do :; done\nexec /bin/sh -c "$last"\n')
    monkeypatch.setenv("PATH", str(tmp_path))
    report = check_engine(ssh_engine("node7", "", python=stand_in.python))
    assert report.import_ok
    assert report.executable == stand_in.python


# The command


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tui.cli", "engine", *words], capture_output=True, text=True, check=False
    )


def test_check_prints_one_json_object_and_its_exit_code_says_whether_it_runs(stand_in: StandIn, tmp_path: Path) -> None:
    good = run("check", "--json", "--engine", stand_in.python)
    assert good.returncode == 0
    assert json.loads(good.stdout)["import_ok"] is True
    bad = run("check", "--json", "--engine", add_vllm(make_venv(tmp_path / "bad"), NMS).python)
    assert bad.returncode == 4
    assert json.loads(bad.stdout)["troubles"][0]["id"] == "torchvision-build-mismatch"


def test_check_for_a_person_names_the_trouble_and_the_fix(tmp_path: Path) -> None:
    shown = run("check", "--engine", add_vllm(make_venv(tmp_path / "bad"), NMS).python).stdout
    assert "torchvision-build-mismatch: RuntimeError: operator torchvision::nms does not exist" in shown
    assert "pip uninstall -y torchvision torchaudio torchcodec" in shown


def test_a_wrong_engine_is_an_input_error() -> None:
    ended = run("check", "--engine", "/no/such/python")
    assert ended.returncode == 2
    assert "there is no engine at '/no/such/python'" in ended.stderr


def test_list_marks_the_chosen_one(stand_in: StandIn) -> None:
    listed = json.loads(run("list", "--json", "--engine", stand_in.python).stdout)["engines"]
    assert listed[0]["engine"] == stand_in.python
    assert [engine["chosen"] for engine in listed] == [True, *[False] * (len(listed) - 1)]


@pytest.mark.engine
def test_the_real_engine_is_in_order(engine: Engine) -> None:
    report = check_engine(engine)
    assert report.import_ok
    assert report.troubles == ()
    assert report.device in {"cpu", "cuda"}
