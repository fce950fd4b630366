"""A port of this machine where each connection is met by what a test wants."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"


@contextmanager
def answering(behave: Callable[[socket.socket], object]) -> Iterator[int]:
    """One connection after the other, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        behave(connection)
                    except OSError:
                        continue  # whoever asked has gone

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def sends(content: bytes) -> Callable[[socket.socket], None]:
    def behave(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(content)

    return behave
