"""An ssh server in Python, for hosts without OpenSSH's: python asyncssh_host.py FOLDER PORT. Commands go to a shell."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import asyncssh


async def run_command(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """As sshd does: the user's shell gets the words; a client that is gone closes stdin, and the command goes on."""
    child = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        process.command or "exit 0",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=Path.home(),
        start_new_session=True,
    )
    feeding = asyncio.create_task(_carry(process.stdin, child.stdin))
    await asyncio.gather(_carry(child.stdout, process.stdout), _carry(child.stderr, process.stderr))
    feeding.cancel()
    process.exit(await child.wait())


async def _carry(source: Any, target: Any) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while content := await source.read(65536):
            target.write(content)
            await target.drain()
    if isinstance(target, asyncio.StreamWriter):
        target.close()


async def serve(folder: Path, port: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[str(folder / "host_key")],
        authorized_client_keys=str(folder / "known_keys"),
        process_factory=run_command,
        encoding=None,
    )
    await stop.wait()
    server.close()


if __name__ == "__main__":
    os.environ.pop("VLLM_CONSOLE_ENGINE", None)
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
