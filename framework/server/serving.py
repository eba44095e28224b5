"""The process of the server: its address, its sign-in, and its end."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import uvicorn

from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError, UserError
from framework.server.access.roles import Role
from framework.server.access.state import RunningServer
from framework.server.app import application
from framework.server.server import Part, Ports, Server, Settings
from framework.server.web.connections import LimitedConnection
from framework.server.web.guard import LOOPBACK, Policy
from framework.server.web.proxy import TrustedProxy
from framework.server.web.routes import Route

DEFAULT_PORT = 8642
_MOST_PORTS = 20
_SHUTDOWN_SECONDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the server listens.

    Args:
        host: an address of this machine; other machines reach only those that are not loopback.
        port: the port; None for 8642 or the next free one.
        allowed_hosts: further names by which browsers reach the server.
        certificate, key: the files for HTTPS.
        proxy: the proxy that signs users in.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    allowed_hosts: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    proxy: TrustedProxy | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """The other parts of a server: they are told of events, and have routes."""

    parts: Sequence[Callable[[Server], Part]] = ()
    routes: Sequence[Route] = ()
    ports: Ports = field(default_factory=Ports)


def serve(
    settings: Settings, address: Address, clock: Clock, ready: Callable[[str, Server], None],
    extras: Extras | None = None,
) -> None:  # fmt: skip
    """Serve until the process is told to end; updates that run then go on.

    Args:
        settings: the pipelines, and the folders of the server.
        address: where it listens.
        clock: the clock.
        ready: called with the URL once requests are answered.
        extras: other parts.

    Raises:
        UserError: SERVE_UNPROTECTED, before anything listens.
        OperationError: SERVE_PORT_USED.
    """
    more = extras or Extras()
    server = Server(settings, clock, more.ports, more.parts)
    check_protected(server, address)
    listening = bound(address)
    port = int(listening.getsockname()[1])
    scheme = "http" if address.certificate is None else "https"
    hosts = (*LOOPBACK, *map(str.lower, address.allowed_hosts))
    policy = Policy(port=port, hosts=hosts, is_tls=scheme == "https", proxy=address.proxy)
    shown = "127.0.0.1" if address.is_loopback else next(iter(address.allowed_hosts), address.host)
    config = uvicorn.Config(
        application(server, policy, more.routes), http=LimitedConnection, log_level="warning", access_log=False,
        server_header=False, timeout_graceful_shutdown=_SHUTDOWN_SECONDS, lifespan="on", ws="none", proxy_headers=False,
        ssl_certfile=address.certificate, ssl_keyfile=address.key,
    )  # fmt: skip
    url = f"{scheme}://{shown}:{port}"
    running = RunningServer(settings.state_folder, url)

    def started() -> None:
        running.write()
        ready(url, server)

    try:
        _WebServer(config, server, started).run(sockets=[listening])
    finally:
        running.delete()


def trusted_proxy(networks: Sequence[str], roles: Sequence[str]) -> TrustedProxy | None:
    """Return what a proxy may say, from texts such as `10.0.0.5/32` and `team=operate`; None without any.

    Raises:
        UserError: SERVE_PROXY_INVALID.
    """
    if not networks and not roles:
        return None
    if not networks or not roles:
        lacking = "--trusted-proxy CIDR" if roles else "--proxy-role GROUP=ROLE"
        raise UserError("SERVE_PROXY_INVALID", what="settings", value="", expected=f"Add {lacking}: both are needed.")
    found = []
    for text in networks:
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            raise UserError("SERVE_PROXY_INVALID", what="address", value=text, expected=f"{error}.") from error
        if network.prefixlen == 0:
            expected = "It has every address: any client could say that it is anybody. Name those of the proxy only."
            raise UserError("SERVE_PROXY_INVALID", what="address", value=text, expected=expected)
        found.append(network)
    named = {}
    for text in roles:
        group, _, role = text.rpartition("=")
        if not group.strip() or "," in group or role not in set(Role) or group in named:
            expected = f"Give each group once, as GROUP=ROLE; the roles are {', '.join(Role)}."
            raise UserError("SERVE_PROXY_INVALID", what="role", value=text, expected=expected)
        named[group] = Role(role)
    return TrustedProxy(networks=tuple(found), roles=named)


def check_protected(server: Server, address: Address) -> None:
    """Check that an address that other machines reach has a token or a proxy, and names of its host.

    Raises:
        UserError: SERVE_UNPROTECTED.
    """
    if address.is_loopback:
        return
    if address.proxy is None and not server.tokens.list_all():
        raise UserError("SERVE_UNPROTECTED", address=address.host, lacking="and there is no token")
    if not address.allowed_hosts:
        raise UserError("SERVE_UNPROTECTED", address=address.host, lacking="and no host is allowed")


def bound(address: Address) -> socket.socket:
    """Return a socket that listens at an address; without a port, at the first free one from 8642 on.

    Raises:
        OperationError: SERVE_PORT_USED.
    """
    first = DEFAULT_PORT if address.port is None else address.port
    ports = range(first, first + (_MOST_PORTS if address.port is None else 1))
    for port in ports:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((address.host, port))
            found.listen(128)
        except OSError:
            found.close()
        else:
            found.set_inheritable(False)
            return found
    raise OperationError("SERVE_PORT_USED", address=address.host, port=first)


class _WebServer(uvicorn.Server):
    """A web server that says when it is ready, and ends its streams when it is told to end."""

    def __init__(self, config: uvicorn.Config, server: Server, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._server = server
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the streams, which would keep their connections open."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._server.hub.close)
        super().handle_exit(sig, frame)
