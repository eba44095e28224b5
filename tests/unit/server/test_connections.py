"""Clients that are slow, or many, over real sockets: they are cut, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from framework.server.web.connections import LimitedConnection
from tests.support.server_world import World, listening, record_shop, world_of


class Quick(LimitedConnection):
    """A connection with short times and few places."""

    most = 5
    request_seconds = 0.6
    reading_seconds = 0.6
    closing_seconds = 0.6


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server over the recorded pipeline `shop`."""
    folder = tmp_path_factory.mktemp("served")
    record_shop(folder / "shop")
    with world_of(folder) as made:
        yield made


@pytest.fixture(scope="module")
def address(world: World) -> Iterator[tuple[str, int]]:
    """Where it listens."""
    with listening(world, Quick) as url:
        yield (str(urlsplit(url).hostname), int(urlsplit(url).port or 0))


def opened(address: tuple[str, int], sent: bytes = b"") -> socket.socket:
    """A connection over which something was sent."""
    made = socket.create_connection(address, timeout=10)
    made.sendall(sent)
    return made


def is_cut(connection: socket.socket) -> bool:
    """Whether the server has ended a connection, after some bytes at most."""
    with connection:
        try:
            while connection.recv(65_536):
                pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True


def received(connection: socket.socket, text: bytes) -> bytes:
    """What the server sends until a text, which comes before the connection ends."""
    found = b""
    while text not in found:
        part = connection.recv(65_536)
        assert part, found
        found += part
    return found


def health(address: tuple[str, int]) -> bytes:
    """The first line of the answer to an honest request."""
    with opened(address, b"GET /api/sluice/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as made:
        return made.recv(65_536).partition(b"\r\n")[0]


_HEAD = b"POST /api/sluice/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_OWN = b"Origin: http://localhost\r\nX-Sluice-Request: 1\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /api",
        b"GET /api/sluice/v1/health HTTP/1.1\r\nHost: localhost\r\nX: ",
        _HEAD + _OWN + b"Content-Length: 100\r\n\r\n{",
        _HEAD + _OWN + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        _HEAD + _OWN + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n",
        b"GET /api/sluice/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api",
    ],
)
def test_a_request_that_does_not_end_is_cut(address: tuple[str, int], sent: bytes) -> None:
    """Headers that never end, bodies that do not come, and nothing at all; also after a first good request."""
    connection = opened(address, sent)
    assert b"HTTP/1.1 200 OK" == health(address)
    begun = time.monotonic()
    assert is_cut(connection)
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize(
    "head", [b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", _HEAD + _OWN + b"Content-Length: 99\r\n\r\n"]
)
def test_a_request_that_trickles_is_cut(address: tuple[str, int], head: bytes) -> None:
    """A byte now and then does not prolong the time of the request."""
    connection, count = opened(address, head), 0
    with connection, contextlib.suppress(ConnectionError):
        while count < 100:
            connection.sendall(b"x")
            time.sleep(0.1)
            count += 1
    assert count < 60


def test_many_connections_without_a_request_keep_nobody_out(address: tuple[str, int]) -> None:
    """The oldest of them makes room."""
    idle = [opened(address) for _ in range(20)]
    assert [b"HTTP/1.1 200 OK"] * 5 == [health(address) for _ in range(5)]
    assert all(is_cut(each) for each in idle)


def test_a_client_that_does_not_read_its_answer_is_cut(world: World, address: tuple[str, int]) -> None:
    """It asks for much, again and again, and reads nothing."""
    token = world.headers()["Authorization"].encode()
    ask = b"GET /api/sluice/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + token + b"\r\n\r\n"
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(address)
    made.settimeout(0.2)
    with made:
        with contextlib.suppress(TimeoutError, ConnectionError):
            made.sendall(ask * 2_000)
        deadline, ended = time.monotonic() + 10, False
        while not ended and time.monotonic() < deadline:
            time.sleep(0.1)
            try:
                made.sendall(b"x")
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
    assert ended
    assert b"HTTP/1.1 200 OK" == health(address)


def test_a_connection_may_be_used_again_and_an_idle_one_ends(address: tuple[str, int]) -> None:
    """Two requests on one connection are answered, however long the pause between them is within five seconds."""
    ask = b"GET /api/sluice/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with opened(address, ask) as made:
        for _ in range(2):
            assert received(made, b"}").startswith(b"HTTP/1.1 200 OK")
            time.sleep(1.0)
            made.sendall(ask)


def test_a_stream_stays_open(world: World, address: tuple[str, int]) -> None:
    """Its request has ended, so that no time cuts it."""
    token = world.headers()["Authorization"].encode()
    ask = b"GET /api/sluice/v1/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + token + b"\r\n\r\n"
    with opened(address, ask) as made:
        received(made, b"event: snapshot")
        time.sleep(1.5)
        world.server.hub.publish(["home"], "pipeline", "still here")
        received(made, b"still here")
