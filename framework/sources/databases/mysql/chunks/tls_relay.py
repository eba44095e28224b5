"""A relay that adds TLS to the connections of a driver without it: a socket in a private folder, and TLS to the server.

MySQL begins TLS after the first packet of each side. So the relay hides the server's offer of TLS from the driver,
accepts it itself, and numbers the packets of the login anew; after the login it passes bytes on.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from select import select
from threading import Thread
from typing import NamedTuple

from framework.sources.databases.mysql.connecting import Login

_SSL = 0x0800
_OK, _ERROR = 0x00, 0xFF
_AT_ONCE = 1 << 18
_REQUEST_SIZE = 32
_AFTER_VERSION = 4 + 8 + 1  # the number of the thread, a part of the scramble, a zero
_NAME = "tls"


class RelayError(OSError):
    """The server offers no TLS, or ended the login."""


class _Packet(NamedTuple):
    number: int
    payload: bytes


@contextmanager
def tls_relay(login: Login) -> Iterator[str]:
    """Listen at a socket as long as the block lasts, and pass its connections on to a server with TLS.

    Only this user can open the socket. The server's certificate is checked as for every other connection.

    Args:
        login: the address of the server, and how its certificate is checked.

    Yields:
        The path of the socket.
    """
    with (
        tempfile.TemporaryDirectory(prefix="sluice-tls-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
    ):
        path = str(Path(folder) / _NAME)
        listener.bind(path)
        listener.listen()
        Thread(target=_accept, args=(listener, login), name="relay of TLS", daemon=True).start()
        try:
            yield path
        finally:
            # Closing it alone does not wake the thread.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, login: Login) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        Thread(target=_relay, args=(client, login), name="relay of TLS", daemon=True).start()


def _relay(client: socket.socket, login: Login) -> None:
    """Pass one connection on, until a side ends it."""
    # The driver reports a connection that was closed; the error itself was found by PyMySQL before.
    with client, suppress(OSError), ExitStack() as stack:
        seconds = login.arguments["connect_timeout"]
        plain = stack.enter_context(socket.create_connection((login.host, login.port), seconds))
        server = stack.enter_context(_secured(client, plain, login))
        server.settimeout(None)
        if _log_in(client, server):
            _pass_on(client, server)


def _secured(client: socket.socket, plain: socket.socket, login: Login) -> ssl.SSLSocket:
    """Pass the greeting on without its offer of TLS, and accept the offer."""
    greeting = _read(plain)
    place = greeting.payload.index(b"\0", 1) + 1 + _AFTER_VERSION
    offered = int.from_bytes(greeting.payload[place : place + 2], "little")
    if not offered & _SSL:
        raise RelayError
    hidden = (offered & ~_SSL).to_bytes(2, "little")
    _write(client, greeting.number, greeting.payload[:place] + hidden + greeting.payload[place + 2 :])
    answer = _read(client)
    payload = _with_tls(answer.payload)
    _write(plain, answer.number, payload[:_REQUEST_SIZE])
    server = login.context().wrap_socket(plain, server_hostname=login.host)
    _write(server, answer.number + 1, payload)
    return server


def _log_in(client: socket.socket, server: ssl.SSLSocket) -> bool:
    """Pass the packets of the login on; return whether the server accepts it."""
    while True:
        packet = _read(server)
        _write(client, packet.number - 1, packet.payload)
        if packet.payload[:1] in (bytes([_OK]), bytes([_ERROR])):
            return packet.payload[0] == _OK
        if packet.payload[:1] == b"\x01" and packet.payload[1:2] == b"\x03":
            continue  # the password is known, and the acceptance follows
        answer = _read(client)
        _write(server, answer.number + 1, answer.payload)


def _pass_on(client: socket.socket, server: ssl.SSLSocket) -> None:
    """Pass bytes on; commands and answers alternate, so that one thread is enough."""
    while True:
        ready = [server] if server.pending() else select([client, server], [], [])[0]
        for source in ready:
            data = source.recv(_AT_ONCE)
            if not data:
                return
            (client if source is server else server).sendall(data)


def _with_tls(answer: bytes) -> bytes:
    flags = int.from_bytes(answer[:4], "little") | _SSL
    return flags.to_bytes(4, "little") + answer[4:]


def _read(source: socket.socket) -> _Packet:
    header = _receive(source, 4)
    return _Packet(header[3], _receive(source, int.from_bytes(header[:3], "little")))


def _receive(source: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = source.recv(size - len(parts))
        if not part:
            raise RelayError
        parts += part
    return bytes(parts)


def _write(target: socket.socket, number: int, payload: bytes) -> None:
    target.sendall(len(payload).to_bytes(3, "little") + bytes([number & 255]) + payload)
