"""A TCP proxy on loopback between Sluice and a database, which drops its connections when a test says so."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class TcpProxy:
    """Passes bytes on to a server, and counts those that come back.

    Args:
        port: of the server on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_down = False
        self._allowed: int | None = None
        self.received_bytes = 0
        self.drops = 0

    @property
    def port(self) -> int:
        """The port of the proxy on 127.0.0.1."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._drop()

    def fail_after(self, received_bytes: int) -> None:
        """Drop all connections after so many more bytes of the server, and refuse new ones until `restore`."""
        with self._lock:
            self._allowed = self.received_bytes + received_bytes

    def restore(self) -> None:
        """Accept connections again."""
        with self._lock:
            self._is_down, self._allowed = False, None

    def lead_to(self, port: int) -> None:
        """Drop all connections, and lead later ones to another server."""
        self._server = ("127.0.0.1", port)
        self._drop()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_down:
                    client.close()
                    continue
                try:
                    server = socket.create_connection(self._server)
                except ConnectionRefusedError:  # it starts again
                    client.close()
                    continue
                with self._lock:
                    self._sockets |= {client, server}
                for source, sink, counted in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_on, args=(source, sink, counted), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:  # noqa: FBT001 - of a thread
        with suppress(OSError):
            while data := source.recv(65536):
                if counted and self._exceeds(len(data)):
                    self._drop()
                    return
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _exceeds(self, more: int) -> bool:
        with self._lock:
            self.received_bytes += more
            if self._allowed is None or self.received_bytes <= self._allowed:
                return False
            self.drops += not self._is_down
            self._is_down = True
            return True

    def _drop(self) -> None:
        with self._lock:
            left, self._sockets = self._sockets, set()
        for each in left:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
