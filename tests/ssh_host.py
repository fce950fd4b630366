"""A host reached by ssh, on loopback: OpenSSH's server where there is one, else asyncssh's; the client is OpenSSH's."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "node7"
_SECONDS_TO_LISTEN = 30.0


@dataclass(frozen=True)
class SshHost:
    """`bin` holds an `ssh` that knows the host `node7`: the real client with a configuration of the test's own."""

    bin: Path
    server: str
    """Which server answers: `sshd` or `asyncssh`."""


def find_sshd() -> str | None:
    """OpenSSH's server; it has to be started by its full path."""
    return shutil.which("sshd", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))


@contextlib.contextmanager
def ssh_host(folder: Path) -> Iterator[SshHost]:
    """Skips where there is no ssh client."""
    ssh = shutil.which("ssh")
    if ssh is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no OpenSSH client here")
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "known_keys").write_bytes((folder / "user_key.pub").read_bytes())
    port = _free_port()
    sshd = find_sshd()
    argv = _openssh(sshd, folder, port) if sshd is not None else _asyncssh(folder, port)
    with (folder / "server.log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as server:
        try:
            _wait_until_it_listens(port, server, folder / "server.log")
            yield SshHost(_client(folder, ssh, port), "sshd" if sshd is not None else "asyncssh")
        finally:
            server.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _openssh(sshd: str, folder: Path, port: int) -> list[str]:
    config = folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/known_keys\n"
        "PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\n",
        encoding="utf-8",
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # its privilege separation wants it; packages make it
    return [sshd, "-D", "-e", "-f", str(config)]


def _asyncssh(folder: Path, port: int) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("asyncssh_host.py")), str(folder), str(port)]


def _wait_until_it_listens(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS_TO_LISTEN
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.02)  # between two looks at a condition
    pytest.fail(f"the ssh server does not listen: {log.read_text(errors='replace')}")


def _client(folder: Path, ssh: str, port: int) -> Path:
    config = folder / "ssh_config"
    config.write_text(
        f"Host {NAME}\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n IdentityFile {folder}/user_key\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {folder}/known_hosts\n StrictHostKeyChecking accept-new\n"
        " LogLevel ERROR\n",
        encoding="utf-8",
    )
    programs = folder / "bin"
    programs.mkdir()
    script = programs / "ssh"
    script.write_text(f'#!/bin/sh\nexec {ssh} -F {config} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return programs
